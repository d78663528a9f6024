import { dayIn, spanOfDay, wallClockOf } from './time-zone.ts'

const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const

type TimeWindow = {
  days: readonly (typeof days)[number][]
  /** `HH:MM` by the wall clock of the time zone. */
  from: string
  to: string
  timezone: string
}
const minutesOfDay = 24 * 60

/**
 * Whether polls may begin now: in the window, by the wall clock of its time zone. A window that ends at or before its
 * beginning continues into the next day and belongs to the day of its beginning.
 */
export function isInWindow(window: TimeWindow | undefined, now: Date): boolean {
  if (!window) return true
  const from = minutesOf(window.from)
  const to = minutesOf(window.to)
  const wall = wallClockOf(window.timezone).toWall(now)
  const day = wall.getUTCDay()
  const minutes = wall.getUTCHours() * 60 + wall.getUTCMinutes()
  const isDay = (index: number) => {
    const name = days[(index + 7) % 7]
    return name !== undefined && window.days.includes(name)
  }
  if (from < to) return isDay(day) && minutes >= from && minutes < to
  return (isDay(day) && minutes >= from) || (isDay(day - 1) && minutes < to)
}

/**
 * Since when the poll planned for `planned` is due: that time, or the opening of the window after it. Null while no
 * poll may begin.
 */
export function dueSince(window: TimeWindow | undefined, planned: Date, now: Date): Date | null {
  if (planned > now || !isInWindow(window, now)) return null
  if (isInWindow(window, planned)) return planned
  // The window opens between a moment outside and one inside.
  let outside = planned.getTime()
  let inside = now.getTime()
  while (inside - outside > 60_000) {
    const between = (outside + inside) / 2
    if (isInWindow(window, new Date(between))) inside = between
    else outside = between
  }
  return new Date(inside)
}

/** When the current day began in the time zone. */
export function startOfDay(timezone: string, now: Date): Date {
  return spanOfDay(timezone, dayIn(timezone, now)).from
}

function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number)
  return Math.min(minutesOfDay, hours * 60 + minutes)
}
