import type { DestinationDefinition } from '../types.ts'
import { type AttemptReport, createBreaker, neverOpen } from './breaker.ts'
import { createRateLimiter, unlimited } from './rate-limit.ts'

/** Decides what may start at a destination: by its rate limit, its breaker, and a receiver that asked for silence. */
export type Gate = {
  /** How many attempts may start now, and when to ask again if none may. */
  admit(): { starts: number; waitMs: number }
  /** Starts an attempt; call `report` once with what came of it. `waitMs` when none may start yet. */
  begin(): { report(report: AttemptReport): void } | { waitMs: number }
  /** The receiver asked not to be called for that long. */
  hush(ms: number): void
}

/**
 * One that asks for an hour may mean one item only, and nobody could lift such a silence: after a minute the next attempt
 * finds out. The item itself waits as long as was asked.
 */
const longestHushMs = 60_000

export function createGate(
  { rateLimit, breaker: policy }: Pick<DestinationDefinition, 'rateLimit' | 'breaker'>,
  now: () => Date,
): Gate {
  const limiter = rateLimit ? createRateLimiter(rateLimit, now) : unlimited
  const breaker = policy ? createBreaker(policy, now) : neverOpen
  let hushedUntil = 0

  const waitMs = () =>
    Math.max(hushedUntil - now().getTime(), limiter.waitMs(), breaker.waitMs(), 0)

  return {
    admit: () => {
      const ms = waitMs()
      const starts = ms > 0 ? 0 : Math.min(limiter.allowance(), breaker.allowance())
      return { starts, waitMs: ms }
    },
    begin: () => {
      const ms = waitMs()
      if (ms > 0) return { waitMs: ms }
      const report = breaker.begin()
      // Both have just said that one may start.
      if (!report || !limiter.take()) throw new Error('an attempt began that may not')
      return { report }
    },
    hush: (ms) => {
      hushedUntil = Math.max(hushedUntil, now().getTime() + Math.min(ms, longestHushMs))
    },
  }
}
