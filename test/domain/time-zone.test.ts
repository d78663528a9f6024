import { expect, test } from 'vitest'
import { startOfDay } from '../../src/domain/time-window.ts'
import { dayIn, isTimeZone, mayGoBack, spanOfDay, wallClockOf } from '../../src/domain/time-zone.ts'

const days = [
  ['America/Argentina/Buenos_Aires', '2026-11-21', '2026-11-21T03:00:00.000Z', 24],
  // The clocks go forward at midnight, which is left out.
  ['America/Santiago', '2026-09-06', '2026-09-06T04:00:00.000Z', 23],
  ['America/Santiago', '2026-04-04', '2026-04-04T03:00:00.000Z', 25],
  // The clocks go back from 01:00 to midnight, which comes twice: the day begins with the first.
  ['America/Havana', '2026-11-01', '2026-11-01T04:00:00.000Z', 25],
  ['Asia/Amman', '2021-10-29', '2021-10-28T21:00:00.000Z', 25],
  ['Europe/Madrid', '2026-03-29', '2026-03-28T23:00:00.000Z', 23],
  ['America/Montevideo', '2026-12-31', '2026-12-31T03:00:00.000Z', 24],
] as const

test.each(days)('a day in %s on %s begins at %s and has %d hours', (zone, day, begin, hours) => {
  const { from, to } = spanOfDay(zone, day)
  expect(from.toISOString()).toBe(begin)
  expect((to.getTime() - from.getTime()) / 3_600_000).toBe(hours)
  expect(dayIn(zone, from)).toBe(day)
  expect(dayIn(zone, new Date(from.getTime() - 1)) < day).toBe(true)
  expect(dayIn(zone, new Date(to.getTime() - 1))).toBe(day)
})

test.each(days)('the pages also begin a day in %s on %s at %s', async (zone, day, begin) => {
  const file = new URL('../../public/shared/shop-clock.js', import.meta.url)
  const page: {
    setZone(name: string): void
    midnight(day: string): string
  } = await import(file.href)
  page.setZone(zone)
  expect(page.midnight(day)).toBe(begin)
})

test.each([
  ['America/Santiago', 2026],
  ['America/Asuncion', 2024],
  ['America/Sao_Paulo', 2018],
  ['America/Havana', 2026],
  ['Europe/Madrid', 2026],
  ['America/Argentina/Buenos_Aires', 2008],
])('in %s every hour of %d belongs to the day of the local clock', (zone, year) => {
  const wrong: string[] = []
  for (let at = Date.UTC(year, 0, 1); at < Date.UTC(year + 1, 0, 1); at += 3_600_000) {
    const instant = new Date(at + 1)
    const { from, to } = spanOfDay(zone, dayIn(zone, instant))
    const isWithin = from <= instant && instant < to
    const isFirst = dayIn(zone, new Date(from.getTime() - 1)) < dayIn(zone, from)
    const isSame = startOfDay(zone, instant).getTime() === from.getTime()
    if (!isWithin || !isFirst || !isSame) wrong.push(instant.toISOString())
  }
  expect(wrong).toEqual([])
})

test('a name of the list is a time zone; an offset or another text is not', () => {
  expect(isTimeZone('America/Lima')).toBe(true)
  for (const name of ['+03:00', 'Buenos Aires', '']) expect(isTimeZone(name), name).toBe(false)
})

test('a day on which any clock goes back is one on which an unknown clock may', {
  tags: ['long'],
}, () => {
  const missed: string[] = []
  const week = 7 * 24 * 3_600_000
  for (const zone of Intl.supportedValuesOf('timeZone')) {
    const clock = wallClockOf(zone)
    const ahead = (ms: number) => clock.toWall(new Date(ms)).getTime() - ms
    for (let at = Date.UTC(2025, 0, 1); at < Date.UTC(2028, 0, 1); at += week) {
      if (ahead(at) <= ahead(at + week)) continue
      let change = at
      while (ahead(change) <= ahead(change + 900_000)) change += 900_000
      const shown = clock.toWall(new Date(change))
      if (!mayGoBack(shown)) missed.push(`${zone} ${shown.toISOString()}`)
    }
  }
  expect(missed).toEqual([])
  expect(mayGoBack(new Date('2026-07-15T02:00:00Z'))).toBe(false)
})

test('a wall time that comes twice has the last one before both, and others are themselves', () => {
  const before = (zone: string, wall: string) =>
    wallClockOf(zone).beforeRepeated(new Date(wall)).toISOString()
  for (const minute of ['00', '30', '59']) {
    const last = '2026-11-01T00:59:59.999Z'
    expect(before('America/New_York', `2026-11-01T01:${minute}:00Z`)).toBe(last)
  }
  expect(before('Australia/Lord_Howe', '2026-04-05T01:45:00Z')).toBe('2026-04-05T01:29:59.999Z')
  for (const wall of ['2026-11-01T02:00:00.000Z', '2026-03-08T02:30:00.000Z']) {
    expect(before('America/New_York', wall)).toBe(wall)
  }
})
