import type { KeptBody } from '../../db/column-types.ts'
import { backoffMs } from '../../domain/backoff.ts'
import { retryAfterMs } from '../../outbound/retry-after.ts'
import type { ItemClaim } from '../../repositories/flows/claims.ts'
import { keptReason, type Reason } from '../../texts/reason.ts'
import type { TracedAttempt } from '../flow-trace.ts'
import type { DeliveryJob, DeliveryResult, DestinationDefinition, Remembered } from '../types.ts'
import type { ReceiverHealth } from './circuit-breaker.ts'
import type { ClaimRule, FormerIdentity } from './claim-types.ts'
import { bodyDigest, type ItemBody } from './item-body.ts'
import type { AttemptNote } from './sending-gate.ts'
import type { UncountedAttempts } from './uncounted-attempts.ts'

export type Failure = {
  why: Reason
  status: number | null
  /** Attempts of this version, including this one. */
  attempts: number
}

/** The change of an attempt, and the version of its row. */
export type Tried = { version: number; change: 'upsert' | 'delete'; hash: string }

/** What the item has under another identity now, or may have. */
type Former = { former?: FormerIdentity | undefined }

/** An upsert that may have arrived without an answer. A later delete needs its body. */
export type Unanswered = Former & {
  begun?: { body: KeptBody | undefined; claim?: ItemClaim | undefined }
}

/** The result for a row, at the version that was read. */
export type DeliveryOutcome =
  | (Tried &
      Former & {
        kind: 'delivered'
        /** Attempts of this version, including this one. */
        attempts: number
        status: number | null
        /** Values to remember for the item. */
        remember?: Remembered | undefined
        /** The remembered values of the item are no longer valid. */
        forget?: boolean
        /** The digest of an upsert's body; see item-body.ts. */
        digest?: string
        /** What is stored of the body for a later delete. */
        body?: KeptBody | undefined
        /** The identity of an upsert at its destination. */
        claim?: ItemClaim | undefined
      })
  /** The destination already has this body. Nothing was sent. */
  | (Tried & { kind: 'unchanged'; digest: string })
  | (Tried &
      Unanswered & {
        kind: 'retry'
        failure: Failure
        delayMs: number
        remember?: Remembered | undefined
        forget?: boolean
      })
  | (Tried & Unanswered & { kind: 'final'; failure: Failure })
  /**
   * The destination must not get the item. `overwritten`: the key of another item, whose row this one has written over; the next
   * poll sends it again.
   */
  | (Tried & { kind: 'skipped'; why: Reason; forget?: boolean; overwritten?: string | undefined })
  /** A delete that must not be sent yet. No attempt is counted. */
  | { kind: 'waits'; version: number; failure: Failure; delayMs: number }
  /** No attempt was made, or the service broke it off. None is counted. */
  | (Unanswered & {
      kind: 'postponed'
      version: number
      delayMs: number
      /** The service broke it off after it began, so it may have arrived. */
      mayHaveArrived: boolean
    })
  | { kind: 'nothing' }

/** A delivery without further automatic attempts. */
export type FinalFailure = Failure & {
  flow: string
  destination: string
  pk: string
  at: Date
}

/** An item of an attempt, with its body. */
export type Attempted = {
  place: number
  pk: string
  tried: Tried
  attempt: number
  job: DeliveryJob
  mayHaveArrived: boolean
}

/** The answer for an item, or why there is none. */
type Answer = DeliveryResult | 'apart' | 'thrown' | 'overdue'
/**
 * Answers for several items: one each, or one for all. `apart`: nothing was done, and smaller batches must follow.
 */
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
  claims: ClaimRule | undefined
  uncounted: UncountedAttempts
  /** The attempt tests a destination that failed before. */
  isProbe: boolean
  /** The service broke the attempt off, or it lost its permit: items that did not arrive are not counted. */
  broken: boolean
}

/** What is stored of an upsert that arrived, or may have. */
type Kept = Pick<Judging, 'body' | 'claims'>

/**
 * Turns an answer into an outcome. `ofReceiver`: the failure is the receiver's, and not that of the item. All destinations use this order. An arrival counts first. Then, a broken-off
 * attempt does not count. Then the destination says whether to retry.
 */
export function judgeDelivery(
  answer: Answer,
  one: Attempted,
  by: Judging,
): { outcome: DeliveryOutcome; refusal?: Refusal; ofReceiver?: boolean } {
  const { tried, attempt } = one
  if (typeof answer === 'object' && answer.ok) {
    return { outcome: delivered(answer, one, by) }
  }
  if (by.broken || answer === 'apart') return { outcome: postponedOutcome(one, by, 0) }
  const refusal = refusalOf(answer, by.timeoutMs)
  // Nothing was done or can be done, so no attempt counts.
  if (refusal.apart || refusal.blockedMs !== undefined) {
    const { mayHaveArrived } = one
    const { version } = tried
    return { outcome: { kind: 'postponed', version, delayMs: 0, mayHaveArrived }, refusal }
  }
  const begun = begunOf(one, by)
  const ofReceiver = refusal.isForeign || (by.isProbe && refusal.outage)
  const uncounted = ofReceiver ? by.uncounted.add(one.pk) : 0
  if (uncounted > 0) {
    const delayMs = delayAfter(attempt + uncounted - 1, by, refusal.retryAfterSeconds)
    const failed = failure(refusal.why, attempt - 1, refusal.status)
    return {
      outcome: { kind: 'retry', ...tried, failure: failed, delayMs, ...begun },
      refusal,
      ofReceiver,
    }
  }
  const failed = failure(refusal.why, attempt, refusal.status)
  if (!refusal.retryable) {
    return { outcome: { kind: 'final', ...tried, failure: failed, ...begun }, refusal, ofReceiver }
  }
  const outcome = {
    ...again(by, tried, failed, refusal.retryAfterSeconds),
    ...(refusal.remember && { remember: refusal.remember }),
    ...(refusal.forget && { forget: true }),
    ...begun,
  }
  return { outcome, refusal, ofReceiver }
}

function delivered(
  { status, remember, forget }: Extract<DeliveryResult, { ok: true }>,
  { tried, attempt, job }: Attempted,
  { body, claims }: Kept,
): DeliveryOutcome {
  return {
    ...{ kind: 'delivered', ...tried, attempts: attempt, status: status ?? null },
    ...(remember && { remember }),
    ...(forget && { forget }),
    ...(job.kind === 'upsert' && {
      digest: bodyDigest(job.body),
      body: body.keptOf(job.body),
      claim: claims?.claimOf(job.body, { ...job.remembered, ...remember }, job.pk),
    }),
  }
}

/** Counts no attempt, but records that the item may have arrived. */
export function postponedOutcome(one: Attempted, kept: Kept, delayMs: number): DeliveryOutcome {
  const { tried, mayHaveArrived } = one
  const { version } = tried
  return { ...{ kind: 'postponed', version, delayMs, mayHaveArrived }, ...begunOf(one, kept) }
}

/** A delete records nothing, because the item existed before. */
function begunOf(
  { job, mayHaveArrived }: Pick<Attempted, 'job' | 'mayHaveArrived'>,
  { body, claims }: Kept,
): Unanswered {
  if (!mayHaveArrived || job.kind !== 'upsert') return {}
  const claim = claims?.claimOf(job.body, job.remembered, job.pk)
  return { begun: { body: body.keptOf(job.body), claim } }
}

/** Another attempt later, or a final failure if none is left. */
export function again(
  rules: RetryRules,
  tried: Tried,
  failed: Failure,
  retryAfterSeconds?: number,
): DeliveryOutcome {
  if (failed.attempts >= rules.retry.attempts) return { kind: 'final', ...tried, failure: failed }
  const delayMs = delayAfter(failed.attempts, rules, retryAfterSeconds)
  return { kind: 'retry', ...tried, failure: failed, delayMs }
}

/** The pause after this attempt by the definition; at least the receiver's Retry-After, of which at most one hour counts. */
export function delayAfter(
  attempt: number,
  { random, retry }: RetryRules,
  retryAfterSeconds?: number,
): number {
  const { initialMs: firstMs, maxMs: longestMs, factor, jitter } = retry
  const pauseMs = backoffMs(attempt, { firstMs, longestMs, factor, jitter }, random)
  return Math.max(pauseMs, retryAfterMs(retryAfterSeconds))
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
  // An error text may contain data or addresses, so only a reason code is kept.
  return { ok: false, retryable: true, outage: false, why: { code: 'UNEXPECTED' } }
}

/** With 503, Retry-After concerns the whole service: RFC 9110, 10.2.3. */
const unavailable = 503
const tooMany = 429

/** What the attempt reports to the gate about the receiver. */
export function reportOf(
  answers: Answers,
  refusals: readonly Refusal[],
  { items, broken }: { items: number; broken: boolean },
): { report: ReceiverHealth; note?: AttemptNote } {
  const [first] = refusals
  // One accepted item shows that the receiver works, even if it refused others.
  if (first === undefined || refusals.length < items) {
    const isAnswered = typeof answers === 'object' && answers.some(({ ok }) => ok)
    return { report: broken && !isAnswered ? 'unknown' : 'answered' }
  }
  const worst = refusals.find(({ outage }) => outage) ?? first
  const { blockedMs, outage, status, why, retryAfterSeconds } = worst
  const note = {
    ...(blockedMs !== undefined && { blockedMs }),
    cause: keptReason(why),
    retryAfterMs: outage ? retryAfterMs(retryAfterSeconds) : 0,
    isForAll: status === unavailable,
  }
  if (answers === 'thrown' || blockedMs !== undefined) return { report: 'unknown', note }
  if (!outage) return { report: 'answered', note }
  return { report: status === tooMany ? 'throttled' : 'outage', note }
}

/** What a trace shows of the attempt. */
export function traceOf(
  answers: Answers,
  [refusal]: readonly Refusal[],
): Pick<TracedAttempt, 'status' | 'failure'> {
  if (answers === 'thrown' || answers === 'overdue') return { status: null, failure: answers }
  const [first] = answers === 'apart' ? [] : answers
  return refusal
    ? { status: refusal.status ?? null, failure: 'refused' }
    : { status: (first?.ok && first.status) || null, failure: null }
}

/** Nothing was sent: the destination has this body already. */
export const sameBody: Reason = { code: 'SAME_BODY' }
