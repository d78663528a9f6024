import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Reason } from '../../domain/flow-reasons.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import { mayBeThere, type OwedRow } from '../../repositories/flows/deliveries.ts'
import type { FlowTrace } from '../flow-trace.ts'
import { splitKey } from '../item/key.ts'
import { MappingError } from '../mapping.ts'
import type {
  DeliveryJob,
  Destination,
  DestinationDefinition,
  ItemChange,
  Remembered,
} from '../types.ts'
import type { Gate } from './gate.ts'
import { bodyHash, type ItemBody, isSkip } from './item-body.ts'
import {
  type Answers,
  type Attempted,
  again,
  failure,
  judge,
  type Outcome,
  postponed,
  type Refusal,
  type RetryRules,
  reportOf,
  type Tried,
  traceOf,
} from './outcome.ts'
import type { QueueLog } from './queue.ts'
import type { Owed } from './worker.ts'

export type AttemptDeps = {
  now: () => Date
  /** From 0 to below 1; spreads the pauses between attempts. */
  random: () => number
  log: QueueLog
  /**
   * How long an attempt may go on beyond its time, in milliseconds. It is waited for, since a second one beside it could
   * overtake it; a store with many boxes takes minutes at the provider.
   */
  overrunMs?: number
  trace?: Pick<FlowTrace, 'noteAttempt'> | undefined
}

/** A destination that is open, with all that an attempt needs of its definition. */
export type OpenDestination = {
  flow: string
  /** What the destination is; see definition/identity.ts. */
  identity: string
  /** How many fields the items' key has. */
  keyFields: number
  /** When this process began to work the queue, by the database's clock; undefined before. */
  termBeganAt?: Date | undefined
  definition: Pick<DestinationDefinition, 'name' | 'retry' | 'timeoutMs'>
  destination: Destination
  body: ItemBody
  gate: Gate
  company: Company
}

const longestOverrunMs = 5 * 60_000
const longestWaitMs = 1_000
/** A row with what is remembered of its item. */
export type Waiting = OwedRow & { remembered?: Remembered | undefined }

/**
 * One attempt to deliver rows, with an outcome for each. Never rejects for what an item, its mapping or the destination does.
 * When `signal` aborts the attempt is broken off and does not count, unless the destination has answered that it arrived.
 * Without the permit, which is asked for last of all, nothing is sent and nothing counted.
 */
export async function attemptDelivery(
  deps: AttemptDeps,
  target: OpenDestination,
  owed: readonly Owed<Waiting>[],
  signal: AbortSignal,
  permit: SendPermit,
): Promise<readonly Outcome[]> {
  const { definition, gate, company, body } = target
  const outcomes = owed.map<Outcome>(() => ({ kind: 'nothing' }))
  // One chance for all: those that fail together come again together.
  const chance = deps.random()
  const rules = { random: () => chance, now: deps.now, retry: definition.retry }
  let may = (): boolean => false
  let wasWithheld = false
  const ready: Attempted[] = []
  for (const [place, { pk, row }] of owed.entries()) {
    if (row.state !== 'waiting') continue
    const made = await prepare(rules, target, place, row, () => {
      const isGiven = may()
      if (isGiven) one.mayHaveArrived = true
      else wasWithheld = true
      return isGiven
    })
    if ('outcome' in made) {
      outcomes[place] = made.outcome
      continue
    }
    const one: Attempted = { ...made, pk, mayHaveArrived: false }
    ready.push(one)
  }
  if (ready.length === 0) return outcomes

  const postponeAll = (delayMs: number) => {
    for (const one of ready) outcomes[one.place] = postponed(one, body, delayMs)
    return outcomes
  }
  const mayStart = await permit()
  if (!mayStart) return postponeAll(0)
  const begun = await beginSoon(gate, signal)
  if ('waitMs' in begun) return postponeAll(begun.waitMs)
  may = mayStart

  const pks = ready.map(({ pk }) => pk)
  const jobs = ready.map(({ job }) => job)
  const beganAt = performance.now()
  const answers = await ask(deps, target, jobs, signal)
  const durationMs = performance.now() - beganAt
  if (answers === 'apart' && !signal.aborted) {
    begun.report('answered')
    company.apart(pks)
    return postponeAll(0)
  }
  company.together(pks)
  const broken = wasWithheld || signal.aborted
  const refusals: Refusal[] = []
  for (const [index, one] of ready.entries()) {
    const answer = typeof answers === 'string' ? answers : (answers[index] ?? 'thrown')
    const judged = judge(answer, one, { ...rules, timeoutMs: definition.timeoutMs, body, broken })
    outcomes[one.place] = judged.outcome
    if (!judged.refusal) continue
    refusals.push(judged.refusal)
    if (judged.refusal.apart) company.alone(one.pk)
  }
  deps.trace?.noteAttempt({
    flow: target.flow,
    destination: definition.name,
    items: jobs.length,
    delivered: outcomes.filter(({ kind }) => kind === 'delivered').length,
    durationMs,
    ...traceOf(answers, refusals),
  })
  const { report, note } = reportOf(answers, refusals, { items: ready.length, broken })
  begun.report(report, note)
  return outcomes
}

/** What may start in a moment is not worth a trip to the database. Others may have started since this was claimed. */
async function beginSoon(gate: Gate, signal: AbortSignal): Promise<ReturnType<Gate['begin']>> {
  const until = performance.now() + longestWaitMs
  for (;;) {
    const begun = gate.begin()
    const isSoon = 'waitMs' in begun && begun.waitMs <= until - performance.now()
    if (!isSoon || signal.aborted) return begun
    await wait(begun.waitMs)
  }
}

export const neverSent: Reason = { code: 'NEVER_SENT' }
export const sameBody: Reason = { code: 'SAME_BODY' }

type Rules = RetryRules & Pick<AttemptDeps, 'now'>

/** What is to be sent of a row; an outcome when its mapping fails. */
async function prepare(
  rules: Rules,
  target: OpenDestination,
  place: number,
  row: Waiting,
  mayStart: () => boolean,
): Promise<Omit<Attempted, 'pk' | 'mayHaveArrived'> | { outcome: Outcome }> {
  const { pk, version, change_number: change, kind, hash, payload: item } = row
  if (item === null) throw new Error('a delivery that waits has no item')
  const attempt = row.attempts + 1
  const tried: Tried = { version, change: kind, hash }
  if (kind === 'delete' && !mayBeThere(row) && !mayHaveBeenBegun(rules, target, row)) {
    return { outcome: { kind: 'skipped', ...tried, why: neverSent } }
  }
  try {
    const body = await (kind === 'delete'
      ? target.body.ofDelete(item, row.delivered_fields)
      : target.body.ofUpsert(item, row.delivered_fields))
    if (isSkip(body)) return { outcome: { kind: 'skipped', ...tried, why: body.why } }
    if (kind === 'upsert' && hasBody(row, body) && !mayHaveBeenBegun(rules, target, row)) {
      return { outcome: { kind: 'unchanged', ...tried, body: bodyHash(hash, body) } }
    }
    const { remembered } = row
    const job = jobOf(target, { pk, kind, hash, change, item, body, attempt, remembered, mayStart })
    return { place, tried, attempt, job }
  } catch (error) {
    if (!(error instanceof MappingError)) throw error
    const failed = failure(error.why, attempt)
    const outcome: Outcome = error.outOfTime
      ? again(rules, tried, failed)
      : { kind: 'final', ...tried, failure: failed }
    return { outcome }
  }
}

/** Whether this body is what was delivered last, and nothing may have arrived since. */
export function hasBody(
  row: Pick<OwedRow, 'delivered_hash' | 'delivered_body' | 'may_have_arrived'>,
  body: unknown,
): boolean {
  const { delivered_hash: hash, delivered_body: delivered, may_have_arrived: isInDoubt } = row
  return !isInDoubt && hash !== null && !!delivered && bodyHash(hash, body) === delivered
}

/**
 * Whether a process that worked the queue before may have sent an upsert of the row and have been killed then: nothing is noted of an
 * attempt before it ends. A row that is overwritten while it waits keeps the time since when it waits.
 */
function mayHaveBeenBegun(
  { now }: Pick<AttemptDeps, 'now'>,
  { termBeganAt }: Pick<OpenDestination, 'termBeganAt'>,
  { version, queued_at: waitsSince }: Waiting,
): boolean {
  const isOverwritten = version > 1
  // A time ahead was written before the clock was set back.
  const isEarlier = termBeganAt === undefined || waitsSince <= termBeganAt || waitsSince > now()
  return isOverwritten && isEarlier
}

/** What a destination is asked to do. */
export function jobOf(
  target: Pick<OpenDestination, 'flow' | 'identity' | 'keyFields' | 'definition'>,
  owed: Pick<DeliveryJob, 'pk' | 'kind' | 'item' | 'body' | 'attempt' | 'remembered' | 'mayStart'> &
    Pick<ItemChange, 'hash' | 'change'>,
): DeliveryJob {
  const { flow, identity, keyFields, definition } = target
  const { pk, kind, item, body, attempt, remembered, mayStart, hash, change } = owed
  const destination = definition.name
  // Field by field: of what is spread each copy costs more than all else here.
  return {
    pk,
    kind,
    item,
    body,
    attempt,
    remembered,
    mayStart,
    flow,
    destination,
    key: splitKey(pk, keyFields) ?? [pk],
    // Most destinations send none, and a digest costs as much as all else that a row needs.
    get jobKey() {
      return jobKey({ flow, destination, identity, pk, change, kind, hash })
    },
  }
}

/** The destination's answers, within their time and what they may overrun. */
async function ask(
  deps: AttemptDeps,
  { flow, destination, definition }: OpenDestination,
  jobs: readonly DeliveryJob[],
  signal: AbortSignal,
): Promise<Answers> {
  const [job, ...others] = jobs
  const about = { flow, destination: definition.name, pk: job?.pk, items: jobs.length }
  const own = new AbortController()
  const overdue = Promise.withResolvers<Answers>()
  let patience: NodeJS.Timeout | undefined
  const giveUp = (reason: unknown) => {
    if (patience) return
    own.abort(reason)
    patience = setTimeout(() => {
      deps.log.error(about, 'a destination does not end its attempt; it is no longer waited for')
      overdue.resolve('overdue')
    }, deps.overrunMs ?? longestOverrunMs)
  }
  const letGo = () => giveUp(signal.reason)
  signal.addEventListener('abort', letGo, { once: true })
  if (signal.aborted) letGo()
  const timer = setTimeout(
    () => giveUp(new DOMException('the attempt took too long', 'TimeoutError')),
    definition.timeoutMs,
  )
  const deliver = async (): Promise<Answers> => {
    try {
      if (!job || (others.length > 0 && !destination.batches)) throw new Error('no batch')
      return others.length > 0 && destination.batches
        ? await destination.batches.deliver(jobs, own.signal)
        : [await destination.deliver(job, own.signal)]
    } catch (error) {
      // Told to break off, it may do so by throwing.
      if (own.signal.aborted) return 'overdue'
      deps.log.error({ ...about, err: error }, 'a destination failed unexpectedly')
      return 'thrown'
    }
  }
  try {
    return await Promise.race([deliver(), overdue.promise])
  } finally {
    clearTimeout(timer)
    clearTimeout(patience)
    signal.removeEventListener('abort', letGo)
  }
}

/** With how many others an item goes in one request. */
export type Company = {
  most(pk: string, kind: 'upsert' | 'delete'): number
  /** They were refused together: each goes with fewer others next time. */
  apart(pks: readonly string[]): void
  /** The batch cannot have it, whatever it has besides: it goes alone next time. */
  alone(pk: string): void
  /** What became of them is known. */
  together(pks: readonly string[]): void
}

/** Of a thousand that are refused because of one, it stands alone after three times. */
const shrinkBy = 8

/**
 * Lets batches that are refused as a whole become smaller, until the items that spoil them stand alone. It forgets with the
 * process, and then begins anew: no attempt counts before an item has been answered for.
 */
export function createCompany({ batches }: Pick<Destination, 'batches'>): Company {
  const limits = new Map<string, number>()
  return {
    most: (pk, kind) =>
      Math.min(limits.get(pk) ?? Number.POSITIVE_INFINITY, batches?.most(kind) ?? 1),
    apart: (pks) => {
      const most = Math.max(1, Math.floor(pks.length / shrinkBy))
      for (const pk of pks) limits.set(pk, most)
    },
    alone: (pk) => {
      limits.set(pk, 1)
    },
    together: (pks) => {
      for (const pk of pks) limits.delete(pk)
    },
  }
}

/**
 * The key of a delivery, 64 hex digits, of which the idempotency key of each of its requests is made (see requestKey): the same for every attempt of one change, also after a crash, and another
 * for the next change of the item, even back to what it was. A key per content would have a receiver that remembers keys
 * take the second 100 of 100, 90, 100 for done. The content is in it nevertheless: a database that is restored from a
 * backup counts changes anew.
 *
 * Written as JSON before it is hashed, so that no two deliveries share one by where their parts begin and end.
 */
export function jobKey(delivery: {
  flow: string
  destination: string
  /** What the destination is; see definition/identity.ts. */
  identity: string
  pk: string
  change: number
  kind: 'upsert' | 'delete'
  hash: string
}): string {
  const { flow, destination, identity, pk, change, kind, hash } = delivery
  const text = JSON.stringify([flow, destination, identity, pk, change, kind, hash])
  return createHash('sha256').update(text).digest('hex')
}
