import { ProviderError } from '../provider/provider.ts'

/** How long an intent counts as being worked on by the request that made it; a call to the provider ends before. */
export const operationInFlightMs = 45_000

/** When the sweeper takes up an intent that its own request never settled: after that request is over. */
export function firstOperationAttempt(now: Date): Date {
  return new Date(now.getTime() + operationInFlightMs)
}

/**
 * When the sweeper asks again about an operation or creation of unknown outcome: money hangs on it, so within seconds.
 * The sweeper itself spares an account in trouble.
 */
export function nextUnknownAttempt(now: Date, createdAt: Date): Date {
  const ageMs = now.getTime() - createdAt.getTime()
  return new Date(now.getTime() + (ageMs < 120_000 ? 2_000 : 5_000))
}

/** Whether the provider itself said something, were it only "wait"; false when it was away, broken or overloaded. */
export function isAnswered(error: unknown): boolean {
  if (!(error instanceof ProviderError)) return true
  return error.status !== null && error.status < 500 && error.kind !== 'rate_limited'
}
