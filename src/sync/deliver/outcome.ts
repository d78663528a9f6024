import { keptReason, type Reason } from '../../domain/flow-reasons.ts'
import { backoffMs, retryAfterMs } from '../../outbound/backoff.ts'
import type { AttemptNote } from '../flow-trace.ts'
import type { DeliveryJob, DeliveryResult, DestinationDefinition, Remembered } from '../types.ts'
import type { AttemptReport } from './breaker.ts'
import type { AttemptNote as GateNote } from './gate.ts'
import { bodyHash, type ItemBody } from './item-body.ts'

export type Failure = {
  why: Reason
  status: number | null
  /** The attempts made of this version, this one included. */
  attempts: number
}

/** The change that an attempt was about, and the version of the row that had it. */
export type Tried = { version: number; change: 'upsert' | 'delete'; hash: string }

/** Of an upsert that was begun and may have arrived: what a later delete needs of its body. */
export type Unanswered = { begun?: { fields: unknown } }

/** What became of a claim, about the version of the row that was read for it. */
export type Outcome =
  | (Tried & {
      kind: 'delivered'
      /** The attempts made of this version, this one included. */
      attempts: number
      status: number | null
      /** To be remembered of the item. */
      remember?: Remembered | undefined
      /** What was remembered of it holds no longer. */
      forget?: boolean
      /** What tells the body from others, of an upsert; see item-body.ts. */
      body?: string
      /** What a later delete needs of the body. */
      fields?: unknown
    })
  /** The destination has this body already: nothing was sent. */
  | (Tried & { kind: 'unchanged'; body: string })
  | (Tried &
      Unanswered & {
        kind: 'retry'
        failure: Failure
        delayMs: number
        remember?: Remembered | undefined
        forget?: boolean
      })
  | (Tried & Unanswered & { kind: 'final'; failure: Failure })
  /** The destination is not to have the item. */
  | (Tried & { kind: 'skipped'; why: Reason })
  /** No attempt was made, or one that the service itself broke off: none is counted. */
  | (Unanswered & {
      kind: 'postponed'
      version: number
      delayMs: number
      /** It was broken off after its beginning, so it may have arrived. */
      mayHaveArrived: boolean
    })
  /** There was nothing to do. */
  | { kind: 'nothing' }

/** A delivery that will not be tried again by itself. */
export type FinalFailure = Failure & {
  flow: string
  destination: string
  pk: string
  at: Date
}

/** An item of an attempt, whose body is made. */
export type Attempted = {
  place: number
  pk: string
  tried: Tried
  attempt: number
  job: DeliveryJob
  mayHaveArrived: boolean
}

/** What a destination says of an item, or why it says nothing. */
type Answer = DeliveryResult | 'apart' | 'thrown' | 'overdue'
/** Of several: one for each, or one for all. `apart`: none was done, and they are to come again in smaller batches. */
export type Answers = readonly DeliveryResult[] | Exclude<Answer, DeliveryResult>
export type Refusal = Extract<DeliveryResult, { ok: false }>

export type RetryRules = {
  /** From 0 to below 1. */
  random: () => number
  retry: DestinationDefinition['retry']
}
type Judging = RetryRules & {
  timeoutMs: number
  body: Pick<ItemBody, 'keptOf'>
  /** The attempt was broken off by the service, or lost its permit: what did not arrive is not counted. */
  broken: boolean
}

/**
 * What an answer makes of an item: the one order of rules for single items and batches, HTTP, databases and files. What arrived counts,
 * whatever happened besides; then what was broken off counts for nothing; then the destination's own word on whether to retry.
 */
export function judge(
  answer: Answer,
  one: Attempted,
  by: Judging,
): { outcome: Outcome; refusal?: Refusal } {
  const { tried, attempt } = one
  if (typeof answer === 'object' && answer.ok) {
    return { outcome: delivered(answer, one, by.body) }
  }
  if (by.broken || answer === 'apart') return { outcome: postponed(one, by.body, 0) }
  const refusal = refusalOf(answer, by.timeoutMs)
  // Nothing of it was done, or can be: no attempt counts.
  if (refusal.apart || refusal.blockedMs !== undefined) {
    const { mayHaveArrived } = one
    const { version } = tried
    return { outcome: { kind: 'postponed', version, delayMs: 0, mayHaveArrived }, refusal }
  }
  const failed = failure(refusal.why, attempt, refusal.status)
  const begun = begunOf(one, by.body)
  if (!refusal.retryable) {
    return { outcome: { kind: 'final', ...tried, failure: failed, ...begun }, refusal }
  }
  const outcome = {
    ...again(by, tried, failed, refusal.retryAfterSeconds),
    ...(refusal.remember && { remember: refusal.remember }),
    ...(refusal.forget && { forget: true }),
    ...begun,
  }
  return { outcome, refusal }
}

function delivered(
  { status, remember, forget }: Extract<DeliveryResult, { ok: true }>,
  { tried, attempt, job }: Attempted,
  body: Pick<ItemBody, 'keptOf'>,
): Outcome {
  return {
    ...{ kind: 'delivered', ...tried, attempts: attempt, status: status ?? null },
    ...(remember && { remember }),
    ...(forget && { forget }),
    ...(job.kind === 'upsert' && {
      body: bodyHash(tried.hash, job.body),
      fields: body.keptOf(job.body),
    }),
  }
}

/** No attempt is counted; what may have arrived is noted. */
export function postponed(
  one: Attempted,
  body: Pick<ItemBody, 'keptOf'>,
  delayMs: number,
): Outcome {
  const { tried, mayHaveArrived } = one
  const { version } = tried
  return { ...{ kind: 'postponed', version, delayMs, mayHaveArrived }, ...begunOf(one, body) }
}

/** Of a delete nothing is noted: the item was there before. */
function begunOf(
  { job, mayHaveArrived }: Pick<Attempted, 'job' | 'mayHaveArrived'>,
  body: Pick<ItemBody, 'keptOf'>,
): Unanswered {
  const isBegun = mayHaveArrived && job.kind === 'upsert'
  return isBegun ? { begun: { fields: body.keptOf(job.body) } } : {}
}

/** Another attempt, later, while there are any left. */
export function again(
  { random, retry }: RetryRules,
  tried: Tried,
  failed: Failure,
  retryAfterSeconds?: number,
): Outcome {
  if (failed.attempts >= retry.attempts) return { kind: 'final', ...tried, failure: failed }
  const delayMs = backoffMs(retry, failed.attempts, { random, retryAfterSeconds })
  return { kind: 'retry', ...tried, failure: failed, delayMs }
}

export function failure(why: Reason, attempts: number, status?: number): Failure {
  return { why: keptReason(why), status: status ?? null, attempts }
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

/** Its Retry-After is about the service, not about the request: RFC 9110, 10.2.3. */
const unavailable = 503
const tooMany = 429

/** What the attempt tells the gate of the receiver. */
export function reportOf(
  answers: Answers,
  refusals: readonly Refusal[],
  { items, broken }: { items: number; broken: boolean },
): { report: AttemptReport; note?: GateNote } {
  const [first] = refusals
  // What was taken tells that the receiver is there, whatever it says of the others.
  if (first === undefined || refusals.length < items) {
    const isAnswered = typeof answers === 'object' && answers.some(({ ok }) => ok)
    return { report: broken && !isAnswered ? 'unknown' : 'answered' }
  }
  const worst = refusals.find(({ outage }) => outage) ?? first
  const { blockedMs, outage, status, why, retryAfterSeconds } = worst
  const note = {
    ...(blockedMs !== undefined && { blockedMs }),
    cause: keptReason(why),
    wishMs: outage ? retryAfterMs(retryAfterSeconds) : 0,
    isOfAll: status === unavailable,
  }
  if (answers === 'thrown' || blockedMs !== undefined) return { report: 'unknown', note }
  if (!outage) return { report: 'answered', note }
  return { report: status === tooMany ? 'throttled' : 'outage', note }
}

/** What a trace shows of the attempt. */
export function traceOf(
  answers: Answers,
  [refusal]: readonly Refusal[],
): Pick<AttemptNote, 'status' | 'failure'> {
  if (answers === 'thrown' || answers === 'overdue') return { status: null, failure: answers }
  const [first] = answers === 'apart' ? [] : answers
  return refusal
    ? { status: refusal.status ?? null, failure: 'refused' }
    : { status: (first?.ok && first.status) || null, failure: null }
}
