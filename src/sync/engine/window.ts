import type { Flow } from '../definition/schema.ts'

type Window = NonNullable<Flow['window']>

const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const
const minutesOfDay = 24 * 60

/**
 * Whether polls may begin now. The window is judged by the wall clock of its time zone; one that ends at or before its
 * beginning goes on into the next day and belongs to the day it began on.
 */
export function isInWindow(window: Window | undefined, now: Date): boolean {
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
