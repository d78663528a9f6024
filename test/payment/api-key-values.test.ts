import { expect, test } from 'vitest'
import { maskApiKey, newApiKey } from '../../src/payments/api-keys/api-keys.ts'

test('T4: an API key is mk_ and 64 hexadecimal characters, and never the same', () => {
  const keys = Array.from({ length: 10_000 }, newApiKey)
  expect(keys.filter((key) => !/^mk_[0-9a-f]{64}$/.test(key))).toEqual([])
  expect(new Set(keys).size).toBe(10_000)
  // Nor do two of them begin alike, as those of a counter or a clock do.
  expect(new Set(keys.map((key) => key.slice(3, 19))).size).toBe(10_000)
})

test('every hexadecimal place of a key takes every value', () => {
  const seen = Array.from({ length: 64 }, () => new Set<string>())
  for (let made = 0; made < 1000; made += 1) {
    for (const [place, digit] of [...newApiKey().slice(3)].entries()) seen[place]?.add(digit)
  }
  // The chance that a fair generator misses one of 1,024 in 1,000 draws is below 10^-24.
  expect(seen.map((digits) => digits.size)).toEqual(Array(64).fill(16))
})

test('the mask shows eight characters of a key and can never be one', () => {
  const key = newApiKey()
  const mask = maskApiKey(key)
  expect(mask).toBe(`${key.slice(0, 7)}…${key.slice(-4)}`)
  expect(mask).not.toMatch(/^mk_[0-9a-f]+$/)
})
