import fc from 'fast-check'
import { expect, test } from 'vitest'
import { centsFromErp, centsFromPoint, centsMeant, pointFromCents } from '../../src/domain/money.ts'

const digits = (min: number, max: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: min, maxLength: max })

test('every ERP amount becomes the same number with two decimals', () => {
  fc.assert(
    fc.property(digits(1, 12), digits(1, 2), (whole, decimals) => {
      const exact = BigInt(whole) * 100n + BigInt(decimals.padEnd(2, '0'))
      const cents = centsFromErp(`${whole},${decimals}`)
      if (exact === 0n) {
        expect(cents).toBeUndefined()
        return
      }
      expect(cents).toBe(Number(exact))
      const [integer = '', fraction] = pointFromCents(cents as number).split('.')
      expect(BigInt(integer)).toBe(BigInt(whole))
      expect(fraction).toBe(decimals.padEnd(2, '0'))
    }),
  )
})

test.each([
  ['100,5', 10_050],
  ['1234,50', 123_450],
  ['0,01', 1],
  ['000000000001,00', 100],
  ['999999999999,99', 99_999_999_999_999],
])('%s is %i cents', (text, cents) => {
  expect(centsFromErp(text)).toBe(cents)
})

test.each([
  '',
  '1',
  '10.50',
  '10',
  '1,',
  ',5',
  ',',
  '-1,00',
  '+1,00',
  '0,00',
  '0,0',
  '000,00',
  '1.234,50',
  '1.000,5',
  '1,234',
  '1,2,3',
  '1e3',
  '1e3,00',
  '0x10,00',
  ' 1,00',
  '1,00 ',
  '1,00\n',
  '\n1,00',
  '1\n,00',
  '9999999999999,00',
  'NaN',
  'Infinity,00',
  '١,٠٠',
  '1٫00',
  '1\uff0c00',
  '1,0\u0000',
])('%j is not an ERP amount', (text) => {
  expect(centsFromErp(text)).toBeUndefined()
})

test('T25: exactly the documented shape above zero is an ERP amount, whatever the text', () => {
  const mixed = fc.string({ unit: fc.constantFrom(...'0159,.-e \n١'), maxLength: 16 })
  fc.assert(
    fc.property(mixed, (text) => {
      const fits = /^[0-9]{1,12},[0-9]{1,2}(?![\s\S])/.test(text) && /[1-9]/.test(text)
      expect(centsFromErp(text) !== undefined).toBe(fits)
    }),
    { numRuns: 2_000 },
  )
})

test.each([
  ['10', 1_000],
  ['10.5', 1_050],
  ['10.00', 1_000],
  ['0', 0],
  ['0.00', 0],
])('the provider’s %s is %i cents', (text, cents) => {
  expect(centsFromPoint(text)).toBe(cents)
})

test.each(['', '.5', '1.', '1.234', '-1.00', '1,00', '1e2', '1.00\n', 'NaN', '1234567890123'])(
  'the provider’s %j is not guessed at',
  (text) => {
    expect(centsFromPoint(text)).toBeUndefined()
  },
)

test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])(
  '%d cents are never printed as money',
  (cents) => {
    expect(() => pointFromCents(cents)).toThrow(RangeError)
  },
)

test('small amounts keep their leading zero', () => {
  expect([0, 1, 10, 99, 100].map(pointFromCents)).toEqual(['0.00', '0.01', '0.10', '0.99', '1.00'])
})

test.each([
  ['1234,50', 123_450, 123_450],
  ['1234.50', 123_450, 123_450],
  ['1.234,50', 123_450, 123_450],
  ['1,234.50', 123_450, 123_450],
  ['1.234.567,8', 123_456_780, 123_456_789],
  ['1234.5', 123_450, 123_459],
  ['1234', 123_400, 123_499],
  ['1.234', 123_400, 123_499],
  ['1,234', 123_400, 123_499],
  [' 0,5 ', 50, 59],
])('the typed text %s means the amounts from %d to %d cents', (typed, from, to) => {
  expect(centsMeant(typed)).toEqual({ from, to })
})

test.each([
  '',
  ',',
  '12.34.56',
  '1.234.50',
  '1,23,456',
  '1.2345',
  '12,',
  '-5',
  '1234567890123',
  'A-12',
])('the typed text "%s" means no amount', (typed) => {
  expect(centsMeant(typed)).toBeUndefined()
})
