export type RateLimiter = {
  /** How many may start now. */
  allowance(): number
  /** Milliseconds until one may; 0 when one may now. */
  waitMs(): number
  /** Counts a start; false, and nothing is counted, when none is allowed. */
  take(): boolean
}

/**
 * At most `max` starts in any stretch of `perMs`, wherever it begins. (A token bucket that refills steadily would let
 * nearly twice as many through in its first stretch.) It remembers the last `max` starts and nothing across restarts.
 * One process at a time works a destination, so this holds for all of them together; a takeover begins anew.
 */
export function createRateLimiter(
  limit: { max: number; perMs: number },
  now: () => Date,
): RateLimiter {
  /** A ring of the last starts; `oldest` is where the next is written. */
  const starts: number[] = []
  let oldest = 0

  const countRecent = (since: number) => {
    // Written in order of time, so the recent ones follow each other up to the newest.
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
