import type { Database, Db, Trx } from '../../db/database.ts'
import { isRepeatable } from '../../db/database-failures.ts'
import {
  type DeliveryTarget,
  lockOwed,
  oweOnceMore,
  type Settling,
  settleArrived,
  settleDelivered,
} from '../../repositories/flows/deliveries.ts'
import {
  type DeliveryResultRow,
  type RowResult,
  writeResults,
} from '../../repositories/flows/delivery-results.ts'
import { insertFlowErrors } from '../../repositories/flows/flow-errors.ts'
import { resetHashes } from '../../repositories/flows/flow-items.ts'
import { requestFullScan } from '../../repositories/flows/flow-state.ts'
import { addJobTotals } from '../../repositories/flows/flow-totals.ts'
import {
  findContent,
  insertItemAttempts,
  type NewItemAttempt,
} from '../../repositories/flows/item-versions.ts'
import { forgetRemembered, writeRemembered } from '../../repositories/flows/remembered-values.ts'
import { keyRecord } from '../item/key.ts'
import { sameBody } from './attempt.ts'
import type { FinalFailure, Outcome } from './outcome.ts'
import type { DeliveryQueue, QueueLog } from './queue.ts'
import { proveClaims, type Settled } from './settlements.ts'

export type Settlement = {
  delivered: number
  retried: number
  finals: FinalFailure[]
  /** Owed all the same, and due at once. */
  again: string[]
}

/** What is written although the rest of its group was not: it comes again with that, and must not be told of twice. */
const written = new WeakSet<Settled<Outcome>>()

/** As settleOutcomes, which is left what did not simply arrive: that much takes one statement and no transaction around it. */
export async function settleGroup(
  { db, transaction }: Pick<Database, 'db' | 'transaction'>,
  target: Settling,
  group: readonly Settled<Outcome>[],
  at: Date,
): Promise<Settlement> {
  const unwritten = group.filter((one) => !written.has(one))
  const arrived = await settleWhatArrived(db, target, unwritten, at)
  for (const one of unwritten) if (arrived.has(one.claim.pk)) written.add(one)
  const others = unwritten.filter((one) => !written.has(one))
  const settlement =
    others.length === 0
      ? { delivered: 0, retried: 0, finals: [], again: [] }
      : await transaction((trx) => settleOutcomes(trx, target, others, at))
  return { ...settlement, delivered: settlement.delivered + group.length - others.length }
}

/** The keys of what is settled by that. */
async function settleWhatArrived(
  db: Db,
  target: Settling,
  group: readonly Settled<Outcome>[],
  at: Date,
): Promise<Set<string>> {
  const term = group[0]?.claim.term
  const lease = term?.proof()
  const arrived = group.flatMap(({ claim, outcome }) =>
    claim.term === term && outcome.kind === 'delivered' && !outcome.remember && !outcome.forget
      ? [{ pk: claim.pk, delivered: outcome }]
      : [],
  )
  if (lease === undefined || arrived.length === 0) return new Set()
  try {
    return await settleArrived(db, target, arrived, at, lease)
  } catch (error) {
    // Nothing was written; a transaction is tried again.
    if (isRepeatable(error)) return new Set()
    throw error
  }
}

/**
 * Writes what became of the claims, in the given transaction. The rows are locked first: a change that came meanwhile is
 * either seen here, and the row is due again, or it comes after this and makes it so. An outcome about an
 * older version settles only what was delivered. With `keepsHistory` every attempt is written down for the operator.
 * Rejects with ClaimLostError when a claim is not ours any longer.
 */
async function settleOutcomes(
  trx: Trx,
  target: Settling,
  group: readonly Settled<Outcome>[],
  at: Date,
): Promise<Settlement> {
  const { flow, destination, keepsHistory } = target
  const tried = group.map(({ claim: { pk }, outcome }) =>
    outcome.kind === 'delivered' ? { pk, delivered: outcome } : { pk },
  )
  const settled = await settleDelivered(trx, target, tried, at)
  const rows = new Map(settled.map((row) => [row.pk, row]))
  const settlement: Settlement = { delivered: 0, retried: 0, finals: [], again: [] }
  const results: DeliveryResultRow[] = []
  for (const { claim, outcome } of group) {
    const { pk } = claim
    if (outcome.kind === 'delivered') settlement.delivered += 1
    const row = rows.get(pk)
    if (!row) continue
    const begun =
      !row.may_have_arrived && 'begun' in outcome && outcome.begun ? outcome.begun : undefined
    const isOpen = row.state === 'waiting' && !row.isDone
    if (!isOpen || outcome.kind === 'nothing' || outcome.version !== row.version) {
      if (isOpen) settlement.again.push(pk)
      if (isOpen && outcome.kind === 'delivered') {
        const { hash, body, fields } = outcome
        results.push({ pk, became: 'delivered_before', hash, body, fields })
      } else if (begun) results.push({ pk, became: 'begun', begun })
      continue
    }
    results.push({ pk, ...resultOf(outcome), begun })
    if (outcome.kind === 'retry') settlement.retried += 1
    if (outcome.kind === 'postponed' && outcome.delayMs <= 0) settlement.again.push(pk)
    if (outcome.kind === 'final') {
      settlement.finals.push({ ...outcome.failure, flow, destination, pk, at })
    }
  }

  await writeResults(trx, target, results, at)
  await keepMemory(trx, target, group, at)
  await insertFlowErrors(
    trx,
    settlement.finals.map(({ pk, why, status, attempts }) => ({
      flow,
      adapter: destination,
      pk,
      why,
      status,
      attempts,
      at,
    })),
  )
  const failed = settlement.finals.length
  const others = group.filter(({ claim: { pk } }) => rows.get(pk)?.isDone !== true)
  const attempts = keepsHistory ? others.flatMap(attemptOf) : []
  const history = attempts.length > 0 ? insertItemAttempts(target, attempts, at) : undefined
  if (settlement.delivered + failed > 0) {
    await addJobTotals(trx, flow, { completed: settlement.delivered, failed }, history)
  } else {
    await history?.execute(trx)
  }
  await proveClaims(
    trx,
    group.map(({ claim }) => claim),
  )
  return settlement
}

type Current = Exclude<Outcome, { kind: 'nothing' }>

/** What becomes of a row whose current version an outcome is about. */
function resultOf(outcome: Current): RowResult {
  switch (outcome.kind) {
    // Somebody wrote into the row at the same moment.
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

/** What was told of an item is true of it, whichever version was sent. */
async function keepMemory(
  trx: Trx,
  target: DeliveryTarget,
  group: readonly Settled<Outcome>[],
  at: Date,
): Promise<void> {
  const told = group.flatMap(({ claim: { pk }, outcome }) =>
    'remember' in outcome && outcome.remember ? [{ pk, named: outcome.remember }] : [],
  )
  const untrue = group.flatMap(({ claim: { pk }, outcome }) =>
    'forget' in outcome && outcome.forget === true ? [pk] : [],
  )
  await writeRemembered(trx, target, told, at)
  await forgetRemembered(trx, target, untrue)
}

/** What is written down of an outcome; nothing when no attempt was made, or one that does not count. */
function attemptOf({ claim: { pk }, outcome }: Settled<Outcome>): NewItemAttempt[] {
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

export type LostClaimDeps = {
  database: Database
  queue: Pick<DeliveryQueue, 'wake'>
  now: () => Date
  log: QueueLog
}

/**
 * After an attempt whose claim was lost. It may have arrived behind a newer version that another process has sent since, as
 * when this one stood still in the middle of a request: then the newer one is owed once more. When its content is not kept
 * any longer the item is forgotten, and the next poll, a full one, finds it again.
 */
export async function makeGoodLostClaim(
  { database, queue, now, log }: LostClaimDeps,
  target: DeliveryTarget & { keyNames: readonly string[] },
  { claim: { pk }, outcome }: Settled<Outcome>,
): Promise<void> {
  if (outcome.kind === 'nothing' || outcome.kind === 'unchanged') return
  if (outcome.kind === 'postponed' && !outcome.mayHaveArrived) return
  const { flow, destination, keyNames } = target
  const became = await database.transaction(async (trx) => {
    const row = await lockOwed(trx, target, pk)
    // What failed for good shows as out of date; of the same version both have sent the same, under one key.
    if (!row || row.state === 'failed' || row.version <= outcome.version) return 'fine'
    const kept = row.payload ?? (await findContent(trx, flow, row))
    const payload = kept ?? (row.kind === 'delete' ? keyRecord(keyNames, pk) : undefined)
    if (!payload) return 'not kept'
    // A delete that is done has left no record of what was there; the late request may have put it back.
    const begun = { fields: fieldsOf(outcome) }
    await writeResults(trx, target, [{ pk, became: 'begun', begun }], now())
    await oweOnceMore(trx, target, { pk, payload, at: now() })
    queue.wake(flow, destination)
    return 'owed'
  })
  if (became === 'fine') return
  if (became === 'not kept') {
    await database.transaction(async (trx) => {
      await resetHashes(trx, flow, [pk])
      await requestFullScan(trx, flow)
    })
  }
  log.warn({ flow, destination, pk }, 'a late request may have arrived; the item is sent once more')
}

/** What an attempt sent of the fields that a delete of the same item uses. */
function fieldsOf(outcome: Outcome): unknown {
  if (outcome.kind === 'delivered') return outcome.fields
  return 'begun' in outcome ? outcome.begun?.fields : undefined
}
