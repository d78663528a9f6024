import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createItemReader, joinKey, splitKey } from '../../src/flows/item/item.ts'
import { type Reason, sentenceOf } from '../../src/texts/reason.ts'

/** A reason whose English sentence has these words. */
const saying = (words: string) =>
  expect.toSatisfy((why: Reason) => sentenceOf(why, 'en').includes(words))

type Rules = Parameters<typeof createItemReader>[0]['item']

const reader = (item: Partial<Rules> = {}) =>
  createItemReader({
    item: {
      key: ['codigo'],
      hash: { ignore: ['visto'], trim: true, emptyAsNull: true, decimals: { precio: 2 } },
      filter: undefined,
      onDefinitionChange: 'ask',
      ...item,
    },
  })
const hashOf = async (row: Record<string, unknown>, item: Partial<Rules> = {}) => {
  const read = await reader(item).read(row)
  return 'item' in read ? read.item.hash : read
}

test('a record becomes its key, its canonical value and a versioned hash of it', async () => {
  const row = { precio: 12.5, codigo: ' A1 ', visto: new Date(0), nombre: '' }
  const text = '{"codigo":"A1","nombre":null,"precio":"12.50"}'
  const read = await reader().read(row)
  expect('item' in read && { ...read.item }).toStrictEqual({
    pk: 'A1',
    key: ['A1'],
    value: { codigo: 'A1', nombre: null, precio: '12.50', visto: '1970-01-01T00:00:00.000Z' },
    hash: `h2:${createHash('sha256').update(text).digest('base64url')}`,
  })
})

test('different spellings of the same value have the same hash', async () => {
  const same = [
    { codigo: 'Ñ1', precio: '12.5', visto: 1 },
    { precio: 12.5, codigo: 'N\u03031 ', visto: 2 },
    { visto: null, codigo: 'Ñ1', precio: '12.500', otro: undefined },
  ]
  const hashes = await Promise.all(same.map((row) => hashOf(row)))
  expect(new Set(hashes).size).toBe(1)
})

test('the hash changes with every change of a relevant field, and only then', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        codigo: fc.constant('A'),
        a: fc.integer(),
        b: fc.boolean(),
        visto: fc.integer(),
      }),
      fc.record({
        codigo: fc.constant('A'),
        a: fc.integer(),
        b: fc.boolean(),
        visto: fc.integer(),
      }),
      async (left, right) => {
        const same = left.a === right.a && left.b === right.b
        expect((await hashOf(left)) === (await hashOf(right))).toBe(same)
      },
    ),
  )
})

test('a text and a number with the same digits are different', async () => {
  expect(await hashOf({ codigo: 'A', n: '1' })).not.toEqual(await hashOf({ codigo: 'A', n: 1 }))
})

test.each([
  [{ codigo: null }, 'null or missing'],
  [{}, 'null or missing'],
  [{ codigo: '   ' }, 'null or missing'],
  [{ codigo: { a: 1 } }, 'not a single value'],
  [{ codigo: 'x'.repeat(1_025) }, 'longer than 1024'],
  [{ codigo: '店'.repeat(1_000) }, 'longer than 2400 bytes'],
])('the key of %j is a problem without a pk', async (row, message) => {
  expect(await reader().read(row)).toEqual({
    problem: { pk: null, why: saying(message) },
  })
})

test('a blank key is a problem also where blanks are kept', async () => {
  const hash = { ignore: [], trim: false, emptyAsNull: false, decimals: {} }
  expect(await reader({ hash }).read({ codigo: '  ' })).toEqual({
    problem: { pk: null, why: { code: 'ITEM_KEY_BLANK', data: { field: '"codigo"' } } },
  })
})

test('a record without a canonical form is a problem of its item', async () => {
  expect(await reader().read({ codigo: 'A1', x: Number.NaN })).toEqual({
    problem: { pk: 'A1', why: saying('the field "x" is NaN') },
  })
})

test('a key is never taken from the prototype', async () => {
  expect(await reader({ key: ['constructor'] }).read({ codigo: 'A' })).toHaveProperty('problem')
})

test('different composite keys of any values stay different', async () => {
  const read = await reader({ key: ['codigo', 'n', 'd'] }).read({
    codigo: 'a|b\\',
    n: 7,
    d: new Date(0),
  })
  expect(read).toMatchObject({
    item: {
      pk: 'a\\|b\\\\|7|1970-01-01T00:00:00.000Z',
      key: ['a|b\\', '7', '1970-01-01T00:00:00.000Z'],
    },
  })
})

test('a filter leaves out items with a reason; an item that it cannot evaluate is a problem', async () => {
  const filter = '$exists(lat) and $number(lat) < 0'
  const read = reader({ filter }).read
  expect(await read({ codigo: 'A', lat: '-34' })).toHaveProperty('item')
  expect(await read({ codigo: 'A', lat: '34' })).toEqual({
    skipped: { code: 'ITEM_FILTER_FALSE' },
    pk: 'A',
  })
  expect(await read({ codigo: 'A', lat: null })).toHaveProperty('skipped')
  expect(await read({ codigo: 'A' })).toHaveProperty('skipped')
  expect(await read({ codigo: 'A', lat: 'x' })).toEqual({
    problem: { pk: 'A', why: saying('item.filter failed: Unable to cast') },
  })
})

test('a filter that timed out is a temporary problem', { tags: ['long'] }, async () => {
  const read = reader({ filter: '$match(codigo, /^(a+)+$/)' }).read
  expect(await read({ codigo: `${'a'.repeat(40)}!` })).toMatchObject({
    problem: { mayPass: true, why: saying('item.filter failed') },
  })
})

test('a filter whose result is truthy but not true leaves out the item', async () => {
  expect(await reader({ filter: 'codigo' }).read({ codigo: 'A' })).toHaveProperty('skipped')
})

const values = fc.array(fc.string({ unit: fc.constantFrom('a', '|', '\\', 'ñ', '🧉', '/', ' ') }), {
  minLength: 1,
  maxLength: 4,
})

test('splitKey returns what joinKey joined', () => {
  fc.assert(
    fc.property(values, (key) => {
      expect(splitKey(joinKey(key), key.length)).toEqual(key)
    }),
  )
})

test('two different keys never join to the same text', () => {
  fc.assert(
    fc.property(values, values, (left, right) => {
      const same = JSON.stringify(left) === JSON.stringify(right)
      expect(joinKey(left) === joinKey(right)).toBe(same)
    }),
  )
})

test.each([
  ['a|b', 1],
  ['a', 2],
  ['a\\', 1],
  ['a\\b', 1],
  ['a\\|b', 2],
])('splitKey refuses %s as %i values', (pk, count) => {
  expect(splitKey(pk, count)).toBeUndefined()
})
