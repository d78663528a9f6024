import fc from 'fast-check'
import { expect, test } from 'vitest'
import { backoffMs } from '../../src/domain/backoff.ts'

test('pauses double from the first to the longest', () => {
  const pauses = { firstMs: 100, longestMs: 1_000 }
  const found = [1, 2, 3, 4, 5, 6, 5_000].map((attempt) => backoffMs(attempt, pauses))
  expect(found).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000])
})

test('the factor and the random part of the pauses', () => {
  const pauses = { firstMs: 1_000, longestMs: 20_000, factor: 3, jitter: 0.2 }
  const found = (random: number) =>
    [1, 2, 3, 4].map((attempt) => backoffMs(attempt, pauses, () => random))
  expect(found(0)).toEqual([1_000, 3_000, 9_000, 20_000])
  expect(found(0.5)).toEqual([900, 2_700, 8_100, 18_000])
  expect(backoffMs(1, { firstMs: 100, longestMs: 100, factor: 1 })).toBe(100)
})

test('no pause is longer than the longest, or shorter than what chance may take off', () => {
  const draw = fc.double({ min: 0, max: 0.999, noNaN: true })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2_000 }), draw, draw, (attempt, jitter, random) => {
      const found = backoffMs(attempt, { firstMs: 50, longestMs: 9_000, jitter }, () => random)
      expect(found).toBeLessThanOrEqual(9_000)
      expect(found).toBeGreaterThanOrEqual(Math.floor(50 * (1 - jitter)))
    }),
  )
})
