import { Cron } from 'croner'
import type { Flow } from '../definition/schema.ts'
import { createLimit } from '../net/connection-limit.ts'

/**
 * When the next poll is planned after one that ended at `last`: after `pollInterval`, or at the next time of the
 * schedule. A time that a clock change skips runs after the change. A time that comes twice runs at the first. Null:
 * the schedule has no further time.
 */
export function plannedAfter(
  { pollIntervalMs, schedule }: Pick<Flow, 'pollIntervalMs' | 'schedule'>,
  last: Date,
): Date | null {
  const soonest = new Date(last.getTime() + pollIntervalMs)
  if (!schedule) return soonest
  // The requested time itself may match.
  return cronOf(schedule).nextRun(new Date(soonest.getTime() - 1))
}

const known = new Map<string, Cron>()

function cronOf({ cron, timeZone }: NonNullable<Flow['schedule']>): Cron {
  const key = `${cron} ${timeZone}`
  const made =
    known.get(key) ?? new Cron(cron, { timezone: timeZone, mode: '5-part', paused: true })
  known.set(key, made)
  return made
}

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
