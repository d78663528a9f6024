import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson } from '../../src/domain/json.ts'
import {
  CanonicalError,
  createCanonicalizer,
  fixedDecimals,
  type HashRules,
} from '../../src/flows/item/canonical.ts'

const plain: HashRules = { ignore: [], trim: false, emptyAsNull: false, decimals: {} }
const canonical = (record: object, rules: Partial<HashRules> = {}) =>
  createCanonicalizer({ ...plain, ...rules })(record)

/** A text without refused characters: lone surrogates and NUL. */
const clean = fc.string({ unit: 'grapheme' }).filter((text) => !text.includes('\0'))
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
    clean,
    fc.array(tie('value'), { maxLength: 4 }),
    tie('record'),
  ),
  record: fc.dictionary(
    clean.filter((name) => name !== '__proto__'),
    tie('value'),
    { maxKeys: 5 },
  ),
})).record as fc.Arbitrary<Record<string, unknown>>

const composed = (record: object) => {
  const names = Object.keys(record).map((name) => name.normalize('NFC'))
  return new Set(names).size === names.length
}

test('the text is the JSON of the value with sorted keys, and its own canonical form', () => {
  fc.assert(
    fc.property(json.filter(everywhere(composed)), (record) => {
      const once = canonical(record)
      expect(once.text).toBe(canonicalJson(once.value))
      expect(JSON.parse(once.text)).toEqual(once.value)
      expect(canonical(once.value).text).toBe(once.text)
    }),
  )
})

test('the text does not depend on the order of keys or on earlier records', () => {
  const shared = createCanonicalizer(plain)
  fc.assert(
    fc.property(json.filter(everywhere(composed)), fc.integer(), (record, seed) => {
      const turned = Object.fromEntries(
        Object.entries(record).toSorted(
          ([a], [b]) => ((a.length * seed) % 7) - ((b.length * seed) % 7),
        ),
      )
      expect(shared(turned).text).toBe(shared(record).text)
      expect(shared(turned).text).toBe(canonical(record).text)
    }),
  )
})

test('different records have different texts', () => {
  fc.assert(
    fc.property(
      json.filter(everywhere(composed)),
      json.filter(everywhere(composed)),
      (left, right) => {
        const same =
          JSON.stringify(canonical(left).value) === JSON.stringify(canonical(right).value)
        expect(canonical(left).text === canonical(right).text).toBe(same)
      },
    ),
  )
})

test.each<[string, unknown, string]>([
  ['a date', new Date('2026-03-31T10:00:00-03:00'), '"2026-03-31T13:00:00.000Z"'],
  ['bytes', Buffer.from('ñ'), '"w7E="'],
  ['a bigint', 9007199254740993n, '"9007199254740993"'],
  ['a decimal as text', '0.10', '"0.10"'],
  ['minus zero', -0, '0'],
  ['a large double', 1e21, '1e+21'],
  ['text that is not composed', 'Nin\u0303o', '"Niño"'],
  ['an emoji', '🧉', '"🧉"'],
  [
    'an object without a prototype',
    Object.assign(Object.create(null), { b: 1, a: 2 }),
    '{"a":2,"b":1}',
  ],
  [
    'the name of a built-in',
    JSON.parse('{"constructor":1,"toString":2}'),
    '{"constructor":1,"toString":2}',
  ],
])('%s becomes its canonical text', (_, value, expected) => {
  expect(canonical({ value }).text).toBe(`{"value":${expected}}`)
})

const cycle: Record<string, unknown> = {}
cycle.self = cycle
const deep = Array.from({ length: 40 }).reduce((inner) => [inner], 1)
test.each<[string, unknown, string]>([
  ['NaN', Number.NaN, 'is NaN'],
  ['Infinity', Number.POSITIVE_INFINITY, 'is Infinity'],
  ['a function', () => 1, 'is a function'],
  ['a symbol', Symbol('x'), 'is a symbol'],
  ['a cycle', cycle, 'deeper than 32'],
  ['forty lists in each other', deep, 'deeper than 32'],
  ['a list with a hole', [1, undefined], 'has a hole'],
  ['half a character', '\ud83e', 'half a character'],
  ['NUL', 'a\0b', 'character NUL'],
  ['an invalid date', new Date('x'), 'no valid date'],
  ['a Map', new Map(), 'class Map'],
  ['the field __proto__', JSON.parse('{"__proto__":{"admin":true}}'), '__proto__'],
  ['two names that are one after composing', { 'n\u0303': 1, ñ: 2 }, 'is there twice'],
])('%s is refused with the reason and the field', (_, value, reason) => {
  expect(() => canonical({ value })).toThrow(CanonicalError)
  expect(() => canonical({ value })).toThrow(reason)
})

test('the same refusals hold for names and at the top', () => {
  expect(() => canonical(JSON.parse('{"__proto__":1}'))).toThrow(CanonicalError)
  expect(() => canonical({ 'a\0': 1 })).toThrow(CanonicalError)
})

test('trim and emptyAsNull apply to every text', () => {
  const rules = { trim: true, emptyAsNull: true }
  expect(canonical({ a: ' x ', b: '  ', c: ['', { d: ' ' }] }, rules).text).toBe(
    '{"a":"x","b":null,"c":[null,{"d":null}]}',
  )
  expect(canonical({ a: ' x ', b: '' }).text).toBe('{"a":" x ","b":""}')
})

test('an ignored field is in the value but not in the text, also within lists', () => {
  const rules = { ignore: ['seen', 'boxes.seen'] }
  const made = canonical({ id: 1, seen: 2, boxes: [{ id: 3, seen: 4 }], deep: { seen: 5 } }, rules)
  expect(made.text).toBe('{"boxes":[{"id":3}],"deep":{"seen":5},"id":1}')
  expect(made.value).toEqual({ id: 1, seen: 2, boxes: [{ id: 3, seen: 4 }], deep: { seen: 5 } })
})

test('decimals become fixed text, whatever their original form', () => {
  const rules = { decimals: { lat: 6, 'boxes.balance': 2 } }
  const texts = [-34.6037, '-34.6037', '-34.60370000', -34.603700000001].map(
    (lat) => canonical({ lat, boxes: [{ balance: 5 }] }, rules).text,
  )
  expect(new Set(texts)).toEqual(new Set(['{"boxes":[{"balance":"5.00"}],"lat":"-34.603700"}']))
  expect(canonical({ lat: null }, rules).text).toBe('{"lat":null}')
  expect(() => canonical({ lat: '-34,6' }, rules)).toThrow('no number with a decimal point')
  expect(() => canonical({ lat: '' }, rules)).toThrow('no number with a decimal point')
})

test.each<[string | number | bigint, number, string | undefined]>([
  ['2.675', 2, '2.68'],
  [2.675, 2, '2.68'],
  ['-2.675', 2, '-2.68'],
  ['-0.001', 2, '0.00'],
  ['999.999', 2, '1000.00'],
  ['0.5', 0, '1'],
  ['12345678901234567890.125', 2, '12345678901234567890.13'],
  [1e-7, 6, '0.000000'],
  [5e-7, 6, '0.000001'],
  [1.5e21, 1, '1500000000000000000000.0'],
  ['1.5e2', 1, '150.0'],
  [7n, 3, '7.000'],
  ['.5', 2, '0.50'],
  ['5.', 2, '5.00'],
  ['+3', 1, '3.0'],
  ['', 2, undefined],
  ['.', 2, undefined],
  ['1,5', 2, undefined],
  ['0x10', 2, undefined],
  ['1e9999', 2, undefined],
])('%s with %i decimals is %s', (given, decimals, expected) => {
  expect(fixedDecimals(given, decimals)).toBe(expected)
})

test('a value that is too large is refused with the field that makes it so', () => {
  const small = { id: 'A-1', name: 'x'.repeat(1_000) }
  const long = { ...small, foto: 'x'.repeat(1_048_576), lines: [1, 2] }
  expect(() => canonical(long)).toThrow(
    'the item is longer than 1048576 characters, most of them in the field "foto"; leave it out',
  )
  const many = { ...small, lines: Array.from({ length: 50_000 }, (_, index) => index), z: 1 }
  expect(() => canonical(many)).toThrow(
    'the item has more than 50000 values, most of them in the field "lines"; is its key right?',
  )
  const names = Array.from({ length: 4_097 }, (_, index) => [`c${index}`, 1])
  expect(() => canonical({ ...small, prices: Object.fromEntries(names) })).toThrow(
    'the field "prices" has more than 4096 fields',
  )
})

test('fixed decimals of whole cents are exact', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
      fc.nat(20),
      (digits, decimals) => {
        const scale = 10n ** BigInt(decimals)
        const size = digits < 0n ? -digits : digits
        const fraction = decimals === 0 ? '' : `.${String(size % scale).padStart(decimals, '0')}`
        const text = `${digits < 0n ? '-' : ''}${size / scale}${fraction}`
        expect(fixedDecimals(text, decimals)).toBe(text)
        expect(fixedDecimals(`${text}${decimals ? '' : '.'}4999`, decimals)).toBe(
          size === 0n ? text.replace('-', '') : text,
        )
      },
    ),
  )
})

function everywhere(test: (record: object) => boolean) {
  const holds = (value: unknown): boolean => {
    if (value === null || typeof value !== 'object') return true
    return (Array.isArray(value) || test(value)) && Object.values(value).every(holds)
  }
  return holds
}
