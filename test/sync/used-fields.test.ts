import fc from 'fast-check'
import { expect, test } from 'vitest'
import { usedFields } from '../../src/sync/mapping/used-fields.ts'
import { compileMapping } from '../../src/sync/mapping.ts'

const of = (map: string) => usedFields([{ map, fields: undefined }])

test.each([
  ['nombre', ['nombre']],
  ['{ "id": codigo, "n": $number(lat), "x": 5 }', ['codigo', 'lat']],
  ['{ "pos": [cajas.{ "external_id": caja, "name": caja_nombre }] }', ['cajas']],
  ['cajas[activa = true and precio > $$.minimo].nombre', ['cajas', 'minimo']],
  ['$exists(a) and b = "x" ? c.d : (e & f)', ['a', 'b', 'c', 'e', 'f']],
  ['$.a.b', ['a']],
  ['($x := a; { "v": $x, "w": $uppercase(b), "t": $now() })', ['a', 'b']],
  ['$map(lines, function($l) { $l.price * factor })', ['factor', 'lines']],
  ['`a b`', ['a b']],
  ['lines.*', ['lines']],
  ['lines.$string()', ['lines']],
  ['{ group: total }', ['group', 'total']],
  ['"constant"', []],
])('%s uses %j', (map, fields) => {
  expect(of(map)).toEqual(fields)
})

test.each([
  '$',
  '$$',
  '*',
  '**.x',
  '{ "all": $ }',
  '$string()',
  '$keys()',
  '$lookup(name)',
  '$lookup($, name)',
  '$each(function($v, $k) { $k })',
  '$sift(function($v) { $v })',
  '($f := $lookup; $f("x"))',
  '$ ~> | $ | { "a": 1 } |',
  'a.%.b',
  'a@$x.b',
  'a#$i.b',
  '$merge([$, { "a": 1 }])',
  '$map(["a"], $lookup)',
  'a ~> $append(b)',
  'lines^(price)',
  'function($x)<s-:s>{ $x }(1)',
])('%s may use all', (map) => {
  expect(of(map)).toBeNull()
})

test('several destinations use what each of them does, and one without a mapping all', () => {
  const fields = { sku: 'codigo', precio: { from: 'importe', type: 'decimal' } } as never
  const both = [
    { map: '{ "n": nombre }', fields: undefined },
    { map: undefined, fields },
  ]
  expect(usedFields(both)).toEqual(['codigo', 'importe', 'nombre'])
  expect(usedFields([...both, { map: undefined, fields: undefined }])).toBeNull()
})

test('what is not used never changes a body', async () => {
  const parts = [
    'a',
    'b.c',
    '$number(d)',
    'l[x = $$.e].y',
    '$exists(f) ? g : "-"',
    '$sum(l.x)',
    '[l.{ "z": y }]',
    '$.h',
    '$string(a)',
    '($v := b; $v.c)',
  ]
  const value = fc.oneof(fc.integer(), fc.string(), fc.constant(null))
  const item = fc.record({
    ...{ a: value, d: fc.integer(), e: value, f: value, g: value, h: value },
    b: fc.record({ c: value }),
    l: fc.array(fc.record({ x: fc.integer(), y: value }), { maxLength: 3 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.subarray(parts, { minLength: 1 }), item, item, async (some, one, other) => {
      const map = `{ ${some.map((part, index) => `"k${index}": ${part}`).join(', ')} }`
      const used = of(map)
      if (used === null) throw new Error('should be understood')
      const mixed = Object.fromEntries(
        Object.entries(one).map(([name, own]) => [
          name,
          used.includes(name) ? own : Reflect.get(other, name),
        ]),
      )
      const { apply } = compileMapping({ map, fields: undefined })
      expect(await apply(mixed)).toEqual(await apply(one))
    }),
    { numRuns: 300 },
  )
})
