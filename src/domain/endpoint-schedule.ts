import { backoffMs } from './backoff.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** Pauses after each failed attempt of an event: the schedule of Standard Webhooks 1.0, 75 h in all. */
const pausesMs: readonly number[] = [
  5_000,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
]

/** Chance makes a pause longer by up to this share, so that events that failed together do not come again together. */
const longerBy = 0.1

/** No attempt is planned further ahead, with a margin for clock differences. */
export const furthestAttemptMs = 27 * hourMs

/** The pause after so many failed attempts of an event; undefined when the schedule has ended. */
export function pauseAfterMs(attempts: number, random?: () => number): number | undefined {
  const pauseMs = pausesMs[attempts - 1]
  if (pauseMs === undefined) return undefined
  const longestMs = pauseMs * (1 + longerBy)
  return backoffMs(1, { firstMs: longestMs, longestMs, jitter: longerBy / (1 + longerBy) }, random)
}
