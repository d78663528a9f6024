import fc from 'fast-check'
import { expect, test } from 'vitest'
import { groupAll, groupRows } from '../../src/flows/item/group-rows.ts'
import { invalidRecordReason, type SourceRow } from '../../src/flows/types.ts'
import { sentenceOf } from '../../src/texts/reason.ts'

type Rules = Parameters<typeof groupRows>[0]

const rules = (change: Partial<Rules['item']> = {}): Rules => ({
  source: { groupBy: { children: { cajas: ['caja', 'caja_nombre'] } } },
  item: {
    key: ['codigo'],
    hash: { ignore: [], trim: false, emptyAsNull: false, decimals: {} },
    filter: undefined,
    onDefinitionChange: 'ask',
    ...change,
  },
})
const row = (codigo: string, caja: string | null, more: SourceRow = {}): SourceRow => ({
  codigo,
  nombre: `Sucursal ${codigo}`,
  caja,
  caja_nombre: caja === null ? null : `Caja ${caja}`,
  ...more,
})
const store = (codigo: string, ...cajas: string[]) => ({
  codigo,
  nombre: `Sucursal ${codigo}`,
  cajas: cajas.map((caja) => ({ caja, caja_nombre: `Caja ${caja}` })),
})

test('records with the same key become one with a list, whatever their batches', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 8 }), async (sizes) => {
      const rows = [
        row('S1', '1'),
        row('S1', '2'),
        row('S2', null),
        row('S3', '1'),
        row('S4', '1'),
        row('S4', '2'),
        row('S4', '3'),
      ]
      async function* batches() {
        const rest = [...rows]
        for (const size of sizes) yield rest.splice(0, size)
        yield rest
      }
      const grouped: SourceRow[] = []
      for await (const batch of groupRows(rules(), batches())) grouped.push(...batch)
      expect(grouped).toEqual([
        store('S1', '1', '2'),
        store('S2'),
        store('S3', '1'),
        store('S4', '1', '2', '3'),
      ])
    }),
  )
})

test('without groupBy batches stay unchanged', async () => {
  const batch = [row('S1', '1'), row('S1', '2')]
  const plain = { ...rules(), source: {} }
  expect(await groupAll(plain, batch)).toEqual(batch)
})

test('records with the same key that are not adjacent stay two, so that the duplicate is found', async () => {
  const rows = [row('S1', '1'), row('S2', '1'), row('S1', '2')]
  expect(await groupAll(rules(), rows)).toEqual([
    store('S1', '1'),
    store('S2', '1'),
    store('S1', '2'),
  ])
})

test('records with the same key and contradicting values make no item, and the problem names the column', async () => {
  const rows = [row('S1', '1'), row('S1', '2', { nombre: 'Otra' }), row('S2', '1')]
  const [contrary, other, ...rest] = await groupAll(rules(), rows)
  const why = contrary && invalidRecordReason(contrary)
  expect(why && sentenceOf(why, 'en')).toBe(
    'the records of S1 differ in nombre; only the columns of groupBy.children may',
  )
  expect([other, ...rest]).toEqual([store('S2', '1')])
})

test('equal dates do not contradict, and ignored fields may differ', async () => {
  const rows = [
    row('S1', '1', { alta: new Date(5), visto: 1 }),
    row('S1', '2', { alta: new Date(5), visto: 2 }),
  ]
  const ignoring = rules({
    hash: { ignore: ['visto'], trim: false, emptyAsNull: false, decimals: {} },
  })
  expect(await groupAll(ignoring, rows)).toEqual([
    { ...store('S1', '1', '2'), alta: new Date(5), visto: 1 },
  ])
})

test('equal entries become one, so that two lists of a join do not multiply each other', async () => {
  const two: Rules = {
    ...rules(),
    source: { groupBy: { children: { cajas: ['caja'], horarios: ['hora'] } } },
  }
  const rows = ['1', '2'].flatMap((caja) => [8n, 9n].map((hora) => ({ codigo: 'S1', caja, hora })))
  expect(await groupAll(two, rows)).toEqual([
    { codigo: 'S1', cajas: [{ caja: '1' }, { caja: '2' }], horarios: [{ hora: 8n }, { hora: 9n }] },
  ])
})

test('one key in all records fails the read instead of filling the memory', {
  tags: ['long'],
}, async () => {
  async function* endless() {
    for (let batch = 0; ; batch++) {
      yield Array.from({ length: 1_000 }, (_, index) => ({
        codigo: 'S',
        caja: batch * 1_000 + index,
      }))
    }
  }
  const read = async () => {
    for await (const _ of groupRows(rules(), endless())) expect.fail('nothing is complete yet')
  }
  await expect(read()).rejects.toThrow('more than 100000 records share one item.key')
})
