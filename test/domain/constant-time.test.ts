import { expect, test } from 'vitest'
import { isSecret, sameSecret } from '../../src/domain/secret-hash.ts'

test.each([
  ['same', 'same', true],
  ['', '', true],
  ['same', 'samf', false],
  ['same', 'sam', false],
  ['same', 'same ', false],
  ['same', 'same, same', false],
  ['same', '', false],
  ['ñ', 'n\u0303', false],
])('%j and %j are equal secrets: %s', (a, b, expected) => {
  expect(sameSecret(a, b)).toBe(expected)
  expect(sameSecret(b, a)).toBe(expected)
  expect(isSecret(a)(b)).toBe(expected)
})
