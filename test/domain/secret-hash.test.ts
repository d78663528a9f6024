import { expect, test } from 'vitest'
import { codeChallenge, randomToken } from '../../src/domain/pkce.ts'
import { hashSecret } from '../../src/domain/secret-hash.ts'

test('the hash of a secret is its SHA-256 in hexadecimal (FIPS 180-4 examples)', () => {
  expect(hashSecret('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  expect(hashSecret('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
})

test('the challenge is that of RFC 7636, appendix B', () => {
  expect(codeChallenge('dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk')).toBe(
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
  )
})

test('a verifier has the length and alphabet of RFC 7636, section 4.1, and is new each time', () => {
  const verifiers = Array.from({ length: 1000 }, randomToken)
  for (const verifier of verifiers) expect(verifier).toMatch(/^[A-Za-z0-9_-]{43}$/)
  expect(new Set(verifiers).size).toBe(1000)
})
