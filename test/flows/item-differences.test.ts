import { expect, test } from 'vitest'
import { differencesOf } from '../../src/flows/item/differences.ts'

const differences = (before: object, after: object) =>
  differencesOf(before as Record<string, unknown>, after as Record<string, unknown>, 50).fields

test.each([
  ['the same', { a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, []],
  ['a value', { price: '1.00' }, { price: '1.10' }, [['price', 'changed', '1.00', '1.10']]],
  ['another type', { stock: 1 }, { stock: '1' }, [['stock', 'changed', 1, '1']]],
  ['null and absent', { a: null }, {}, [['a', 'removed', null, undefined]]],
  ['a new field', {}, { offer: true }, [['offer', 'added', undefined, true]]],
  ['deep within', { size: { w: 1 } }, { size: { w: 2 } }, [['size.w', 'changed', 1, 2]]],
  [
    'a list',
    { l: [1, 2] },
    { l: [1, 3, 4] },
    [
      ['l[1]', 'changed', 2, 3],
      ['l[2]', 'added', undefined, 4],
    ],
  ],
  ['list for object', { l: [1] }, { l: { '0': 1 } }, [['l', 'changed', [1], { '0': 1 }]]],
  [
    'odd names',
    { 'a.b': 1, '': 1 },
    {},
    [
      ['[""]', 'removed', 1, undefined],
      ['["a.b"]', 'removed', 1, undefined],
    ],
  ],
  ['inherited names', {}, { toString: 1 }, [['toString', 'added', undefined, 1]]],
])('%s', (_, before, after, expected) => {
  const seen = differences(before, after).map(({ field, change, from, to }) => [
    field,
    change,
    from,
    to,
  ])
  expect(seen).toEqual(expected)
})

test('of very many differences the first are listed, with the total number', () => {
  const many = Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`f${index}`, index]))
  const { fields, total } = differencesOf({}, many, 50)
  expect([fields.length, total]).toEqual([50, 70])
})

test('a long value is shortened, never within a character', () => {
  const [text, list] = differences(
    { a: 'x', b: [] },
    { a: '😀'.repeat(400), b: { c: 'y'.repeat(400) } },
  )
  expect(String(text?.to)).toMatch(/^(😀)+…$/u)
  expect(list).toMatchObject({ field: 'b', from: [], to: expect.stringMatching(/^\{"c":"y+…$/) })
})
