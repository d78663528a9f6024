import type { Database, Db, Trx } from '../../db/database.ts'
import { isDatabaseUnavailable, isRepeatable } from '../../db/database-failures.ts'
import type { Log } from '../../domain/log.ts'
import type { Term } from '../../jobs/leader.ts'
import { LeaseLostError } from '../../jobs/with-lease.ts'
import {
  type DeliveryResultRow,
  type RowResult,
  writeResults,
} from '../../repositories/flows/delivery-results.ts'
import type { DeliveryTarget, OutcomeTarget } from '../../repositories/flows/delivery-target.ts'
import {
  addJobTotals,
  completeArrived,
  completeDelivered,
} from '../../repositories/flows/due-deliveries.ts'
import { insertFlowErrors } from '../../repositories/flows/flow-errors.ts'
import { markUnread } from '../../repositories/flows/flow-items.ts'
import { insertFormerIdentities } from '../../repositories/flows/former-identities.ts'
import { insertItemAttempts, type NewItemAttempt } from '../../repositories/flows/item-versions.ts'
import { forgetDigests } from '../../repositories/flows/missing-items.ts'
import { forgetRemembered, writeRemembered } from '../../repositories/flows/remembered-values.ts'
import type { DeliveryOutcome, FinalFailure } from './retry-rules.ts'
import { sameBody } from './retry-rules.ts'

/** Proves that no other process has led since an item was read. */
export type TermProof = Pick<Term, 'holds' | 'proof'>

export type ItemOutcome<DeliveryOutcome> = { pk: string; outcome: DeliveryOutcome }

export type SavedOutcomes = {
  delivered: number
  retried: number
  finals: FinalFailure[]
  /** Keys with another delivery that is due at once. */
  again: string[]
}

/**
 * Outcomes that were written although the rest of their group failed. The group is written again, and these must not
 * be reported twice.
 */
const written = new WeakSet<ItemOutcome<DeliveryOutcome>>()

/**
 * Saves a group of outcomes. Plain arrivals take one statement without a transaction; saveOutcomes writes the others.
 */
export async function saveGroup(
  { db, transaction }: Pick<Database, 'db' | 'transaction'>,
  target: OutcomeTarget,
  group: readonly ItemOutcome<DeliveryOutcome>[],
  at: Date,
  fence: TermProof,
): Promise<SavedOutcomes> {
  const unwritten = group.filter((one) => !written.has(one))
  const arrived = await saveArrived(db, target, unwritten, at, fence)
  for (const one of unwritten) if (arrived.has(one.pk)) written.add(one)
  const others = unwritten.filter((one) => !written.has(one))
  const saved =
    others.length === 0
      ? { delivered: 0, retried: 0, finals: [], again: [] }
      : await transaction((trx) => saveOutcomes(trx, target, others, at, fence))
  return { ...saved, delivered: saved.delivered + group.length - others.length }
}

/** Returns the keys that are done. */
async function saveArrived(
  db: Db,
  target: OutcomeTarget,
  group: readonly ItemOutcome<DeliveryOutcome>[],
  at: Date,
  fence: TermProof,
): Promise<Set<string>> {
  const lease = fence.proof()
  const arrived = group.flatMap(({ pk, outcome }) =>
    outcome.kind === 'delivered' && !outcome.former ? [{ pk, delivered: outcome }] : [],
  )
  if (lease === undefined || arrived.length === 0) return new Set()
  try {
    return await completeArrived(db, target, arrived, at, lease)
  } catch (error) {
    // Nothing was written. The transaction tries again.
    if (isRepeatable(error)) return new Set()
    throw error
  }
}

/**
 * Writes the outcomes of items in the given transaction. It locks the rows first: a change that came meanwhile is
 * seen here and makes the row due again, or waits for this transaction. For an older version only an arrival is
 * stored. `keepsHistory` records every attempt. Rejects with LeaseLostError if another process has led since.
 */
async function saveOutcomes(
  trx: Trx,
  target: OutcomeTarget,
  group: readonly ItemOutcome<DeliveryOutcome>[],
  at: Date,
  fence: TermProof,
): Promise<SavedOutcomes> {
  const { flow, destination, keepsHistory } = target
  const tried = group.map(({ pk, outcome }) =>
    outcome.kind === 'delivered' ? { pk, delivered: outcome } : { pk },
  )
  const formers = group.flatMap(({ outcome }) =>
    'former' in outcome && outcome.former ? [outcome.former] : [],
  )
  await insertFormerIdentities(trx, target, formers, at)
  const completed = await completeDelivered(trx, target, tried, at)
  const rows = new Map(completed.map((row) => [row.pk, row]))
  const saved: SavedOutcomes = { delivered: 0, retried: 0, finals: [], again: [] }
  const results: DeliveryResultRow[] = []
  for (const { pk, outcome } of group) {
    if (outcome.kind === 'delivered') saved.delivered += 1
    const row = rows.get(pk)
    if (!row) continue
    const begun =
      !row.may_have_arrived && 'begun' in outcome && outcome.begun ? outcome.begun : undefined
    const isOpen = row.state === 'waiting' && !row.isDone
    if (!isOpen || outcome.kind === 'nothing' || outcome.version !== row.version) {
      if (isOpen) saved.again.push(pk)
      if (isOpen && outcome.kind === 'delivered') {
        const { hash, digest, body, claim } = outcome
        results.push({ pk, became: 'delivered_before', hash, digest, body, claim })
      } else if (begun) results.push({ pk, became: 'begun', begun })
      continue
    }
    results.push({ pk, ...resultOf(outcome), begun })
    if (outcome.kind === 'retry') saved.retried += 1
    if (outcome.kind === 'postponed' && outcome.delayMs <= 0) saved.again.push(pk)
    if (outcome.kind === 'final') {
      saved.finals.push({ ...outcome.failure, flow, destination, pk, at })
    }
  }

  await writeResults(trx, target, results, at)
  const overwritten = group.flatMap(({ outcome }) =>
    outcome.kind === 'skipped' && outcome.overwritten !== undefined ? [outcome.overwritten] : [],
  )
  if (overwritten.length > 0) {
    await forgetDigests(trx, flow, [destination], overwritten)
    await markUnread(trx, flow, overwritten)
  }
  const isUnwritten = ({ pk }: ItemOutcome<DeliveryOutcome>) => rows.get(pk)?.isDone !== true
  await saveRemembered(trx, target, group.filter(isUnwritten), at)
  await insertFlowErrors(
    trx,
    saved.finals.map(({ pk, why, status, attempts }) => ({
      flow,
      adapter: destination,
      pk,
      why,
      status,
      attempts,
      at,
    })),
  )
  const failed = saved.finals.length
  const attempts = keepsHistory ? group.filter(isUnwritten).flatMap(attemptOf) : []
  const history = attempts.length > 0 ? insertItemAttempts(target, attempts, at) : undefined
  if (saved.delivered + failed > 0) {
    await addJobTotals(trx, flow, { completed: saved.delivered, failed }, history)
  } else {
    await history?.execute(trx)
  }
  // Last, because the lease stays locked until the commit.
  if (!(await fence.holds(trx))) throw new LeaseLostError()
  return saved
}

type Current = Exclude<DeliveryOutcome, { kind: 'nothing' }>

/** The result for a row whose current version the outcome concerns. */
function resultOf(outcome: Current): RowResult {
  switch (outcome.kind) {
    // Another statement wrote the row at the same moment.
    case 'delivered':
      return {
        became: 'delivered',
        digest: outcome.digest,
        body: outcome.body,
        claim: outcome.claim,
      }
    case 'unchanged':
      return { became: 'unchanged', digest: outcome.digest }
    case 'retry':
    case 'waits':
      return { became: 'retrying', ...outcome.failure, delayMs: outcome.delayMs }
    case 'postponed':
      return { became: 'postponed', delayMs: outcome.delayMs }
    case 'final':
      return { became: 'failed', ...outcome.failure }
    case 'skipped':
      return { became: 'skipped', why: outcome.why }
  }
}

/** Remembered values are valid for the item, whichever version was sent. */
async function saveRemembered(
  trx: Trx,
  target: DeliveryTarget,
  group: readonly ItemOutcome<DeliveryOutcome>[],
  at: Date,
): Promise<void> {
  const remembered = group.flatMap(({ pk, outcome }) =>
    'remember' in outcome && outcome.remember ? [{ pk, named: outcome.remember }] : [],
  )
  const outdated = group.flatMap(({ pk, outcome }) =>
    'forget' in outcome && outcome.forget === true ? [pk] : [],
  )
  await writeRemembered(trx, target, remembered, at)
  await forgetRemembered(trx, target, outdated)
}

/** The history entry of an outcome; none if no attempt was made or it does not count. */
function attemptOf({ pk, outcome }: ItemOutcome<DeliveryOutcome>): NewItemAttempt[] {
  switch (outcome.kind) {
    case 'delivered': {
      const { change: kind, hash, attempts: attempt, status } = outcome
      return [{ pk, kind, hash, attempt, outcome: 'delivered', status, why: null }]
    }
    case 'retry':
    case 'final': {
      const { change: kind, hash, failure } = outcome
      const { attempts: attempt, status, why } = failure
      const word = outcome.kind === 'retry' ? 'retry' : 'failed'
      return [{ pk, kind, hash, attempt, outcome: word, status, why }]
    }
    case 'unchanged':
    case 'skipped': {
      const { change: kind, hash } = outcome
      const why = outcome.kind === 'skipped' ? outcome.why : sameBody
      return [{ pk, kind, hash, attempt: 0, outcome: 'skipped', status: null, why }]
    }
    default:
      return []
  }
}

export type OutcomeWriter<DeliveryOutcome> = {
  add(outcome: ItemOutcome<DeliveryOutcome>): void
  /** How many are not written yet. */
  size(): number
  /** Resolves when nothing is left to write. */
  idle(): Promise<void>
}

export type OutcomeWriterOptions<DeliveryOutcome> = {
  /** Writes all of them or none. Rejects with LeaseLostError if another process has led since. */
  save(group: readonly ItemOutcome<DeliveryOutcome>[]): Promise<void>
  /** Called with outcomes whose lease was lost, before onOver. */
  lost(group: readonly ItemOutcome<DeliveryOutcome>[]): Promise<void>
  /** Called once for each item that is finished: its outcome was written, or its lease was lost. */
  onOver(pks: readonly string[]): void
  /** Called with an item whose outcome cannot be written. This process still has the lease. */
  onRefused(pk: string): Promise<void>
  /** Whether to wait for a database that is unavailable. */
  mayWait(): boolean
  /** Whether other outcomes are likely to follow soon. Without it none are waited for. */
  moreFollow?(): boolean
  sleep(ms: number): Promise<void>
  log: Log
  limits?: WriterLimits | undefined
}

/**
 * The largest group of a transaction, how many transactions run at a time, and how long the first outcome of a group waits for
 * others. A kill in this time sends their items again.
 */
export type WriterLimits = { groupSize: number; lanes: number; gatherMs?: number }

const oneByOne: WriterLimits = { groupSize: 500, lanes: 1 }

const retryMs = 1_000

/**
 * Writes outcomes in groups. Outcomes that come during a transaction share the next one, so a fast receiver does not
 * wait for a commit per item. A parallel transaction begins only with a full group. While the database restarts,
 * outcomes wait.
 */
export function createOutcomeWriter<DeliveryOutcome>(
  options: OutcomeWriterOptions<DeliveryOutcome>,
): OutcomeWriter<DeliveryOutcome> {
  const { groupSize, lanes, gatherMs = 0 } = options.limits ?? oneByOne
  const waiting: ItemOutcome<DeliveryOutcome>[] = []
  const writing = new Set<Promise<void>>()
  let unwritten = 0

  const over = (group: readonly ItemOutcome<DeliveryOutcome>[]) => {
    unwritten -= group.length
    options.onOver(group.map(({ pk }) => pk))
  }

  /** Repeats a write while the database is unavailable. */
  const untilAvailable = async (items: number, work: () => Promise<void>): Promise<void> => {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!isDatabaseUnavailable(error) || !options.mayWait()) throw error
        options.log.warn({ err: error, items }, 'delivery outcomes wait for the database')
        await options.sleep(retryMs)
      }
    }
  }

  const write = async (group: readonly ItemOutcome<DeliveryOutcome>[]): Promise<void> => {
    try {
      await untilAvailable(group.length, () => options.save(group))
      over(group)
    } catch (error) {
      if (error instanceof LeaseLostError) return await handOver(group)
      const [first] = group
      // One item that cannot be written must not block the others.
      if (group.length > 1) for (const one of group) await write([one])
      else if (first) {
        const { pk } = first
        options.log.error({ err: error, pk }, 'delivery outcome not stored')
        await options.onRefused(pk)
        over(group)
      }
    }
  }

  /** A lost lease never returns, so none of the group is written by itself. */
  const handOver = async (group: readonly ItemOutcome<DeliveryOutcome>[]) => {
    const pks = group.map(({ pk }) => pk)
    options.log.warn({ pks }, 'deliveries taken over by another process')
    try {
      await untilAvailable(group.length, () => options.lost(group))
    } catch (error) {
      options.log.error({ err: error, pks }, 'deliveries sent under an expired lease not requeued')
    }
    over(group)
  }

  const openLane = async () => {
    const lane = Promise.withResolvers<void>()
    writing.add(lane.promise)
    // Collects all outcomes that one attempt adds at the same time.
    await undefined
    while (waiting.length > 0) {
      const gathers = gatherMs > 0 && waiting.length < groupSize && options.moreFollow?.()
      if (gathers) await options.sleep(gatherMs)
      await write(waiting.splice(0, groupSize))
    }
    writing.delete(lane.promise)
    lane.resolve()
  }

  return {
    add: (outcome) => {
      waiting.push(outcome)
      unwritten += 1
      if (writing.size === 0 || (writing.size < lanes && waiting.length > groupSize))
        void openLane()
    },
    size: () => unwritten,
    idle: async () => {
      while (writing.size > 0) await Promise.all(writing)
    },
  }
}
