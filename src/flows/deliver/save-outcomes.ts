import type { Database, Db, Trx } from '../../db/database.ts'
import { isRepeatable } from '../../db/database-failures.ts'
import {
  type DeliveryTarget,
  lockDelivery,
  requeueDelivery,
} from '../../repositories/flows/deliveries.ts'
import {
  type DeliveryResultRow,
  type RowResult,
  writeResults,
} from '../../repositories/flows/delivery-results.ts'
import {
  addJobTotals,
  type CompletionTarget,
  completeArrived,
  completeDelivered,
} from '../../repositories/flows/due-deliveries.ts'
import { insertFlowErrors } from '../../repositories/flows/flow-errors.ts'
import { resetHashes } from '../../repositories/flows/flow-items.ts'
import { requestFullScan } from '../../repositories/flows/flow-state.ts'
import {
  findContent,
  insertItemAttempts,
  type NewItemAttempt,
} from '../../repositories/flows/item-versions.ts'
import { forgetRemembered, writeRemembered } from '../../repositories/flows/remembered-values.ts'
import { keyRecord } from '../item/item.ts'
import { sameBody } from './attempt.ts'
import type { FinalFailure, Outcome } from './outcome.ts'
import { DeliveryLeaseLostError, type Fence, type ItemOutcome } from './outcome-writer.ts'
import type { DeliveryQueue, QueueLog } from './queue.ts'

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
const written = new WeakSet<ItemOutcome<Outcome>>()

/**
 * Saves a group of outcomes. Plain arrivals take one statement without a transaction; saveOutcomes writes the others.
 */
export async function saveGroup(
  { db, transaction }: Pick<Database, 'db' | 'transaction'>,
  target: CompletionTarget,
  group: readonly ItemOutcome<Outcome>[],
  at: Date,
  fence: Fence,
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
  target: CompletionTarget,
  group: readonly ItemOutcome<Outcome>[],
  at: Date,
  fence: Fence,
): Promise<Set<string>> {
  const lease = fence.proof()
  const arrived = group.flatMap(({ pk, outcome }) =>
    outcome.kind === 'delivered' && !outcome.remember && !outcome.forget
      ? [{ pk, delivered: outcome }]
      : [],
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
 * stored. `keepsHistory` records every attempt. Rejects with DeliveryLeaseLostError if another process has led since.
 */
async function saveOutcomes(
  trx: Trx,
  target: CompletionTarget,
  group: readonly ItemOutcome<Outcome>[],
  at: Date,
  fence: Fence,
): Promise<SavedOutcomes> {
  const { flow, destination, keepsHistory } = target
  const tried = group.map(({ pk, outcome }) =>
    outcome.kind === 'delivered' ? { pk, delivered: outcome } : { pk },
  )
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
        const { hash, body, fields } = outcome
        results.push({ pk, became: 'delivered_before', hash, body, fields })
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
  await saveRemembered(trx, target, group, at)
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
  const others = group.filter(({ pk }) => rows.get(pk)?.isDone !== true)
  const attempts = keepsHistory ? others.flatMap(attemptOf) : []
  const history = attempts.length > 0 ? insertItemAttempts(target, attempts, at) : undefined
  if (saved.delivered + failed > 0) {
    await addJobTotals(trx, flow, { completed: saved.delivered, failed }, history)
  } else {
    await history?.execute(trx)
  }
  // Last, because the lease stays locked until the commit.
  if (!(await fence.holds(trx))) throw new DeliveryLeaseLostError()
  return saved
}

type Current = Exclude<Outcome, { kind: 'nothing' }>

/** The result for a row whose current version the outcome concerns. */
function resultOf(outcome: Current): RowResult {
  switch (outcome.kind) {
    // Another statement wrote the row at the same moment.
    case 'delivered':
      return { became: 'delivered', body: outcome.body, fields: outcome.fields }
    case 'unchanged':
      return { became: 'unchanged', body: outcome.body }
    case 'retry':
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
  group: readonly ItemOutcome<Outcome>[],
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
function attemptOf({ pk, outcome }: ItemOutcome<Outcome>): NewItemAttempt[] {
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

export type LostLeaseDeps = {
  database: Database
  queue: Pick<DeliveryQueue, 'wake'>
  now: () => Date
  log: QueueLog
}

/**
 * Handles an attempt after its lease was lost. Its request may arrive after a newer version of another process, for
 * example when this process was suspended. Then the newer version is queued again. Without its content the item is
 * forgotten, and the next poll (a full one) finds it again.
 */
export async function requeueAfterLostLease(
  { database, queue, now, log }: LostLeaseDeps,
  target: DeliveryTarget & { keyNames: readonly string[] },
  { pk, outcome }: ItemOutcome<Outcome>,
): Promise<void> {
  if (outcome.kind === 'nothing' || outcome.kind === 'unchanged') return
  if (outcome.kind === 'postponed' && !outcome.mayHaveArrived) return
  const { flow, destination, keyNames } = target
  const became = await database.transaction(async (trx) => {
    const row = await lockDelivery(trx, target, pk)
    // A permanent failure is visible as out of date. For the same version both processes sent the same body under one
    // key.
    if (!row || row.state === 'failed' || row.version <= outcome.version) return 'fine'
    const kept = row.payload ?? (await findContent(trx, flow, row))
    const payload = kept ?? (row.kind === 'delete' ? keyRecord(keyNames, pk) : undefined)
    if (!payload) return 'not kept'
    // A completed delete left no record of the item. The late request may have created it again.
    const begun = { fields: fieldsOf(outcome) }
    await writeResults(trx, target, [{ pk, became: 'begun', begun }], now())
    await requeueDelivery(trx, target, { pk, payload, at: now() })
    queue.wake(flow, destination)
    return 'requeued'
  })
  if (became === 'fine') return
  if (became === 'not kept') {
    await database.transaction(async (trx) => {
      await resetHashes(trx, flow, [pk])
      await requestFullScan(trx, flow)
    })
  }
  log.warn({ flow, destination, pk }, 'a late request may have arrived; the item is sent again')
}

/** The fields of the sent body that a delete of the same item needs. */
function fieldsOf(outcome: Outcome): unknown {
  if (outcome.kind === 'delivered') return outcome.fields
  return 'begun' in outcome ? outcome.begun?.fields : undefined
}
