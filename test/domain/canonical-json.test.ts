import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson, isSameJson } from '../../src/domain/json.ts'

test.each<[value: unknown, text: string]>([
  [{ b: 1, a: 2 }, '{"a":2,"b":1}'],
  [{ a: { d: 1, c: [{ f: 1, e: 2 }] } }, '{"a":{"c":[{"e":2,"f":1}],"d":1}}'],
  [[3, 1, 2], '[3,1,2]'],
  [{ a: undefined, b: null }, '{"b":null}'],
  [[undefined, null], '[null,null]'],
  [undefined, 'null'],
  [{ 10: 'x', 9: 'y', é: 'z' }, '{"10":"x","9":"y","é":"z"}'],
  [{ 'a"b': '\n\u2028' }, '{"a\\"b":"\\n\u2028"}'],
  [-0, '0'],
  [1e21, '1e+21'],
  ['', '""'],
  [{}, '{}'],
  [[], '[]'],
])('the canonical JSON of %j is %s', (value, text) => {
  expect(canonicalJson(value)).toBe(text)
})

/** The same value with the keys of every object in another order. */
function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled)
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).map(([name, field]) => [name, shuffled(field)] as const)
  return Object.fromEntries(entries.toReversed())
}

const json = fc.jsonValue({ depthSize: 'small' }).filter((value) => {
  // `Object.fromEntries` here loses a literal __proto__ key.
  return !JSON.stringify(value).includes('__proto__')
})

test('the order of keys does not change the text', () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(canonicalJson(shuffled(value))).toBe(canonicalJson(value))
    }),
  )
})

test('the text is JSON of the same value, so different values have different texts', () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
    }),
  )
})

test('two values are equal when their canonical JSON is equal', () => {
  const value = fc.oneof(
    json,
    fc.constantFrom<unknown>(
      undefined,
      null,
      {},
      [],
      { a: undefined },
      [undefined],
      [null],
      1n,
      1,
      -0,
    ),
  )
  fc.assert(
    fc.property(fc.array(value, { maxLength: 3 }), value, fc.boolean(), (list, other, isEqual) => {
      const one = { a: list, b: other, c: undefined }
      const two = isEqual ? shuffled(one) : { a: other, b: list }
      expect(isSameJson(one, two)).toBe(canonicalJson(one) === canonicalJson(two))
      expect(isSameJson(list, other)).toBe(canonicalJson(list) === canonicalJson(other))
    }),
  )
})
