import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { checkFlows } from '../../src/flows/loading/check-flow-files.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** An item of several records is sent whole or not at all. */
const postgresUrl = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
const table = `groups_${process.pid}`
let target: TestTarget
let flows: TestFlows
let client: pg.Client

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({ env: { ERP_DB: postgresUrl } })
  client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  await client.query(
    `create table ${table} (codigo text, caja text, modificado timestamptz, orden serial)`,
  )
})
afterAll(async () => {
  await flows.stop()
  await target.close()
  await client.query(`drop table ${table}`)
  await client.end()
})

const groupBy = { children: { cajas: ['caja'] } }
async function define(name: string, source: object, more: object = {}) {
  const flow = jsonFlow(name, target.url, { startPaused: false, item: { key: 'codigo' }, ...more })
  await flows.write(`${name}.flow.yaml`, {
    ...flow,
    source: { ...(flow.source as object), groupBy, ...source },
  })
  expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
}
const sync = (name: string) => flows.call('POST', `/sync/${name}`)
const sent = (name: string) =>
  target.received
    .filter(({ path }) => path.startsWith(`/${name}/`))
    .map(({ body }) => body as { codigo: string; cajas: { caja: string }[] })
const boxes = (name: string) =>
  sent(name).map(({ codigo, cajas }) => [codigo, ...cajas.map(({ caja }) => caja)].join(' '))

const sql = {
  ...{ type: 'sql', driver: 'postgres', url: '$' + '{env:ERP_DB}', path: undefined },
  ...{ format: undefined, settle: undefined, fullScanEvery: '24h' },
  query: `select codigo, caja, modificado from ${table} where modificado >= :cursor order by modificado`,
  cursor: { field: 'modificado', initial: '1970-01-01T00:00:00Z' },
  groupBy: { children: { cajas: ['caja', 'modificado'] } },
}
const put = (codigo: string, caja: string, modificado: string) =>
  client.query(`insert into ${table} values ($1, $2, $3)`, [codigo, caja, modificado])

test.each([
  [
    'itemQuery',
    { itemQuery: `select codigo, caja, modificado from ${table} where codigo = :pk order by caja` },
  ],
  ['the query itself', {}],
])(
  'with a cursor a changed group is read again whole by %s',
  { tags: ['long'] },
  async (_, change) => {
    const name = `stores-${'itemQuery' in change}`
    await client.query(`truncate ${table}`)
    await put('S1', '1', '2026-01-01T10:00:00Z')
    await put('S1', '2', '2026-01-01T11:00:00Z')
    await put('S2', '1', '2026-01-01T12:00:00Z')
    await define(name, { ...sql, ...change })
    await sync(name)
    await flows.delivered()
    expect(boxes(name).toSorted()).toEqual(['S1 1 2', 'S2 1'])
    await put('S1', '3', '2026-01-02T10:00:00Z')
    await put('S2', '2', '2026-01-02T11:00:00Z')
    await put('S1', '4', '2026-01-02T12:00:00Z')
    expect((await sync(name)).json()).toMatchObject({ changes: 2 })
    await flows.delivered()
    expect(boxes(name).slice(2).toSorted()).toEqual(['S1 1 2 3 4', 'S2 1 2'])
  },
)

test('many changed groups are read again by one read of everything', {
  tags: ['long'],
}, async () => {
  const name = 'many'
  await client.query(`truncate ${table}`)
  const fill = (caja: string, modificado: string) =>
    client.query(
      `insert into ${table} (codigo, caja, modificado)
       select 'S' || n, $1, $2::timestamptz + n * interval '1 minute' from generate_series(1, 300) as n`,
      [caja, modificado],
    )
  await fill('1', '2026-01-01T00:00:00Z')
  const byKey = `${sql.query}`.replace('order by modificado', 'order by codigo, caja')
  await define(name, { ...sql, query: byKey })
  await sync(name)
  await fill('2', '2026-02-01T00:00:00Z')
  expect((await sync(name)).json()).toMatchObject({ changes: 300 })
  await flows.delivered()
  expect(
    new Set(
      boxes(name)
        .slice(-300)
        .map((text) => text.replace(/^S\d+/, 'S')),
    ),
  ).toEqual(new Set(['S 1 2']))
})

test('records with the same key that are not adjacent fail the poll, and none of them is sent', {
  tags: ['long'],
}, async () => {
  const name = 'apart'
  // The second record of A is far behind the first, in another batch.
  const others = Array.from({ length: 3_000 }, (_, index) => ({ codigo: `B${index}`, caja: '1' }))
  await flows.write(`${name}.json`, [
    { codigo: 'A', caja: '1' },
    ...others,
    { codigo: 'A', caja: '2' },
  ])
  await define(name, {})
  const polled = await sync(name)
  expect(polled.statusCode).toBe(502)
  expect(polled.json()).toMatchObject({
    error:
      'the records of A are not neighbours, so its lists would be cut; order the source by codigo',
    why: { code: 'GROUP_APART', data: { key: 'codigo', pk: 'A' } },
  })
  expect(sent(name)).toEqual([])
  await flows.write(`${name}.json`, [
    { codigo: 'A', caja: '1' },
    { codigo: 'A', caja: '2' },
  ])
  await sync(name)
  await flows.delivered()
  expect(boxes(name)).toEqual(['A 1 2'])
})

test('a group ends with its file, and the newer file has the group', async () => {
  const name = 'parts'
  const dir = join(flows.dir, name)
  await mkdir(dir)
  const drop = async (file: string, minute: number, rows: object[]) => {
    await writeFile(join(dir, file), JSON.stringify(rows))
    const at = new Date(Date.UTC(2026, 0, 1, 0, minute))
    await utimes(join(dir, file), at, at)
  }
  await define(name, { path: join(dir, '*.json') })
  await drop('1.json', 1, [
    { codigo: 'A', caja: '1' },
    { codigo: 'A', caja: '2' },
    { codigo: 'B', caja: '1' },
    { codigo: 'D', caja: '1' },
  ])
  await sync(name)
  await flows.delivered()
  await drop('2.json', 2, [
    { codigo: 'D', caja: '1' },
    { codigo: 'D', caja: '2' },
    { codigo: 'A', caja: '1' },
  ])
  await drop('3.json', 3, [])
  expect((await sync(name)).json()).toEqual({ name, changes: 2 })
  await flows.delivered()
  expect(boxes(name).slice(3).toSorted()).toEqual(['A 1', 'D 1 2'])
  expect((await sync(name)).json()).toEqual({ name, changes: 0 })
  // The newer file has the group, although its records contradict each other.
  await drop('4.json', 4, [
    { codigo: 'D', nombre: 'uno', caja: '1' },
    { codigo: 'D', nombre: 'dos', caja: '2' },
    { codigo: 'E', nombre: 'e', caja: '1' },
  ])
  await drop('2.json', 2, [
    { codigo: 'D', caja: '3' },
    { codigo: 'A', caja: '1' },
  ])
  expect((await sync(name)).json()).toEqual({ name, changes: 1 })
  const [error] = (await flows.call('GET', `/errors?flow=${name}`)).json()
  expect(error).toMatchObject({ pk: 'D', why: { code: 'ITEM_UNUSABLE' } })
})

test('records with the same key and contradicting values send nothing of the item, and the problem names the column', async () => {
  const name = 'contrary'
  await flows.write(`${name}.json`, [
    { codigo: 'A', nombre: 'uno', caja: '1' },
    { codigo: 'A', nombre: 'dos', caja: '2' },
    { codigo: 'B', nombre: 'b', caja: '1' },
  ])
  await define(name, {})
  await sync(name)
  await flows.delivered()
  expect(boxes(name)).toEqual(['B 1'])
  const errors = (await flows.call('GET', `/errors?flow=${name}`)).json()
  expect(errors[0].error).toBe(
    'the records of A differ in nombre; only the columns of groupBy.children may',
  )
})

test('more groups than the poll keeps in memory are sent after a second read', {
  tags: ['long'],
}, async () => {
  const name = 'large'
  const rows = Array.from({ length: 25_000 }, (_, index) => ({ codigo: `L${index}`, caja: '1' }))
  await flows.write(`${name}.json`, rows)
  const file = { name: 'web', type: 'file', path: `${flows.dir}/large.ndjson` }
  await define(name, {}, { destinations: [file] })
  await sync(name)
  const { stored } = await flows.service.database.db
    .selectFrom('flow_items')
    .select((eb) => eb.fn.countAll<number>().as('stored'))
    .where('flow', '=', name)
    .executeTakeFirstOrThrow()
  expect(stored).toBe(25_000)
  // A key that is repeated at the end fails the poll, and none of the items is sent.
  await flows.write(`${name}.json`, [
    ...rows.map((row) => ({ ...row, caja: '2' })),
    { codigo: 'L1', caja: '3' },
  ])
  expect((await sync(name)).statusCode).toBe(502)
  const { newest } = await flows.service.database.db
    .selectFrom('deliveries')
    .select((eb) => eb.fn.max('version').as('newest'))
    .where('flow', '=', name)
    .executeTakeFirstOrThrow()
  expect(newest).toBe(1)
})

test('an HTTP source with a cursor needs a request for one item', async () => {
  const text = `version: 1
name: tiendas
pollInterval: 1m
source:
  type: http
  url: https://erp.example.com/cajas?desde={cursor}
  cursor: { field: modificado, initial: "1970-01-01T00:00:00Z" }
  groupBy: { children: { cajas: [caja] } }
item: { key: codigo }
destinations:
  - { name: web, type: file, path: ./a.ndjson }
`
  const dir = await mkdtemp(join(tmpdir(), 'groups-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  await writeFile(join(dir, 'a.flow.yaml'), text)
  const { lines } = await checkFlows({}, dir, { variables: new Set(), files: [], folders: [] })
  expect(lines[0]).toBe(
    `${join(dir, 'a.flow.yaml')}:8:3 source.groupBy: needs source.item: with a cursor a changed group is read again whole, by its key (add item: { url: "https://…/{pk}" }, or leave cursor out)`,
  )
})
