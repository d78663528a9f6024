import { hash as hashOf } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../../domain/log.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import { mayBeThere, type PendingDelivery } from '../../repositories/flows/deliveries.ts'
import type { Reason } from '../../texts/reason.ts'
import type { FlowTrace } from '../flow-trace.ts'
import { itemKey, splitKey } from '../item/item.ts'
import type {
  DeliveryJob,
  Destination,
  DestinationDefinition,
  ItemChange,
  Remembered,
} from '../types.ts'
import { formerIdentity } from './claim-rules.ts'
import type { ClaimRule } from './claim-types.ts'
import type { QueuedItem } from './delivery-worker.ts'
import { bodyDigest, type ItemBody, isSkip, MappingError } from './item-body.ts'
import {
  type Answers,
  type Attempted,
  again,
  type DeliveryOutcome,
  failure,
  judgeDelivery,
  postponedOutcome,
  type Refusal,
  type RetryRules,
  reportOf,
  type Tried,
  traceOf,
} from './retry-rules.ts'
import type { SendingGate } from './sending-gate.ts'
import type { UncountedAttempts } from './uncounted-attempts.ts'

export type AttemptDeps = {
  now: () => Date
  /** From 0 to below 1. Spreads the pauses between attempts. */
  random: () => number
  log: Log
  /**
   * How long an attempt may exceed its timeout, in milliseconds. The worker waits, because a second attempt could
   * overtake it. A store with many boxes takes minutes at the provider.
   */
  overrunMs?: number
  trace?: Pick<FlowTrace, 'noteAttempt'> | undefined
}

/** An open destination, with what an attempt needs of its definition. */
export type OpenDestination = {
  flow: string
  /** The flow's first name, which idempotency keys contain. */
  keyName: string
  /** Identity of the destination; see definition/identity.ts. */
  identity: string
  /** Number of key fields of the items. */
  keyFields: number
  /** When this process began to work the queue, by the database's clock. Undefined before that. */
  termBeganAt?: Date | undefined
  definition: Pick<DestinationDefinition, 'name' | 'retry' | 'timeoutMs'>
  destination: Destination
  body: ItemBody
  claims: ClaimRule | undefined
  /** Whether the flow deletes what items leave under former identities. */
  deletes: boolean
  gate: SendingGate
  batchLimits: BatchLimits
  uncounted: UncountedAttempts
}

const longestOverrunMs = 5 * 60_000
const longestWaitMs = 1_000
/** A row with the remembered values of its item. */
export type Waiting = Omit<PendingDelivery, 'remembered'> & { remembered?: Remembered | undefined }

/**
 * Attempts to deliver rows. Returns an outcome for each. Errors of an item, its mapping or the destination never
 * reject. An aborted `signal` breaks the attempt off: it does not count, unless the destination confirmed arrival.
 * Without the permit, which is requested last, nothing is sent or counted.
 */
export async function attemptDelivery(
  deps: AttemptDeps,
  target: OpenDestination,
  queued: readonly QueuedItem<Waiting>[],
  signal: AbortSignal,
  permit: SendPermit,
): Promise<readonly DeliveryOutcome[]> {
  const { definition, gate, batchLimits, body, claims, uncounted } = target
  const outcomes = queued.map<DeliveryOutcome>(() => ({ kind: 'nothing' }))
  // One random value for all: items that fail together are retried together.
  const randomValue = deps.random()
  const rules = { random: () => randomValue, now: deps.now, retry: definition.retry }
  let may = (): boolean => false
  let wasWithheld = false
  const ready: Attempted[] = []
  for (const [place, { pk, row }] of queued.entries()) {
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
    for (const one of ready) outcomes[one.place] = postponedOutcome(one, { body, claims }, delayMs)
    return outcomes
  }
  const mayStart = await permit()
  if (!mayStart) return postponeAll(0)
  const begun = await beginSoon(gate, signal)
  if ('waitMs' in begun) return postponeAll(begun.waitMs)
  may = () => mayStart() && !gate.isStopped()
  const isProbe = gate.status().state === 'probing'

  const pks = ready.map(({ pk }) => pk)
  const jobs = ready.map(({ job }) => job)
  const beganAt = performance.now()
  const answers = await ask(deps, target, jobs, signal)
  const durationMs = performance.now() - beganAt
  if (answers === 'apart' && !signal.aborted) {
    begun.report('answered')
    batchLimits.apart(pks)
    return postponeAll(0)
  }
  batchLimits.together(pks)
  const broken = wasWithheld || signal.aborted
  const refusals: Refusal[] = []
  for (const [index, one] of ready.entries()) {
    const answer = typeof answers === 'string' ? answers : (answers[index] ?? 'thrown')
    const { timeoutMs } = definition
    const by = { ...rules, timeoutMs, body, claims, uncounted, isProbe, broken }
    const judged = judgeDelivery(answer, one, by)
    const row = queued[one.place]?.row
    outcomes[one.place] = row ? withFormer(judged.outcome, row, target) : judged.outcome
    if (!judged.ofReceiver) uncounted.end(one.pk)
    if (!judged.refusal) continue
    refusals.push(judged.refusal)
    if (judged.refusal.apart) batchLimits.alone(one.pk)
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
  if (report === 'answered') uncounted.answered()
  begun.report(report, note)
  return outcomes
}

/** The outcome with what it leaves under another identity. */
function withFormer(
  outcome: DeliveryOutcome,
  row: Waiting,
  { claims, deletes }: Pick<OpenDestination, 'claims' | 'deletes'>,
): DeliveryOutcome {
  if (!claims || !deletes) return outcome
  if (outcome.kind === 'delivered') {
    return { ...outcome, former: formerIdentity(claims, row, outcome, true) }
  }
  if (!('begun' in outcome) || !outcome.begun) return outcome
  return { ...outcome, former: formerIdentity(claims, row, outcome.begun, false) }
}

/**
 * A short wait is cheaper than a round trip to the database. Other attempts may have started since the rows were
 * read.
 */
async function beginSoon(
  gate: SendingGate,
  signal: AbortSignal,
): Promise<ReturnType<SendingGate['begin']>> {
  const until = performance.now() + longestWaitMs
  for (;;) {
    const begun = gate.begin()
    const isSoon = 'waitMs' in begun && begun.waitMs <= until - performance.now()
    if (!isSoon || gate.isStopped() || signal.aborted) return begun
    await wait(begun.waitMs)
  }
}

export const neverSent: Reason = { code: 'NEVER_SENT' }

type Rules = RetryRules & Pick<AttemptDeps, 'now'>

/** The job to send for a row; an outcome if its mapping fails. */
async function prepare(
  rules: Rules,
  target: OpenDestination,
  place: number,
  row: Waiting,
  mayStart: () => boolean,
): Promise<Omit<Attempted, 'pk' | 'mayHaveArrived'> | { outcome: DeliveryOutcome }> {
  const { pk, version, change_number: change, kind, hash, payload: item } = row
  if (item === null) throw new Error('a delivery that waits has no item')
  const attempt = row.attempts + 1
  const tried: Tried = { version, change: kind, hash }
  if (kind === 'delete' && !mayBeThere(row) && !mayHaveBeenBegun(rules, target, row)) {
    return { outcome: { kind: 'skipped', ...tried, why: neverSent } }
  }
  try {
    const body = await (kind === 'delete'
      ? target.body.ofDelete(item, row.delivered_body)
      : target.body.ofUpsert(item, row.delivered_body))
    if (isSkip(body)) {
      const isThere = kind === 'upsert' && mayBeThere(row)
      const why: Reason = isThere ? { code: 'STILL_THERE', data: { what: body.why } } : body.why
      return { outcome: { kind: 'skipped', ...tried, why } }
    }
    if (kind === 'upsert' && hasBody(row, body) && !mayHaveBeenBegun(rules, target, row)) {
      return { outcome: { kind: 'unchanged', ...tried, digest: bodyDigest(body) } }
    }
    const { remembered } = row
    const job = jobOf(target, { pk, kind, hash, change, item, body, attempt, remembered, mayStart })
    return { place, tried, attempt, job }
  } catch (error) {
    if (!(error instanceof MappingError)) throw error
    const failed = failure(error.why, attempt)
    const outcome: DeliveryOutcome = error.outOfTime
      ? again(rules, tried, failed)
      : { kind: 'final', ...tried, failure: failed }
    return { outcome }
  }
}

/**
 * Whether the destination has this body: it was the last one delivered, and no later attempt is in doubt. What waited for an
 * answer about the definition is sent without a look: its request may be another.
 */
function hasBody(
  row: Pick<PendingDelivery, 'delivered_hash' | 'delivered_digest' | 'may_have_arrived' | 'asked'>,
  body: unknown,
): boolean {
  const {
    delivered_hash: hash,
    delivered_digest: delivered,
    may_have_arrived: isInDoubt,
    asked,
  } = row
  if (isInDoubt || asked !== null || hash === null || !delivered) return false
  return bodyDigest(body) === delivered
}

/**
 * Whether a process that worked the queue before may have sent an upsert of the row before it was killed. An attempt
 * is not recorded before it ends. A row that is overwritten while it waits keeps its `queued_at`.
 */
function mayHaveBeenBegun(
  { now }: Pick<AttemptDeps, 'now'>,
  { termBeganAt }: Pick<OpenDestination, 'termBeganAt'>,
  { version, queued_at: waitsSince }: Waiting,
): boolean {
  const isOverwritten = version > 1
  // A time ahead of now was written before the clock was set back.
  const isEarlier = termBeganAt === undefined || waitsSince <= termBeganAt || waitsSince > now()
  return isOverwritten && isEarlier
}

export function jobOf(
  target: Pick<OpenDestination, 'flow' | 'keyName' | 'identity' | 'keyFields' | 'definition'>,
  delivery: Pick<
    DeliveryJob,
    'pk' | 'kind' | 'item' | 'body' | 'attempt' | 'remembered' | 'mayStart'
  > &
    Pick<ItemChange, 'hash' | 'change'>,
): DeliveryJob {
  const { flow, keyName, identity, keyFields, definition } = target
  const { kind, item, body, attempt, remembered, mayStart, hash, change } = delivery
  const destination = definition.name
  const pk = itemKey(delivery.pk)
  let key: string | undefined
  // Field by field, because a spread copy costs more than everything else here.
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
    // Most destinations use neither, and a digest costs as much as everything else for a row.
    get key() {
      return splitKey(pk, keyFields) ?? [pk]
    },
    get jobKey() {
      const { pk: record } = delivery
      key ??= jobKey({ flow: keyName, destination, identity, pk: record, change, kind, hash })
      return key
    },
  }
}

/** The answers of the destination, within the timeout and the allowed overrun. */
function ask(
  deps: AttemptDeps,
  { flow, destination, definition }: OpenDestination,
  jobs: readonly DeliveryJob[],
  signal: AbortSignal,
): Promise<Answers> {
  const about = () => {
    return { flow, destination: definition.name, pk: jobs[0]?.pk, items: jobs.length }
  }
  const own = new AbortController()
  // Not a race of promises: it costs as much as the rest of this function.
  const { promise, resolve } = Promise.withResolvers<Answers>()
  let overrunTimer: NodeJS.Timeout | undefined
  const giveUp = (reason: unknown) => {
    if (overrunTimer) return
    own.abort(reason)
    overrunTimer = setTimeout(() => {
      deps.log.error(
        about(),
        'delivery attempt did not end after its timeout; the worker continues without it',
      )
      end('overdue')
    }, deps.overrunMs ?? longestOverrunMs)
  }
  const abandon = () => giveUp(signal.reason)
  const timer = setTimeout(
    () => giveUp(new DOMException('the attempt took too long', 'TimeoutError')),
    definition.timeoutMs,
  )
  const end = (answers: Answers) => {
    clearTimeout(timer)
    clearTimeout(overrunTimer)
    signal.removeEventListener('abort', abandon)
    resolve(answers)
  }
  signal.addEventListener('abort', abandon, { once: true })
  if (signal.aborted) abandon()
  answersOf(destination, jobs, own.signal).then(end, (error: unknown) => {
    // After an abort, the destination may end by throwing.
    if (own.signal.aborted) return end('overdue')
    deps.log.error({ ...about(), err: error }, 'unexpected error of a destination')
    end('thrown')
  })
  return promise
}

async function answersOf(
  destination: Destination,
  jobs: readonly DeliveryJob[],
  signal: AbortSignal,
): Promise<Answers> {
  const { batches } = destination
  const [job] = jobs
  if (!job || (jobs.length > 1 && !batches)) throw new Error('no batch')
  return jobs.length > 1 && batches
    ? await batches.deliver(jobs, signal)
    : [await destination.deliver(job, signal)]
}

/** How many items may share one request with an item. */
export type BatchLimits = {
  most(pk: string, kind: 'upsert' | 'delete'): number
  /** They were refused together: the next batch of each is smaller. */
  apart(pks: readonly string[]): void
  /** The batch cannot take this item: it is sent alone next time. */
  alone(pk: string): void
  /** Their outcome is known: removes their limits. */
  together(pks: readonly string[]): void
}

/** Of a thousand items refused because of one, that one is sent alone after three more requests. */
const shrinkBy = 8

/**
 * Shrinks batches that are refused as a whole, until the items that cause it are sent alone. The limits are lost at a
 * restart. That costs no attempts, because an item counts one only after its own answer.
 */
export function createBatchLimits({ batches }: Pick<Destination, 'batches'>): BatchLimits {
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
 * The key of a delivery: 64 hex digits. Each of its requests derives its idempotency key from it (see requestKey). It
 * stays the same for all attempts of one change, also after a crash.
 * The next change gets another key, even with earlier content: for 100, 90, 100 a receiver would otherwise drop the
 * second 100. The content is included because a database restored from a backup repeats change numbers.
 * JSON before hashing keeps the parts apart, so that no two deliveries share a key.
 */
export function jobKey(delivery: {
  /** Its first name, so that a renamed flow keeps the keys of attempts in doubt. */
  flow: string
  destination: string
  /** Identity of the destination; see definition/identity.ts. */
  identity: string
  pk: string
  change: number
  kind: 'upsert' | 'delete'
  hash: string
}): string {
  const { flow, destination, identity, pk, change, kind, hash } = delivery
  const text = JSON.stringify([flow, destination, identity, pk, change, kind, hash])
  return hashOf('sha256', text, 'hex')
}
