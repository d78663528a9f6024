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

/** Waits between attempts, in milliseconds. A `Retry-After` above the ceiling ends the call and is not shortened. */
export type RetryPolicy = {
  baseMs: number
  floorMs: number
  ceilingMs: number
  /** Whether a status deserves another attempt; 408, 423, 429 and all from 500 when absent. */
  isPassingStatus?: (status: number) => boolean
}

export const defaultRetryPolicy: RetryPolicy = { baseMs: 250, floorMs: 100, ceilingMs: 10_000 }

export type RetryQuestion = {
  method: HttpMethod
  hasIdempotencyKey: boolean
  /** Status of a complete answer, else null. */
  status: number | null
  /** Failure of an attempt without a usable answer, else null. */
  failure: AttemptFailure | null
  /** Number of the attempt that just ended, from 1. */
  attempt: number
  maxAttempts: number
  retryAfterSeconds: number | null
  /** The time left of the call; Infinity without a deadline. */
  remainingMs: number
  /** The shortest useful attempt. */
  minAttemptMs: number
  /** 0 to 1, from the caller, so that this function is pure. */
  jitter: number
  policy: RetryPolicy
}

type RetryDecision = { retry: true; waitMs: number } | { retry: false }

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
 * Decides whether to wait or stop. Reads repeat; a write repeats only under its idempotency key. A wait starts only if
 * the time left is enough for it and for a useful attempt after it.
 */
export function decideRetry(question: RetryQuestion): RetryDecision {
  if (question.attempt >= question.maxAttempts) return { retry: false }
  if (isWrite(question.method) && !question.hasIdempotencyKey) return { retry: false }
  if (!mayPass(question)) return { retry: false }
  const { baseMs, floorMs, ceilingMs } = question.policy
  const askedMs = (question.retryAfterSeconds ?? 0) * 1000
  if (askedMs > ceilingMs) return { retry: false }
  const exponentialMs = baseMs * 2 ** (question.attempt - 1)
  const backoffMs = Math.round(exponentialMs * (0.5 + question.jitter / 2))
  const waitMs = Math.min(ceilingMs, Math.max(floorMs, backoffMs, askedMs))
  if (waitMs + question.minAttemptMs > question.remainingMs) return { retry: false }
  return { retry: true, waitMs }
}

function mayPass({ status, failure, policy }: RetryQuestion): boolean {
  if (failure !== null) return passingFailures.has(failure)
  if (status === null) return false
  return policy.isPassingStatus?.(status) ?? (passingStatuses.has(status) || status >= 500)
}
