import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { compileMapping, MappingError } from '../../src/flows/deliver/item-body.ts'
import { convertField, type FieldType } from '../../src/flows/mapping/convert-field-types.ts'
import { compileExpression } from '../../src/flows/mapping/expression.ts'
import { ExpressionError } from '../../src/flows/mapping/expression-error.ts'

const store = {
  codigo: 'S1',
  nombre: 'Centro',
  lat: '-34.603700',
  cajas: [{ caja: 'C1', caja_nombre: 'Caja 1' }],
}
const evaluate = (text: string, value: unknown = store) => compileExpression(text).evaluate(value)

test('without map or fields the body is the item', async () => {
  expect(await compileMapping({}).apply(store)).toBe(store)
})

test('map makes the body, with ordinary prototypes at every level', async () => {
  const map = '{ "id": codigo, "at": { "lat": $number(lat) }, "pos": [cajas.{ "id": caja }] }'
  const body = await compileMapping({ map }).apply(store)
  expect(body).toStrictEqual({ id: 'S1', at: { lat: -34.6037 }, pos: [{ id: 'C1' }] })
  expect(Object.getPrototypeOf(body)).toBe(Object.prototype)
})

test('a mapping that fails names each field that it uses and that is null, and no other', async () => {
  const map = '{ "id": codigo, "price": $number(precio) }'
  const item = { codigo: 'A', precio: null, nota: null }
  await expect(compileMapping({ map }).apply(item)).rejects.toThrow('; precio is null; item: ')
  await expect(compileMapping({ map }).apply({ ...item, precio: 'x' })).rejects.not.toThrow(
    'is null',
  )
})

test.each([
  [[], undefined, []],
  [['C1'], { id: 'C1' }, [{ id: 'C1' }]],
  [
    ['C1', 'C2'],
    [{ id: 'C1' }, { id: 'C2' }],
    [{ id: 'C1' }, { id: 'C2' }],
  ],
])(
  'with boxes %j a bare path gives %j, and brackets always give a list',
  async (boxes, bare, wrapped) => {
    const cajas = boxes.map((caja) => ({ caja }))
    const map = '{ "bare": cajas.{ "id": caja }, "list": [cajas.{ "id": caja }] }'
    const expected = bare === undefined ? { list: wrapped } : { bare, list: wrapped }
    expect(await compileMapping({ map }).apply({ cajas })).toStrictEqual(expected)
  },
)

test('the error of a failing map names line, column, the line itself and the item', async () => {
  const map = '{ "id": codigo,\n  "lat": $number(nombre) }'
  await expect(compileMapping({ map }).apply(store)).rejects.toThrow(
    /at line 2, column \d+ \("lat": \$number\(nombre\) }\): .*number.*; item: {"codigo":"S1"/,
  )
  await expect(compileMapping({ map }).apply(store)).rejects.toBeInstanceOf(MappingError)
})

test('a map without a result is no empty body', async () => {
  expect(await compileMapping({ map: 'precio' }).apply(store)).toBeUndefined()
})

test('a map that is not JSONata is refused before the first item, with the position', () => {
  expect(() => compileMapping({ map: '{ "id": codigo ' })).toThrow(ExpressionError)
})

test.each([
  ['$eval("1 + 1")', '$eval is not available'],
  ['($e := $eval; $e("1 + 1"))', '$eval is not available'],
  ['function($x){ $x }', 'holds a function'],
  ['{ "f": $sum }', 'holds a function'],
  ['{ "__proto__": { "admin": true } }', 'field __proto__'],
  ['{ "a": { "__proto__": 1 } }', 'field __proto__'],
])('%s is refused: %s', { tags: ['long'] }, async (map, message) => {
  await expect(compileMapping({ map }).apply(store)).rejects.toThrow(message)
})

test('no value of a record is executed, and an expression cannot reach a prototype', async () => {
  const hostile = JSON.parse(
    '{"__proto__": {"admin": true}, "constructor": "$eval(1)", "t": "process.exit(1)", "v": "{{7*7}}"}',
  )
  expect(await evaluate('{ "c": constructor, "t": t, "v": v, "a": admin }', hostile)).toStrictEqual(
    {
      c: '$eval(1)',
      t: 'process.exit(1)',
      v: '{{7*7}}',
    },
  )
  expect(await evaluate('[constructor.constructor, toString, codigo.length]')).toStrictEqual([])
  expect(({} as Record<string, unknown>).admin).toBeUndefined()
})

test('$exists is false for null and for a missing field, in the process and in the worker thread', async () => {
  const rows = [{ lat: null }, {}, { lat: 0 }]
  expect(await Promise.all(rows.map((row) => evaluate('$exists(lat)', row)))).toEqual([
    false,
    false,
    true,
  ])
  const apart = '$map([1], function($n){ $exists($$.lat) })'
  expect(await Promise.all(rows.map((row) => evaluate(apart, row)))).toEqual([false, false, true])
})

test('$pad has the same results as in jsonata', async () => {
  const pads =
    '[$pad("foo", 5), $pad("foo", -5), $pad("foo", 6, "-+"), $pad("foo", -6, "-+"), $pad("foo", 2), $pad("x", 3.7, "")]'
  expect(await evaluate(pads)).toEqual(['foo  ', '  foo', 'foo-+-', '-+-foo', 'foo', 'x  '])
})

test('an expression has the same result in the process and in the worker thread', async () => {
  const plain = '{ "a": $uppercase(nombre), "b": [cajas[caja = "C1"].caja_nombre], "c": lat > "0" }'
  // The lambda makes it run in the thread.
  const apart = `(function($x){ $x })(${plain})`
  expect(await evaluate(apart)).toStrictEqual(await evaluate(plain))
})

test('concurrent evaluations do not use up the time limit of each other', {
  tags: ['long'],
}, async () => {
  const value = { list: Array.from({ length: 200 }, (_, n) => ({ n })) }
  const expression = compileExpression('{ "n": [list[n > 100].{ "n": n * 2, "t": $string(n) }] }')
  const results = await Promise.allSettled(
    Array.from({ length: 300 }, () => expression.evaluate(value)),
  )
  // A paused machine ends only the current evaluation. If evaluations shared their time, most would end.
  const ended = results.filter(({ status }) => status === 'rejected')
  expect(ended.length).toBeLessThan(10)
})

test('fields selects, renames and converts', async () => {
  const mapping = compileMapping({
    fields: {
      name: 'nombre',
      price: { from: 'precio', type: 'decimalComma' },
      note: { from: 'nota', type: 'text', optional: true },
    },
  })
  expect(await mapping.apply({ nombre: 'Yerba', precio: '1.234,50' })).toStrictEqual({
    name: 'Yerba',
    price: '1234.50',
    note: null,
  })
})

test('the error of fields names every wrong field, its value and what was expected', async () => {
  const mapping = compileMapping({
    fields: { a: 'falta', b: { from: 'precio', type: 'decimalComma' }, c: 'precio' },
  })
  await expect(mapping.apply({ precio: '12.50' })).rejects.toThrow(
    /a: the item has no field "falta"; b: precio is "12.50", not a number such as 1\.234,50.*; item: {"precio":"12.50"}/,
  )
})

const wrong = Symbol('wrong')
test.each<[FieldType, unknown, unknown]>([
  ['text', 5, '5'],
  ['text', '', ''],
  ['text', null, null],
  ['text', { a: 1 }, wrong],
  ['integer', '42', 42],
  ['integer', '-007', -7],
  ['integer', '42.00', 42],
  ['integer', '9007199254740993', '9007199254740993'],
  ['integer', '42.5', wrong],
  ['integer', '', null],
  ['integer', '4 2', wrong],
  ['decimal', '1234.50', '1234.50'],
  ['decimal', '-0.10', '-0.10'],
  ['decimal', '-0.00', '0.00'],
  ['decimal', '007.5', '7.5'],
  ['decimal', '0', '0'],
  ['decimal', 0.1, '0.1'],
  ['decimal', '12345678901234567890.123456789', '12345678901234567890.123456789'],
  ['decimal', '1,5', wrong],
  ['decimal', '1e5', wrong],
  ['decimalComma', '1.234,50', '1234.50'],
  ['decimalComma', '1234,50', '1234.50'],
  ['decimalComma', '1.234', '1234'],
  ['decimalComma', '1.234.567,8', '1234567.8'],
  ['decimalComma', '-,5', wrong],
  ['decimalComma', '12.34,5', wrong],
  ['decimalComma', '1234.567,8', wrong],
  ['decimalComma', '12.50', wrong],
  ['decimalComma', '0.500', wrong],
  ['decimalComma', '000.500', '500'],
  ['decimalComma', '1,234.50', wrong],
  ['decimalComma', 12.5, '12.5'],
  ['decimalComma', '  12,5 ', '12.5'],
  ['boolean', 'S', true],
  ['boolean', 'sí', true],
  ['boolean', 0, false],
  ['boolean', false, false],
  ['boolean', 'quizás', wrong],
  ['boolean', '', null],
  ['date', '2026-03-31', '2026-03-31'],
  ['date', '31/3/2026', '2026-03-31'],
  ['date', '2026-03-31T12:00:00-03:00', '2026-03-31T15:00:00.000Z'],
  ['date', '2026-03-31 12:00:00-0300', '2026-03-31T15:00:00.000Z'],
  ['date', '2026-03-31T12:00:00', wrong],
  ['date', '2026-02-30', wrong],
  ['date', '31/02/2026', wrong],
  ['date', '03/31/2026', wrong],
  ['date', '', null],
])('%s of %j is %j', (type, given, expected) => {
  const converted = convertField(given, type)
  if (expected === wrong) expect(converted).toHaveProperty('expected')
  else expect(converted).toStrictEqual({ value: expected })
})

test('decimalComma parses every amount as an Argentine till prints it', () => {
  const printed = new Intl.NumberFormat('es-AR', { minimumFractionDigits: 2, useGrouping: true })
  fc.assert(
    fc.property(fc.integer({ min: -(10 ** 12), max: 10 ** 12 }), (cents) => {
      const expected = `${cents < 0 ? '-' : ''}${Math.floor(Math.abs(cents) / 100)}.${String(Math.abs(cents) % 100).padStart(2, '0')}`
      expect(convertField(printed.format(cents / 100), 'decimalComma')).toEqual({ value: expected })
    }),
  )
})

test('a process that is blocked for long does not end an evaluation that uses little processor time', async () => {
  let laterMs = 0
  const [now, wallMs] = [performance.now.bind(performance), Date.now]
  vi.spyOn(performance, 'now').mockImplementation(() => {
    laterMs += 100
    return now() + laterMs
  })
  vi.spyOn(Date, 'now').mockImplementation(() => wallMs() + laterMs)
  try {
    expect(await evaluate('cajas.(caja & "-" & caja_nombre)')).toBe('C1-Caja 1')
    expect(laterMs).toBeGreaterThan(250)
  } finally {
    vi.restoreAllMocks()
  }
})

test('nor does a thread without processor time for long', async () => {
  expect(await evaluate('$sum([1..3])')).toBe(6)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const outcome = evaluate('$sum($map([1..20000], function($n){ $n }))')
    await vi.advanceTimersByTimeAsync(399)
    await vi.advanceTimersByTimeAsync(1)
    expect(await outcome).toBe(200_010_000)
  } finally {
    vi.useRealTimers()
  }
})

test('an evaluation of half a minute is ended in any case', async () => {
  expect(await evaluate('$sum([1..3])')).toBe(6)
  let laterMs = 0
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const outcome = evaluate('$sum($map([1..90000], function($n){ $n }))')
    const failed = expect(outcome).rejects.toThrow('processor time')
    await vi.advanceTimersByTimeAsync(399)
    laterMs = 30_000
    await vi.advanceTimersByTimeAsync(1)
    await failed
  } finally {
    vi.useRealTimers()
    vi.restoreAllMocks()
  }
})
