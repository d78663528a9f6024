/** How the pauses between attempts grow. */
export type Backoff = {
  /** The pause after the first failure. */
  firstMs: number
  /** No pause is longer. */
  longestMs: number
  /** Each pause is that much longer than the one before; 2 when absent. */
  factor?: number
  /** The random part of a pause, 0 to 1, so that callers that failed together do not repeat together; 0 when absent. */
  jitter?: number
}

/**
 * The pause in milliseconds after failed attempt `attempt` (1 is the first): `firstMs * factor ** (attempt - 1)`, at most
 * `longestMs`. Chance takes off up to the share `jitter`, so no pause exceeds `longestMs`. `random` returns 0 to below 1.
 */
export function backoffMs(
  attempt: number,
  { firstMs, longestMs, factor = 2, jitter = 0 }: Backoff,
  random: () => number = Math.random,
): number {
  const fullMs = Math.min(longestMs, firstMs * factor ** (attempt - 1))
  return Math.round(fullMs * (1 - jitter * random()))
}
