export type BackoffPolicy = {
  /** In total, including the first. */
  attempts: number
  initialMs: number
  factor: number
  maxMs: number
  /** The random part of the pause, 0 to 1. */
  jitter: number
}

/** The longest Retry-After that is obeyed: after a longer one the next request is sent sooner. */
export const longestRetryAfterMs = 3600_000

/**
 * Milliseconds between the failed attempt (1 is the first) and the next. The pause grows by `factor` up to `maxMs` and varies
 * by up to `jitter` of itself. It is at least the receiver's Retry-After, of which at most one hour counts.
 */
export function backoffMs(
  policy: BackoffPolicy,
  attempt: number,
  options: { random: () => number; retryAfterSeconds?: number | undefined },
): number {
  const planned = Math.min(policy.maxMs, policy.initialMs * policy.factor ** (attempt - 1))
  const jittered = planned * (1 + policy.jitter * (2 * options.random() - 1))
  return Math.round(Math.max(jittered, retryAfterMs(options.retryAfterSeconds)))
}

/** The receiver's Retry-After in milliseconds, one hour at most; 0 without one. */
export function retryAfterMs(retryAfterSeconds: number | undefined): number {
  return Math.min((retryAfterSeconds ?? 0) * 1_000, longestRetryAfterMs)
}
