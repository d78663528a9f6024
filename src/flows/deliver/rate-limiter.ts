import type { DestinationDefinition } from '../types.ts'

export type RateLimiter = {
  /** How many may start now. */
  allowance(): number
  /** Milliseconds until one may; 0 when one may now. */
  waitMs(): number
  /** Counts a start; false, and nothing is counted, when none is allowed. */
  take(): boolean
}

/**
 * At most `max` starts in any window of `perMs`. (A steadily refilled token bucket would allow nearly twice as many
 * in its first window.) It stores the last `max` starts in memory only. One process at a time works a destination, so
 * the limit holds over all; a new leader starts from zero.
 */
export function createRateLimiter(
  limit: { max: number; perMs: number },
  now: () => Date,
): RateLimiter {
  /** A ring buffer of the last starts; `oldest` is the next place to write. */
  const starts: number[] = []
  let oldest = 0

  const countRecent = (since: number) => {
    // Starts are in time order, so a binary search finds the recent ones.
    let low = 0
    let high = starts.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((starts[(oldest + middle) % starts.length] ?? 0) > since) high = middle
      else low = middle + 1
    }
    return starts.length - low
  }

  const allowance = () => limit.max - countRecent(now().getTime() - limit.perMs)

  return {
    allowance,
    waitMs: () => {
      if (allowance() > 0) return 0
      return Math.max(1, (starts[oldest] ?? 0) + limit.perMs - now().getTime())
    },
    take: () => {
      if (allowance() <= 0) return false
      const at = now().getTime()
      if (starts.length < limit.max) starts.push(at)
      else {
        starts[oldest] = at
        oldest = (oldest + 1) % limit.max
      }
      return true
    },
  }
}

/** For a destination without a limit. */
export const unlimited: RateLimiter = {
  allowance: () => Number.POSITIVE_INFINITY,
  waitMs: () => 0,
  take: () => true,
}

export function limiterOf(
  { rateLimit }: Pick<DestinationDefinition, 'rateLimit'>,
  now: () => Date,
): RateLimiter {
  return rateLimit ? createRateLimiter(rateLimit, now) : unlimited
}
