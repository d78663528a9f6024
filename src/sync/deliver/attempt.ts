import { setTimeout as wait } from 'node:timers/promises'
import { keptReason, type Reason } from '../../domain/flow-reasons.ts'
import { backoffMs, retryAfterMs } from '../../outbound/backoff.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import { mayBeThere, type OwedRow } from '../../repositories/flows/deliveries.ts'
import type { AttemptNote, FlowTrace } from '../flow-trace.ts'
import { splitKey } from '../item/key.ts'
import { MappingError } from '../mapping.ts'
import type { Owed } from '../queue/pump.ts'
import type { QueueLog } from '../queue/queue-log.ts'
import type {
  DeliveryJob,
  DeliveryResult,
  Destination,
  DestinationDefinition,
  ItemChange,
  Remembered,
} from '../types.ts'
import type { AttemptReport } from './breaker.ts'
import type { Company } from './company.ts'
import type { Gate } from './gate.ts'
import { bodyHash, type ItemBody, isSkip } from './item-body.ts'
import { jobKey } from './job-key.ts'
import type { Failure, Outcome, Tried, Unanswered } from './outcome.ts'

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

type Answer = DeliveryResult | 'thrown' | 'overdue'
type Answers = readonly DeliveryResult[] | 'apart' | 'thrown' | 'overdue'
type Refusal = Extract<DeliveryResult, { ok: false }>

const longestOverrunMs = 5 * 60_000
const longestWaitMs = 1_000
/** Its Retry-After is about the service, not about the request: RFC 9110, 10.2.3. */
const unavailable = 503
const tooMany = 429

/** A row with what is remembered of its item. */
export type Waiting = OwedRow & { remembered?: Remembered | undefined }

/** An item of an attempt, whose body is made. */
type Ready = {
  place: number
  pk: string
  tried: Tried
  attempt: number
  job: DeliveryJob
  mayHaveArrived: boolean
}

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
  const { definition, gate, company } = target
  const outcomes = owed.map<Outcome>(() => ({ kind: 'nothing' }))
  // One chance for all: those that fail together come again together.
  const chance = deps.random()
  const rules = { random: () => chance, now: deps.now, retry: definition.retry }
  let may = (): boolean => false
  let wasWithheld = false
  const ready: Ready[] = []
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
    const one: Ready = { ...made, pk, mayHaveArrived: false }
    ready.push(one)
  }
  if (ready.length === 0) return outcomes

  const postponeAll = (delayMs: number) => {
    for (const one of ready) {
      const { place, tried, mayHaveArrived } = one
      const { version } = tried
      outcomes[place] = {
        ...{ kind: 'postponed', version, delayMs, mayHaveArrived },
        ...begunOf(target, one),
      }
    }
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
    const { place, tried, attempt, job, mayHaveArrived } = one
    const answer = typeof answers === 'string' ? answers : (answers[index] ?? 'thrown')
    if (typeof answer === 'object' && answer.ok) {
      const status = answer.status ?? null
      const { remember, forget } = answer
      outcomes[place] = {
        ...{ kind: 'delivered', ...tried, attempts: attempt, status },
        ...(remember && { remember }),
        ...(forget && { forget }),
        ...(job.kind === 'upsert' && {
          body: bodyHash(tried.hash, job.body),
          fields: target.body.keptOf(job.body),
        }),
      }
    } else if (broken || answer === 'apart') {
      const { version } = tried
      outcomes[place] = {
        ...{ kind: 'postponed', version, delayMs: 0, mayHaveArrived },
        ...begunOf(target, one),
      }
    } else {
      const refusal = refusalOf(answer, definition.timeoutMs)
      refusals.push(refusal)
      if (refusal.apart) {
        company.alone(one.pk)
        const { version } = tried
        outcomes[place] = { kind: 'postponed', version, delayMs: 0, mayHaveArrived }
        continue
      }
      if (refusal.blockedMs !== undefined) {
        const { version } = tried
        outcomes[place] = { kind: 'postponed', version, delayMs: 0, mayHaveArrived }
        continue
      }
      const failed = failure(refusal.why, attempt, refusal.status)
      const begun = begunOf(target, one)
      outcomes[place] = refusal.retryable
        ? {
            ...again(rules, tried, failed, refusal.retryAfterSeconds),
            ...(refusal.remember && { remember: refusal.remember }),
            ...(refusal.forget && { forget: true }),
            ...begun,
          }
        : { kind: 'final', ...tried, failure: failed, ...begun }
    }
  }
  deps.trace?.noteAttempt({
    flow: target.flow,
    destination: definition.name,
    items: jobs.length,
    delivered: outcomes.filter(({ kind }) => kind === 'delivered').length,
    durationMs,
    ...resultOf(answers, refusals),
  })
  // What was taken tells that the receiver is there, whatever it says of the others.
  const [first] = refusals
  if (first === undefined || refusals.length < ready.length) {
    begun.report(broken && !isAnswered(answers) ? 'unknown' : 'answered')
  } else {
    const worst = refusals.find(({ outage }) => outage) ?? first
    const { blockedMs } = worst
    const isTold = answers !== 'thrown' && blockedMs === undefined
    begun.report(isTold ? reportOf(worst) : 'unknown', {
      ...(blockedMs !== undefined && { blockedMs }),
      cause: keptReason(worst.why),
      wishMs: worst.outage ? retryAfterMs(worst.retryAfterSeconds) : 0,
      isOfAll: worst.status === unavailable,
    })
  }
  return outcomes
}

function resultOf(
  answers: Answers,
  [refusal]: readonly Refusal[],
): Pick<AttemptNote, 'status' | 'failure'> {
  if (answers === 'thrown' || answers === 'overdue') return { status: null, failure: answers }
  const [first] = answers === 'apart' ? [] : answers
  return refusal
    ? { status: refusal.status ?? null, failure: 'refused' }
    : { status: (first?.ok && first.status) || null, failure: null }
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

function isAnswered(answers: Answers): boolean {
  return typeof answers === 'object' && answers.some(({ ok }) => ok)
}

/** Of a delete nothing is noted: the item was there before. */
function begunOf(
  { body }: Pick<OpenDestination, 'body'>,
  { job, mayHaveArrived }: Pick<Ready, 'job' | 'mayHaveArrived'>,
): Unanswered {
  const isBegun = mayHaveArrived && job.kind === 'upsert'
  return isBegun ? { begun: { fields: body.keptOf(job.body) } } : {}
}

export const neverSent: Reason = { code: 'NEVER_SENT' }
export const sameBody: Reason = { code: 'SAME_BODY' }

type Rules = Pick<AttemptDeps, 'random' | 'now'> & Pick<OpenDestination['definition'], 'retry'>

/** What is to be sent of a row; an outcome when its mapping fails. */
async function prepare(
  rules: Rules,
  target: OpenDestination,
  place: number,
  row: Waiting,
  mayStart: () => boolean,
): Promise<Omit<Ready, 'pk' | 'mayHaveArrived'> | { outcome: Outcome }> {
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

/** Another attempt, later, while there are any left. */
function again(
  { random, retry }: Rules,
  tried: Tried,
  failed: Failure,
  retryAfterSeconds?: number,
): Outcome {
  if (failed.attempts >= retry.attempts) return { kind: 'final', ...tried, failure: failed }
  const delayMs = backoffMs(retry, failed.attempts, { random, retryAfterSeconds })
  return { kind: 'retry', ...tried, failure: failed, delayMs }
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

function refusalOf(answer: Exclude<Answer, 'apart'>, timeoutMs: number): Refusal {
  if (answer === 'overdue') {
    const why: Reason = { code: 'NO_ANSWER', data: { seconds: timeoutMs / 1_000 } }
    return { ok: false, retryable: true, outage: true, why }
  }
  if (typeof answer === 'object' && !answer.ok) return answer
  // What an error says may hold data or addresses; only our own words are kept.
  return { ok: false, retryable: true, outage: false, why: { code: 'UNEXPECTED' } }
}

function reportOf({ outage, status }: Refusal): AttemptReport {
  if (!outage) return 'answered'
  return status === tooMany ? 'throttled' : 'outage'
}

function failure(why: Reason, attempts: number, status?: number): Failure {
  return { why: keptReason(why), status: status ?? null, attempts }
}
