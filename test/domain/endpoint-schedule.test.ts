import { expect, test } from 'vitest'
import { furthestAttemptMs, pauseAfterMs } from '../../src/domain/endpoint-schedule.ts'

const pauses = (random: () => number) =>
  Array.from({ length: 10 }, (_, place) => pauseAfterMs(place + 1, random))

test('an event is sent again by the schedule of Standard Webhooks, 75 hours in all, and then no more', () => {
  const seconds = pauses(() => 1).map((ms) => (ms === undefined ? undefined : ms / 1_000))
  expect(seconds).toEqual([
    ...[5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400],
    undefined,
  ])
  const total = seconds.reduce<number>((sum, one) => sum + (one ?? 0), 0)
  expect(Math.floor(total / 3_600)).toBe(75)
})

test('chance makes a pause longer by a tenth at most, and never shorter', () => {
  const plain = pauses(() => 1)
  for (const [place, ms] of pauses(() => 0).entries()) {
    const least = plain[place]
    if (ms === undefined || least === undefined) continue
    expect(ms).toBeGreaterThan(least)
    expect(ms).toBeLessThanOrEqual(least * 1.1)
    expect(ms).toBeLessThan(furthestAttemptMs)
  }
})
