import { ProviderError } from '../provider/provider.ts'

/** How long an intent counts as being worked on by the request that made it; a call to the provider ends before. */
export const operationInFlightMs = 45_000

/** When the sweeper takes up an intent that its own request never settled: after that request is over. */
export function firstOperationAttempt(now: Date): Date {
  return new Date(now.getTime() + operationInFlightMs)
}

/**
 * When the sweeper asks again about an operation or creation of unknown outcome. Money hangs on it, so it is seconds
 * while the provider does not answer at all (the sweeper itself spares an account in trouble), and less often the
 * longer the provider has answered that it has no answer yet.
 */
export function nextUnknownAttempt(now: Date, createdAt: Date, answered: boolean): Date {
  const ageMs = now.getTime() - createdAt.getTime()
  const waitMs = ageMs < 120_000 ? 2_000 : !answered || ageMs < 3600_000 ? 5_000 : 60_000
  return new Date(now.getTime() + waitMs)
}

/** Whether the provider itself said something, were it only "wait"; false when it was away, broken or overloaded. */
export function isAnswered(error: unknown): boolean {
  if (!(error instanceof ProviderError)) return true
  return error.status !== null && error.status < 500 && error.kind !== 'rate_limited'
}
