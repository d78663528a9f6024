import { Cron } from 'croner'
import type { Flow } from '../definition/schema.ts'

/**
 * When the next poll is planned, after one that ended at `last`: after `pollInterval`, or with a schedule at its next time from
 * then on. A time that a clock change leaves out is made up for when the clock has changed, and one that comes twice is the first
 * of both. Null: the schedule has no further time.
 */
export function plannedAfter(
  { pollIntervalMs, schedule }: Pick<Flow, 'pollIntervalMs' | 'schedule'>,
  last: Date,
): Date | null {
  const soonest = new Date(last.getTime() + pollIntervalMs)
  if (!schedule) return soonest
  // The time that is asked about counts itself.
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
