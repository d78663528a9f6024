import { setTimeout as sleepFor } from 'node:timers/promises'
import { type Backoff, backoffMs } from '../domain/backoff.ts'

export type HttpMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * Why an attempt had no usable answer. `connect`: no byte of the request was sent (DNS, refused, TLS, connect timeout).
 * `deadline`: the time left was too short to begin. `withheld`: the caller lost the right to send before the first
 * byte.
 */
export type AttemptFailure =
  | 'connect'
  | 'timeout'
  | 'reset'
  | 'torn'
  | 'oversize'
  | 'not_json'
  | 'aborted'
  | 'deadline'
  | 'withheld'

/** The pauses between attempts. A `Retry-After` above the longest ends the call and is not shortened. */
export type RetryPolicy = Backoff & {
  maxAttempts: number
  /** No pause is shorter. */
  shortestMs: number
}

export const defaultRetryPolicy: RetryPolicy = {
  maxAttempts: 3,
  firstMs: 250,
  shortestMs: 100,
  longestMs: 10_000,
  jitter: 0.5,
}

const passingStatuses: ReadonlySet<number> = new Set([408, 423, 429])
/** Shops send 409 and 423 during another change of the same object; 425 is RFC 8470. */
const passingStatusesOfShops: ReadonlySet<number> = new Set([...passingStatuses, 409, 425])
const passingFailures: ReadonlySet<AttemptFailure> = new Set([
  'connect',
  'timeout',
  'reset',
  'torn',
])

/** Whether a shop's server, source or destination of a flow, may answer the same request otherwise later. */
export function isPassingStatus(status: number): boolean {
  return status >= 500 || passingStatusesOfShops.has(status)
}

/** Whether a method asks the other side to change something. */
export function isWrite(method: HttpMethod): boolean {
  return method !== 'GET'
}

/**
 * Whether the provider may answer the same request otherwise later. `status`: of a complete answer; `failure`: of an attempt without
 * a usable one.
 */
export function mayPass(status: number | null, failure: AttemptFailure | null): boolean {
  if (failure !== null) return passingFailures.has(failure)
  return status !== null && (passingStatuses.has(status) || status >= 500)
}

export type RetryQuestion = {
  /** Number of the attempt that just ended, from 1. */
  attempt: number
  retryAfterSeconds: number | null
  /** The time left of the call; Infinity without a deadline. */
  remainingMs: number
  /** The shortest useful attempt. */
  minAttemptMs: number
  random?: (() => number) | undefined
  policy: RetryPolicy
}

type RetryDecision = { retry: true; waitMs: number } | { retry: false }

/**
 * Decides whether to wait or stop after an attempt that deserves another one. A wait starts only if the time left is enough for it
 * and for a useful attempt after it.
 */
export function decideRetry(question: RetryQuestion): RetryDecision {
  const { attempt, policy, random, remainingMs, minAttemptMs } = question
  if (attempt >= policy.maxAttempts) return { retry: false }
  const askedMs = (question.retryAfterSeconds ?? 0) * 1000
  if (askedMs > policy.longestMs) return { retry: false }
  const waitMs = Math.max(policy.shortestMs, backoffMs(attempt, policy, random), askedMs)
  return waitMs + minAttemptMs > remainingMs ? { retry: false } : { retry: true, waitMs }
}

type Repeating = {
  policy: RetryPolicy
  /** Infinity when absent. */
  remainingMs?: () => number
  minAttemptMs?: number
  random?: (() => number) | undefined
  sleep?: ((ms: number, signal?: AbortSignal) => Promise<void>) | undefined
  signal?: AbortSignal | undefined
}

/**
 * Waits before another attempt, after one that failed and deserves another. False when `decideRetry` allows none, or the caller
 * aborted before or during the wait: no attempt follows.
 */
export async function waitToRepeat(
  attempt: number,
  retryAfterSeconds: number | null,
  { policy, remainingMs, minAttemptMs = 0, random, sleep = defaultSleep, signal }: Repeating,
): Promise<boolean> {
  const decision = decideRetry({
    attempt,
    retryAfterSeconds,
    remainingMs: remainingMs?.() ?? Number.POSITIVE_INFINITY,
    minAttemptMs,
    random,
    policy,
  })
  if (!decision.retry || signal?.aborted) return false
  try {
    await sleep(decision.waitMs, signal)
  } catch (error) {
    if (signal?.aborted) return false
    throw error
  }
  return !signal?.aborted
}

async function defaultSleep(ms: number, signal?: AbortSignal): Promise<void> {
  await sleepFor(ms, undefined, signal ? { signal } : {})
}
