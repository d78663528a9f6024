import { ProviderError } from '../provider/provider.ts'

/** The provider remembers a key for 24 h; past this it may take a repeated key for a new one. An hour is kept for clocks. */
export const keyMemoryMs = 23 * 3600_000

/**
 * When the sweeper asks again about an operation or creation of unknown outcome: money hangs on it, so within seconds.
 * The sweeper itself spares an account in trouble.
 */
export function nextUnknownAttempt(now: Date, createdAt: Date): Date {
  const ageMs = now.getTime() - createdAt.getTime()
  return new Date(now.getTime() + (ageMs < 120_000 ? 2_000 : 5_000))
}

/**
 * Whether the provider itself said something about what it was asked; false when it was away, broken or overloaded, and
 * when it only did not take the token: that passes, and an order of unknown outcome must still be looked for then.
 */
export function isAnswered(error: unknown): boolean {
  if (!(error instanceof ProviderError)) return true
  if (error.kind === 'rate_limited' || error.kind === 'unauthorized') return false
  return error.status !== null && error.status < 500
}
