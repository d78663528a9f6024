/** Time zones of the provider's countries; for large countries that of the capital's region. */
const zoneOfSite: Record<string, string> = {
  MLA: 'America/Argentina/Buenos_Aires',
  MLB: 'America/Sao_Paulo',
  MLC: 'America/Santiago',
  MLM: 'America/Mexico_City',
  MLU: 'America/Montevideo',
  MCO: 'America/Bogota',
  MPE: 'America/Lima',
}

/** The zone of a store without one of its own, by the country of its account; Argentina's if that is unknown. */
export function timeZoneOfSite(siteId: string | null): string {
  return zoneOfSite[siteId ?? ''] ?? 'America/Argentina/Buenos_Aires'
}

/** Whether this is a name of the IANA database of time zones. */
export function isTimeZone(name: string): boolean {
  // An offset such as +03:00 has no daylight saving time, and some databases read it the other way round.
  if (!/^[A-Z]/i.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/** Times as a wall clock shows them: a Date whose UTC fields are those of the clock. */
export type WallClock = {
  /** The first instant at which the clock shows this. A time that the clock skips is read with the offset before the change. */
  toInstant(wall: Date): Date
  toWall(instant: Date): Date
  /** The wall time itself; where the clock shows it twice, the last one before all those that it shows twice. */
  beforeRepeated(wall: Date): Date
}

/** The day (`2026-11-21`) in a zone at an instant. */
export function dayIn(timeZone: string, at: Date): string {
  return wallClockOf(timeZone).toWall(at).toISOString().slice(0, 10)
}

/** From the first instant of a day in a zone to that of the next one: 23 or 25 hours when the clocks change. */
export function spanOfDay(timeZone: string, day: string): { from: Date; to: Date } {
  const clock = wallClockOf(timeZone)
  const midnight = new Date(`${day}T00:00:00Z`)
  // The clock may skip midnight: the day begins when the clock changes, which is midnight by the offset before the change.
  return { from: clock.toInstant(midnight), to: clock.toInstant(new Date(+midnight + dayMs)) }
}

const dayMs = 24 * 3_600_000

/** One zone for each rule by which clocks go back. A test compares the days with those of all zones. */
const goingBack = [
  'Africa/Cairo',
  'Africa/Casablanca',
  'America/Havana',
  'America/New_York',
  'America/Santiago',
  'Asia/Beirut',
  'Asia/Gaza',
  'Asia/Jerusalem',
  'Australia/Sydney',
  'Europe/Madrid',
]
const daysGoingBack = new Map<string, boolean>()

/** Whether a clock of an unknown zone may go back on this day or beside it, so that it shows an hour twice. */
export function mayGoBack(wall: Date): boolean {
  const day = wall.toISOString().slice(0, 10)
  let found = daysGoingBack.get(day)
  if (found === undefined) {
    const midnight = Date.parse(`${day}T00:00:00Z`)
    const aheadAt = (clock: WallClock, ms: number) => +clock.toWall(new Date(ms)) - ms
    found = goingBack.map(wallClockOf).some((clock) => {
      return aheadAt(clock, midnight - dayMs) > aheadAt(clock, midnight + 2 * dayMs)
    })
    if (daysGoingBack.size >= 1_000) daysGoingBack.clear()
    daysGoingBack.set(day, found)
  }
  return found
}

const clocks = new Map<string, WallClock>()

/** @param timeZone a name of the IANA database. */
export function wallClockOf(timeZone: string): WallClock {
  let clock = clocks.get(timeZone)
  if (!clock) {
    clock = createWallClock(timeZone)
    clocks.set(timeZone, clock)
  }
  return clock
}

/** No offset changes more often; some have a quarter of an hour. */
const stepMs = 900_000
const cachedOffsets = 10_000

function createWallClock(timeZone: string): WallClock {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    era: 'short',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  const offsets = new Map<number, number>()

  const measure = (ms: number): number => {
    const parts = new Map(format.formatToParts(ms).map(({ type, value }) => [type, value]))
    const part = (type: Intl.DateTimeFormatPartTypes) => Number(parts.get(type))
    const year = parts.get('era') === 'BC' ? 1 - part('year') : part('year')
    const shown = new Date(0)
    shown.setUTCFullYear(year, part('month') - 1, part('day'))
    shown.setUTCHours(part('hour'), part('minute'), part('second'))
    return shown.getTime() - ms
  }
  /** How far the clock is ahead of UTC, in ms. */
  const offsetAt = (ms: number): number => {
    const step = Math.floor(ms / stepMs) * stepMs
    const known = offsets.get(step)
    if (known !== undefined) return known
    if (offsets.size >= cachedOffsets) offsets.clear()
    const offset = measure(step)
    offsets.set(step, offset)
    return offset
  }

  return {
    toInstant(wall) {
      const ms = wall.getTime()
      const before = offsetAt(ms - dayMs)
      const after = offsetAt(ms + dayMs)
      const fits = [before, after].filter((offset) => offsetAt(ms - offset) === offset)
      const offset = fits.length === 0 ? before : Math.max(...fits)
      return new Date(ms - offset)
    },
    toWall: (instant) => new Date(instant.getTime() + offsetAt(instant.getTime())),
    beforeRepeated(wall) {
      const ms = wall.getTime()
      const before = offsetAt(ms - dayMs)
      const after = offsetAt(ms + dayMs)
      const isTwice = before > after && [before, after].every((one) => offsetAt(ms - one) === one)
      if (!isTwice) return wall
      let change = Math.floor((ms - before) / stepMs) * stepMs
      while (offsetAt(change) !== after) change += stepMs
      return new Date(change + after - 1)
    },
  }
}
