import { Cron } from 'croner'
import { createSemaphore } from '../../domain/semaphore.ts'
import type { Flow } from '../definition/schema.ts'

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
 * Waits until a poll may begin: the flow whose last poll ended first comes first, one without a poll (null) before all others. Call
 * the result at its end. Rejects with the reason of the signal if that aborts first.
 */
type PollSlots = (signal: AbortSignal, lastPollAt: Date | null) => Promise<() => void>

/** A longer poll, such as a first import, no longer delays others. */
const longestMs = 1_000

/** How often it is checked whether a poll works, or waits for its source or the database. */
const checkMs = 100

const eventLoopBusyMs = () => performance.eventLoopUtilization().active

/**
 * Limits timed polls to `places` at a time. Each place then pauses for as long as the process was busy during
 * its poll. Otherwise hundreds of flows that are due every second would occupy the CPU. Charges come first; flows are polled as often
 * as that allows. A poll during which the process is mostly idle waits for a slow source: it gives its place back, so that slow
 * sources do not delay other flows. Its statements stay limited by the connections of the flow side.
 *
 * @param busyMs milliseconds that the process has worked since its start
 */
export function createPollSlots(places: number, busyMs = eventLoopBusyMs): PollSlots {
  const limit = createSemaphore(places)
  return async (signal, lastPollAt) => {
    const release = await limit.acquire(signal, lastPollAt?.getTime() ?? Number.NEGATIVE_INFINITY)
    const beganAt = performance.now()
    const busyBefore = busyMs()
    const timer = setInterval(() => {
      const tookMs = performance.now() - beganAt
      const isWaiting = busyMs() - busyBefore < tookMs / 2
      if (isWaiting || tookMs >= longestMs) end()
    }, checkMs).unref()
    const end = () => {
      clearInterval(timer)
      release()
    }
    return () => {
      clearInterval(timer)
      setTimeout(release, Math.min(busyMs() - busyBefore, longestMs)).unref()
    }
  }
}
