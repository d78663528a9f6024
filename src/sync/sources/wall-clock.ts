/** Times as a wall clock shows them: a Date whose UTC fields are those of the clock. */
export type WallClock = {
  /** The instant at which the clock shows this; the first of two in the hour that comes twice in autumn. */
  toInstant(wall: Date): Date
  toWall(instant: Date): Date
}

const hourMs = 3_600_000
/** No offset changes more often; some have a quarter of an hour. */
const stepMs = 900_000
const cachedOffsets = 10_000

/** @param timeZone a name of the IANA database. */
export function createWallClock(timeZone: string): WallClock {
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
      const before = offsetAt(ms - 24 * hourMs)
      const after = offsetAt(ms + 24 * hourMs)
      const fits = [before, after].filter((offset) => offsetAt(ms - offset) === offset)
      // In the hour that spring leaves out none does: the clock goes on as before.
      const offset = fits.length === 0 ? before : Math.max(...fits)
      return new Date(ms - offset)
    },
    toWall: (instant) => new Date(instant.getTime() + offsetAt(instant.getTime())),
  }
}
