import { expect, test } from 'vitest'
import { dueSince, isInWindow, startOfDay } from '../../src/domain/time-window.ts'

const timezone = 'America/Argentina/Buenos_Aires' // UTC-3, no summer time
const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri'] as const
const at = (text: string) => new Date(text)

const shop = { days: [...weekdays], from: '07:00', to: '22:00', timezone }
const night = { days: [...weekdays], from: '22:00', to: '06:00', timezone }
const allDay = { days: [...weekdays], from: '00:00', to: '24:00', timezone }

// 2026-11-20 is a Friday.
test.each([
  [shop, '2026-11-20T10:00:00Z', true, 'Friday 07:00'],
  [shop, '2026-11-20T09:59:59Z', false, 'Friday 06:59'],
  [shop, '2026-11-21T00:59:59Z', true, 'Friday 21:59'],
  [shop, '2026-11-21T01:00:00Z', false, 'Friday 22:00'],
  [shop, '2026-11-21T13:00:00Z', false, 'Saturday 10:00'],
  [night, '2026-11-21T02:00:00Z', true, 'Friday 23:00'],
  [night, '2026-11-21T08:59:00Z', true, 'Saturday 05:59, the night of Friday'],
  [night, '2026-11-21T09:00:00Z', false, 'Saturday 06:00'],
  [night, '2026-11-22T02:00:00Z', false, 'Saturday 23:00'],
  [night, '2026-11-23T05:00:00Z', false, 'Monday 02:00, the night of Sunday'],
  [allDay, '2026-11-21T02:59:59Z', true, 'Friday 23:59'],
  [allDay, '2026-11-21T03:00:00Z', false, 'Saturday 00:00'],
])('%j at %s: %s (%s)', (window, time, expected) => {
  expect(isInWindow({ ...window }, at(time))).toBe(expected)
})

test('without a window it is always open', () => {
  expect(isInWindow(undefined, at('2026-11-21T03:00:00Z'))).toBe(true)
})

test('a day begins at midnight of its time zone', () => {
  expect(startOfDay(timezone, at('2026-11-21T02:30:15.123Z'))).toEqual(at('2026-11-20T03:00:00Z'))
  expect(startOfDay('UTC', at('2026-11-21T02:30:15.123Z'))).toEqual(at('2026-11-21T00:00:00Z'))
})

test.each([
  ['the clock went forward at midnight', 'America/Santiago', '2026-09-06T04:00:00Z'],
  ['the clock went back the evening before', 'America/Santiago', '2026-04-05T04:00:00Z'],
  ['the clock goes forward at two', 'Europe/Madrid', '2026-03-28T23:00:00Z'],
  ['the clock goes back at three', 'Europe/Madrid', '2026-10-24T22:00:00Z'],
])('a day begins at its first moment: %s', (_, zone, begin) => {
  for (const hours of [0, 1, 5, 22]) {
    const now = new Date(Date.parse(begin) + hours * 3_600_000 + 1)
    expect(startOfDay(zone, now), `${hours} h later`).toEqual(at(begin))
  }
})

test.each([
  ['planned for later', '2026-11-20T15:00:00Z', '2026-11-20T14:00:00Z', null],
  ['planned for earlier', '2026-11-20T13:00:00Z', '2026-11-20T14:00:00Z', '2026-11-20T13:00:00Z'],
  ['while none may begin', '2026-11-20T13:00:00Z', '2026-11-21T13:00:00Z', null],
])('a poll is due since its planned begin: %s', (_, planned, now, expected) => {
  expect(dueSince({ ...shop }, at(planned), at(now))).toEqual(expected && at(expected))
})

test('a poll that was planned outside the window is due since the window opened', () => {
  const since = dueSince({ ...shop }, at('2026-11-20T01:30:00Z'), at('2026-11-20T10:20:00Z'))
  expect(Math.abs((since?.getTime() ?? 0) - at('2026-11-20T10:00:00Z').getTime())).toBeLessThan(
    60_001,
  )
})
