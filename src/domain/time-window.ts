const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const

export type TimeWindow = {
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
  const { day, minutes } = wallClock(window.timezone, now)
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

/** The beginning of the present day by the wall clock of the time zone. */
export function startOfDay(timezone: string, now: Date): Date {
  const { minutes } = wallClock(timezone, now)
  const intoMinute = now.getTime() % 60_000
  return new Date(now.getTime() - minutes * 60_000 - intoMinute)
}

function wallClock(timeZone: string, now: Date): { day: number; minutes: number } {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
  }).formatToParts(now)
  const part = (type: Intl.DateTimeFormatPartTypes) =>
    parts.find((one) => one.type === type)?.value ?? ''
  const name = part('weekday').toLowerCase()
  return {
    day: (days as readonly string[]).indexOf(name),
    minutes: Number(part('hour')) * 60 + Number(part('minute')),
  }
}

function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number)
  return Math.min(minutesOfDay, hours * 60 + minutes)
}
