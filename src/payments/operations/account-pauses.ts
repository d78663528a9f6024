import { isAnswered, ProviderError } from '../../provider/provider.ts'
import { hasCome } from '../../repositories/due-work.ts'

/** Which provider accounts background work spares for a moment. In memory: each process learns for itself. */
export type AccountPauses = {
  /** How many calls each account in trouble may be sent at once now: none while it pauses, then one that tries it. */
  widths(now: Date): ReadonlyMap<number, number>
  /** When this account may be asked again; undefined when it may be asked now. */
  pausedUntil(mpUserId: number, now: Date): Date | undefined
  /** Learns from a call: `failure` is what it ended with, undefined when it was answered well. */
  note(mpUserId: number, failure: unknown, now: Date): void
}

/** Single failures happen; this many in a row mean that the provider is in trouble. */
const failuresAtMost = 3
const shortestPauseMs = 2_000
/** Short, since an unknown charge waits behind it: a provider that is back must be noticed within seconds. */
const longestPauseMs = 4_000
/** A provider that asks for hours is asked again sooner: tills wait. */
const longestLimitMs = 120_000

export function createAccountPauses(): AccountPauses {
  /** `untilMs` is 0 for one that has failed, but not often enough to rest. */
  const accounts = new Map<number, { failures: number; untilMs: number }>()

  const pausedUntil = (mpUserId: number, now: Date) => {
    const until = new Date(accounts.get(mpUserId)?.untilMs ?? 0)
    return hasCome(until, now, longestLimitMs) ? undefined : until
  }

  return {
    pausedUntil,
    widths(now) {
      const paused = [...accounts].filter(([, { untilMs }]) => untilMs > 0)
      return new Map(paused.map(([mpUserId]) => [mpUserId, pausedUntil(mpUserId, now) ? 0 : 1]))
    },
    note(mpUserId, failure, now) {
      const cause = providerErrorOf(failure)
      if (cause === undefined || isAnswered(cause)) {
        // A call that was under way with the one that was asked to wait says nothing about afterwards.
        if (!pausedUntil(mpUserId, now)) accounts.delete(mpUserId)
        return
      }
      const before = accounts.get(mpUserId)
      const failures = (before?.failures ?? 0) + 1
      const pause = pauseMs(cause, failures)
      const restUntil = new Date(before?.untilMs ?? 0)
      const paused = hasCome(restUntil, now, longestLimitMs)
        ? Math.min(restUntil.getTime(), now.getTime())
        : restUntil.getTime()
      const untilMs = Math.max(paused, pause > 0 ? now.getTime() + pause : 0)
      accounts.set(mpUserId, { failures, untilMs })
    },
  }
}

function pauseMs(error: ProviderError, failures: number): number {
  if (error.kind === 'rate_limited') {
    return Math.min(longestLimitMs, Math.max(1, error.retryAfterSeconds ?? 2) * 1000)
  }
  const over = failures - failuresAtMost
  return over < 0 ? 0 : Math.min(longestPauseMs, shortestPauseMs * 2 ** over)
}

/** What the provider said, of a failure of ours that carries it as its cause, too. */
export function providerErrorOf(failure: unknown): ProviderError | undefined {
  if (failure instanceof ProviderError) return failure
  if (failure instanceof Error && failure.cause instanceof ProviderError) return failure.cause
  return undefined
}
