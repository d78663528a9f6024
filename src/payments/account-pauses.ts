import { ProviderError } from '../provider/provider.ts'
import { isAnswered } from './operation-ladder.ts'

/** Which provider accounts background work leaves alone for a moment. In memory: each process learns for itself. */
export type AccountPauses = {
  /** Accounts that are left alone at this moment. */
  paused(now: Date): number[]
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
  const accounts = new Map<number, { failures: number; untilMs: number }>()

  const pausedUntil = (mpUserId: number, now: Date) => {
    const untilMs = accounts.get(mpUserId)?.untilMs ?? 0
    return untilMs > now.getTime() ? new Date(untilMs) : undefined
  }

  return {
    pausedUntil,
    paused: (now) => [...accounts.keys()].filter((mpUserId) => pausedUntil(mpUserId, now)),
    note(mpUserId, failure, now) {
      const cause = providerErrorOf(failure)
      if (cause === undefined || isAnswered(cause)) {
        accounts.delete(mpUserId)
        return
      }
      const failures = (accounts.get(mpUserId)?.failures ?? 0) + 1
      const untilMs = now.getTime() + pauseMs(cause, failures)
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

/** A failure of ours carries the provider's as its cause. */
function providerErrorOf(failure: unknown): ProviderError | undefined {
  if (failure instanceof ProviderError) return failure
  if (failure instanceof Error && failure.cause instanceof ProviderError) return failure.cause
  return undefined
}
