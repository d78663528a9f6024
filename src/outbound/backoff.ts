export type RetryPolicy = {
  /** In all, the first included. */
  attempts: number
  initialMs: number
  factor: number
  maxMs: number
  /** Part of the pause that is left to chance, 0 to 1. */
  jitter: number
}

/** A receiver's wish is obeyed up to here: one that asks for a week is asked again sooner. */
export const longestWishMs = 3600_000

/**
 * Milliseconds between the failed attempt (1 is the first) and the next: growing by `factor` up to `maxMs`, shortened or
 * lengthened by up to `jitter` of itself, and never shorter than the receiver asked for (one hour at most).
 */
export function backoffMs(
  policy: RetryPolicy,
  attempt: number,
  options: { random: () => number; retryAfterSeconds?: number | undefined },
): number {
  const planned = Math.min(policy.maxMs, policy.initialMs * policy.factor ** (attempt - 1))
  const jittered = planned * (1 + policy.jitter * (2 * options.random() - 1))
  return Math.round(Math.max(jittered, wishMs(options.retryAfterSeconds)))
}

/** The receiver's wish in milliseconds, one hour at most; 0 without one. */
export function wishMs(retryAfterSeconds: number | undefined): number {
  return Math.min((retryAfterSeconds ?? 0) * 1_000, longestWishMs)
}
