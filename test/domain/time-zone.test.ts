import { expect, test } from 'vitest'
import { dayIn, isTimeZone, spanOfDay } from '../../src/domain/time-zone.ts'

test.each([
  ['America/Argentina/Buenos_Aires', '2026-11-21', '2026-11-21T03:00:00.000Z', 24],
  // The clocks go forward at midnight, which is left out.
  ['America/Santiago', '2026-09-06', '2026-09-06T04:00:00.000Z', 23],
  ['America/Santiago', '2026-04-04', '2026-04-04T03:00:00.000Z', 25],
  ['America/Montevideo', '2026-12-31', '2026-12-31T03:00:00.000Z', 24],
])('a day in %s on %s begins at %s and has %d hours', (zone, day, begin, hours) => {
  const { from, to } = spanOfDay(zone, day)
  expect(from.toISOString()).toBe(begin)
  expect((to.getTime() - from.getTime()) / 3_600_000).toBe(hours)
  expect(dayIn(zone, from)).toBe(day)
  expect(dayIn(zone, new Date(from.getTime() - 1)) < day).toBe(true)
  expect(dayIn(zone, new Date(to.getTime() - 1))).toBe(day)
})

test('a name of the list is a zone; an offset or anything else is none', () => {
  expect(isTimeZone('America/Lima')).toBe(true)
  for (const name of ['+03:00', 'Buenos Aires', '']) expect(isTimeZone(name), name).toBe(false)
})
