import { expect, test } from 'vitest'
import { codeChallenge, randomToken } from '../../src/domain/pkce.ts'
import { hashSecret, maskApiKey, newApiKey } from '../../src/domain/secrets.ts'

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

test('the hash of a secret is its SHA-256 in hexadecimal (FIPS 180-4 examples)', () => {
  expect(hashSecret('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  expect(hashSecret('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
})

test('the mask shows eight characters of a key and can never be one', () => {
  const key = newApiKey()
  const mask = maskApiKey(key)
  expect(mask).toBe(`${key.slice(0, 7)}…${key.slice(-4)}`)
  expect(mask).not.toMatch(/^mk_[0-9a-f]+$/)
})

test('the challenge is that of RFC 7636, appendix B', () => {
  expect(codeChallenge('dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk')).toBe(
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
  )
})

test('a verifier has the length and the alphabet of RFC 7636, section 4.1, and is never the same', () => {
  const verifiers = Array.from({ length: 1000 }, randomToken)
  for (const verifier of verifiers) expect(verifier).toMatch(/^[A-Za-z0-9_-]{43}$/)
  expect(new Set(verifiers).size).toBe(1000)
})
