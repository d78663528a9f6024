import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeExternalId, encodeReference } from '../../src/domain/provider-names.ts'
import { reducePosName } from '../../src/provider/stores-api.ts'

const alphabet = /^[A-Za-z0-9_-]{1,64}$/

test.each([
  ['TCK-0001-00004711', 1, 'TCK-0001-00004711'],
  ['A-2', 1, 'A-2'],
  ['F-12345', 1, 'F-12345'],
  ['A', 2, 'A-2'],
  ['A-2', 3, 'A-2-3'],
  ['A-', 2, 'A--2'],
  ['x'.repeat(64), 1, 'x'.repeat(64)],
  ['x'.repeat(62), 9, `${'x'.repeat(62)}-9`],
])('%s at attempt %i is %s', (text, attempt, reference) => {
  expect(encodeReference(text, attempt)).toBe(reference)
})

// Sent to the provider and stored in the database: these values must never change.
test.each([
  ['Factura Nº 12/2026', 1, 'Factura-No-1_x0dd6cedb8e40603112a5feb32ae7b3d2'],
  ['Factura Nº 12/2026', 3, 'Factura-No-1_x0dd6cedb8e40603112a5feb32ae7b3d2-3'],
  ['x'.repeat(62), 10, 'xxxxxxxxxxxx_x2907ff68b0194f37ce0e03151299dde9-10'],
])('%s at attempt %i is encoded as %s', (text, attempt, reference) => {
  expect(encodeReference(text, attempt)).toBe(reference)
})

test('attempts are integers from 1', () => {
  for (const attempt of [0, -1, 1.5, Number.NaN, 2 ** 53]) {
    expect(() => encodeReference('A', attempt)).toThrow(RangeError)
  }
})

const attempts = fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 2 ** 53 - 1 }))
const plain = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/)
const texts = fc.oneof(
  plain,
  fc.string({ unit: 'binary', minLength: 1, maxLength: 64 }),
  // Texts in the form of an encoded reference.
  fc.tuple(plain, attempts).map(([text, attempt]) => encodeReference(text, attempt)),
  fc.tuple(fc.string({ minLength: 1 }), attempts).map(([text, n]) => encodeReference(text, n)),
)

test('every text at every attempt gives the same valid reference each time', {
  tags: ['long'],
}, () => {
  fc.assert(
    fc.property(texts, attempts, (text, attempt) => {
      const reference = encodeReference(text, attempt)
      expect(reference).toMatch(alphabet)
      expect(encodeReference(text, attempt)).toBe(reference)
      if (attempt > 1) expect(reference.endsWith(`-${attempt}`)).toBe(true)
    }),
    { numRuns: 2_000 },
  )
})

test('a plain text stays unchanged at attempt 1 unless it ends like an encoded reference', () => {
  fc.assert(
    fc.property(plain, (text) => {
      fc.pre(!/_x[0-9a-f]{32}(-\d+)?$/.test(text))
      expect(encodeReference(text, 1)).toBe(text)
    }),
  )
})

test('two different texts never have the same first reference', () => {
  fc.assert(
    fc.property(texts, texts, (a, b) => {
      fc.pre(a !== b)
      expect(encodeReference(a, 1)).not.toBe(encodeReference(b, 1))
    }),
    { numRuns: 5_000 },
  )
})

test('two attempts of one text never have the same reference', () => {
  fc.assert(
    fc.property(texts, attempts, attempts, (text, m, n) => {
      fc.pre(m !== n)
      expect(encodeReference(text, m)).not.toBe(encodeReference(text, n))
    }),
    { numRuns: 5_000 },
  )
})

test('a text chosen to equal the encoding of another is encoded itself', () => {
  for (const [text, attempt] of [
    ['é', 1],
    ['é', 2],
  ] as const) {
    const made = encodeReference(text, attempt)
    expect(encodeReference(made, 1)).not.toBe(made)
  }
})

test('texts that differ only in a broken half of a character have different references', () => {
  expect(encodeReference('\uD800', 1)).not.toBe(encodeReference('\uD801', 1))
})

test.each([
  ['SUC001', 60, 'SUC001'],
  ['B'.repeat(39), 39, 'B'.repeat(39)],
])('the external id %s stays unchanged', (text, max, id) => {
  expect(encodeExternalId(text, max)).toBe(id)
})

test.each([
  ['CAJA-01', 39, /^CAJA01x017bec4efa126b4ca7de4991$/],
  ['Caja Ñandú', 39, /^CajaNandux[0-9a-f]{24}$/],
  ['B'.repeat(40), 39, /^B{14}x[0-9a-f]{24}$/],
  ['---', 39, /^x[0-9a-f]{24}$/],
  [`Ax${'0'.repeat(24)}`, 39, /^Ax0{12}x[0-9a-f]{24}$/],
])('the external id %s of at most %i characters is encoded', (text, max, id) => {
  expect(encodeExternalId(text, max)).toMatch(id)
})

test('external ids are valid, stable and different', () => {
  const ids = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 80 }),
    fc.stringMatching(/^[A-Za-z0-9 -]{1,45}$/),
    fc.string({ minLength: 1 }).map((text) => encodeExternalId(text, 39)),
  )
  fc.assert(
    fc.property(ids, ids, fc.constantFrom(39, 60), (a, b, max) => {
      const id = encodeExternalId(a, max)
      expect(id).toMatch(/^[A-Za-z0-9]+$/)
      expect(id.length).toBeLessThanOrEqual(max)
      expect(encodeExternalId(a, max)).toBe(id)
      if (a !== b) expect(encodeExternalId(b, max)).not.toBe(id)
    }),
    { numRuns: 2_000 },
  )
})

test.each([
  ['Caja 1', 'v2', 'Caja 1'],
  ['Caja N° 1', 'v2', 'Caja N 1'],
  ['Niños  (2)', 'v2', 'Ninos 2'],
  ['  _a-b_  ', 'v2', '_a-b_'],
  ['日本', 'v2', undefined],
  ['x'.repeat(60), 'v2', 'x'.repeat(45)],
  [`${'x'.repeat(44)} y`, 'v2', 'x'.repeat(44)],
  ['Niños (2)', 'v1', 'Niños (2)'],
  ['a\u0000b\tc', 'v1', 'a b c'],
  ['x'.repeat(60), 'v1', 'x'.repeat(44)],
  [' \n ', 'v1', undefined],
] as const)('POS name %j for %s is %j', (name, posApi, reduced) => {
  expect(reducePosName(name, posApi)).toBe(reduced)
})

test('every POS name is reduced to what the provider allows', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 90 }), (name) => {
      const v2 = reducePosName(name, 'v2')
      if (v2 !== undefined) {
        expect(v2).toMatch(/^(?=.{1,45}$)[A-Za-z0-9_-](?:[A-Za-z0-9 _-]*[A-Za-z0-9_-])?$/)
      }
      const v1 = reducePosName(name, 'v1')
      expect((v1 ?? 'x').length).toBeLessThan(45)
      expect((v1 ?? 'x').isWellFormed()).toBe(true)
      expect(v1 ?? 'x').not.toMatch(/\p{Cc}/u)
    }),
    { numRuns: 1_000 },
  )
})
