import { expect, test } from 'vitest'
import { createShapeWatch, reasonOf, type Shape } from '../../src/sync/poll/shape.ts'

/** What of records does not look as it did, and what is no reason to say so. */
const rules = {
  fields: null,
  isTable: false,
  isSheet: false,
  columns: 'hold',
  types: 'hold',
} as const
const rows = (count: number, make: (n: number) => object) =>
  Array.from({ length: count }, (_, n) => ({ id: `A-${n}`, ...make(n) }))

function shapeOf(batches: object[][], given: Partial<typeof rules> | object = {}): Shape {
  const watch = createShapeWatch(undefined, { ...rules, ...given })
  for (const batch of batches) watch.look(batch as Record<string, unknown>[])
  return watch.learned()
}
const look = (known: Shape | undefined, now: object[], given: object = {}) =>
  createShapeWatch(known, { ...rules, ...given }).look(now as Record<string, unknown>[])

const priced = shapeOf([rows(20, (n) => ({ price: n, name: `n${n}` }))])

test.each([
  ['a field that all had is in none', rows(20, () => ({ name: 'x' })), ['gone price']],
  ['numbers became text', rows(20, () => ({ price: 'N/A', name: 'x' })), ['type price']],
  ['numbers became numbers as text', rows(20, () => ({ price: '12', name: 'x' })), ['type price']],
  ['a value became a list', rows(20, () => ({ price: [1], name: 'x' })), ['type price']],
  ['a text field has numbers as text', rows(20, () => ({ price: 1, name: '12' })), []],
  ['all values are null', rows(20, () => ({ price: null, name: 'x' })), []],
  ['a field is new', rows(20, () => ({ price: 1, name: 'x', stock: 1 })), []],
  ['one record of many is odd', rows(20, (n) => ({ price: n ? 1 : 'x', name: 'x' })), []],
  ['too few records tell nothing', rows(9, () => ({ name: 'x' })), []],
  ['one still has it', rows(20, (n) => (n ? { name: 'x' } : { price: 1, name: 'x' })), []],
])('%s', (_, now, expected) => {
  const found = look(priced, now)
  expect(found.map((one) => `${one.kind} ${'field' in one ? one.field : ''}`)).toEqual(expected)
})

test('the first records of a source are how it looks', () => {
  expect(
    look(
      undefined,
      rows(20, () => ({ price: 'x' })),
    ),
  ).toEqual([])
})

test('fields that only some records have are never missed', () => {
  const known = shapeOf([rows(20, (n) => (n % 2 ? { price: 1 } : {}))])
  expect(
    look(
      known,
      rows(20, () => ({})),
    ),
  ).toEqual([])
})

test('files with other columns are no surprise when they were there from the beginning', () => {
  const known = shapeOf([rows(20, () => ({ price: 1 })), rows(5, () => ({}))], { isSheet: true })
  expect(
    look(
      known,
      rows(5, () => ({})),
      { isSheet: true },
    ),
  ).toEqual([])
})

test('in a table one record tells, of a small flow as many as it has', () => {
  expect(
    look(
      priced,
      rows(1, () => ({ name: 'x' })),
      { isTable: true },
    ),
  ).toHaveLength(1)
  expect(
    look(
      priced,
      rows(1, () => ({ price: true, name: 'x' })),
      { isTable: true },
    ),
  ).toHaveLength(1)
  const small = shapeOf([rows(4, () => ({ price: 1 }))])
  expect(
    look(
      small,
      rows(4, () => ({})),
    ),
  ).toHaveLength(1)
  expect(
    look(
      small,
      rows(3, () => ({})),
    ),
  ).toHaveLength(0)
})

test('only fields that somebody uses are looked at', () => {
  expect(
    look(
      priced,
      rows(20, () => ({ name: 'x' })),
      { fields: ['id', 'name'] },
    ),
  ).toEqual([])
})

test('each can be switched off', () => {
  expect(
    look(
      priced,
      rows(20, () => ({ name: 'x' })),
      { columns: 'ignore' },
    ),
  ).toEqual([])
  expect(
    look(
      priced,
      rows(20, () => ({ price: 'x', name: 'x' })),
      { types: 'ignore' },
    ),
  ).toEqual([])
})

test('what was let through is how it looks from then on', () => {
  const watch = createShapeWatch(priced, rules)
  watch.look(rows(20, () => ({ name: 1 })))
  const known = watch.learned()
  expect(known.fields.price).toBeUndefined()
  expect(known.fields.name?.kinds).toEqual(['number', 'text'])
  expect(
    look(
      known,
      rows(20, () => ({ name: 1 })),
    ),
  ).toEqual([])
})

test('names that stand for data, or that nothing can hold, are left out', () => {
  const odd = rows(5, () => ({ 'a\0b': 1, '\ud800': 1, ['x'.repeat(300)]: 1, ['__proto__']: 1 }))
  const wide = rows(5, () => Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [n, 1])))
  expect(Object.keys(shapeOf([odd]).fields)).toEqual(['id'])
  expect(Object.keys(shapeOf([wide]).fields)).toHaveLength(1_000)
})

test('the reason is for people, and bounded', () => {
  const findings = look(
    priced,
    rows(20, () => ({ name: 5 })),
  )
  expect(reasonOf(findings)).toBe(
    'the field "price" is gone; the field "name" was text and is a number',
  )
  const many = Array.from({ length: 500 }, (_, n) => ({
    kind: 'gone' as const,
    field: `${n}-${'x'.repeat(500)}`,
  }))
  expect(reasonOf(many).length).toBeLessThanOrEqual(1_000)
})
