import { Cron } from 'croner'
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
