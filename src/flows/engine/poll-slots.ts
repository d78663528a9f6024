import { createLimit } from '../net/connection-limit.ts'

/**
 * Waits until a poll may begin. Call the result at its end. Rejects with the reason of the signal if that aborts
 * first.
 */
export type PollSlots = (signal: AbortSignal) => Promise<() => void>

/** A longer poll, such as a first import, no longer delays others. */
const longestMs = 1_000

/**
 * Limits timed polls to `places` at a time, in order of request. Each place then pauses for as long as its poll took.
 * Otherwise hundreds of flows that are due every second would occupy CPU and database. Charges come first; flows are
 * polled as often as that allows.
 */
export function createPollSlots(places: number): PollSlots {
  const limit = createLimit(places)
  return async (signal) => {
    const release = await limit.acquire(signal)
    const beganAt = performance.now()
    const timer = setTimeout(release, longestMs).unref()
    return () => {
      clearTimeout(timer)
      setTimeout(release, Math.min(performance.now() - beganAt, longestMs)).unref()
    }
  }
}
