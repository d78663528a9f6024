import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { mssqlUpsert } from '../../src/flows/destinations/statements/mssql-statements.ts'
import { jsonFlow, startTestFlows, type TestFlows } from '../support/flows.ts'

/** A field that an item no longer has sets its column to the default, as in a new row. */
const postgresUrl = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
const mysqlUrl = process.env.TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306/test'

type Admin = { run: (text: string) => Promise<unknown[]>; close: () => Promise<unknown> }

async function connectPostgres(): Promise<Admin> {
  const client = new pg.Client({ connectionString: postgresUrl, connectionTimeoutMillis: 2_000 })
  await client.connect()
  return { run: async (text) => (await client.query(text)).rows, close: () => client.end() }
}
async function connectMysql(): Promise<Admin> {
  const client = await mysql.createConnection({ uri: mysqlUrl, connectTimeout: 2_000 })
  return {
    run: async (text) => (await client.query<mysql.RowDataPacket[]>(text))[0],
    close: () => client.end(),
  }
}

const engines = await Promise.all(
  [
    { driver: 'postgres', url: postgresUrl, connect: connectPostgres },
    { driver: 'mysql', url: mysqlUrl, connect: connectMysql },
  ].map(async (engine) => {
    try {
      await (await engine.connect()).close()
      return { ...engine, available: true }
    } catch {
      process.stderr.write(`skipped: ${engine.driver} does not answer\n`)
      return { ...engine, available: false }
    }
  }),
)

let flows: TestFlows
beforeAll(async () => {
  flows = await startTestFlows({ env: { POSTGRES_URL: postgresUrl, MYSQL_URL: mysqlUrl } })
})
afterAll(() => flows.stop())

const full = { id: '1', name: 'Yerba', stock: 7, note: 'x' }
const other = { id: '2', name: 'Mate', stock: 3, note: 'y' }
const mappings = [
  ['without a mapping', {}],
  [
    'with a map of named fields',
    { map: '{ "id": id, "name": name, "stock": stock, "note": note }' },
  ],
  ['with a map that passes on what there is', { map: '$merge([$, { "id": id }])' }],
  [
    'with optional fields',
    {
      fields: {
        ...{ id: 'id', name: 'name' },
        stock: { from: 'stock', optional: true },
        note: { from: 'note', optional: true },
      },
    },
  ],
] as const

describe.each(engines)('$driver', { tags: ['long'] }, ({ driver, connect, available }) => {
  let admin: Admin
  let number = 0
  beforeAll(async () => {
    if (available) admin = await connect()
  })
  afterAll(() => admin?.close())

  /** Serves a flow into a table of its own; `rows` returns the table after the deliveries of the items. */
  async function serve(destination: object, columns: string) {
    number += 1
    const name = `vanish-${driver}-${number}`
    const table = `vanished_${process.pid}_${driver}_${number}`
    await admin.run(`create table ${table} (${columns})`)
    const [own] = (jsonFlow(name, 'http://127.0.0.1:9') as { destinations: object[] }).destinations
    const { name: to } = own as { name: string }
    await flows.write(`${name}.flow.yaml`, {
      ...jsonFlow(name, 'http://127.0.0.1:9', { startPaused: false }),
      destinations: [
        {
          ...{ name: to, type: 'sql', driver, url: `\${env:${driver.toUpperCase()}_URL}` },
          ...{ table, upsertKey: 'id', ...destination },
        },
      ],
    })
    await flows.write(`${name}.json`, [])
    expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
    return {
      async rows(...items: object[]) {
        await flows.write(`${name}.json`, items)
        await flows.call('POST', `/sync/${name}`)
        await flows.delivered()
        return await admin.run(`select * from ${table} order by id`)
      },
      drop: () => admin.run(`drop table ${table}`),
    }
  }
  const columns = `id varchar(20) primary key, name varchar(20), stock int, note varchar(20)`

  test.skipIf(!available).each(mappings)(
    '%s a removed field is no longer in the table',
    async (_, mapping) => {
      for (const batch of [{ batch: { size: 500 } }, { batch: { size: 1 } }]) {
        const { rows, drop } = await serve({ ...mapping, ...batch }, columns)
        expect(await rows(full, other)).toEqual([full, other])
        const { note: _note, ...rest } = full
        const { stock: _stock, ...bare } = rest
        expect(await rows(rest, { ...other, stock: 4 })).toEqual([
          { ...rest, note: null },
          { ...other, stock: 4 },
        ])
        expect(await rows(bare, { ...bare, id: '2' })).toEqual([
          { ...bare, stock: null, note: null },
          { ...bare, id: '2', stock: null, note: null },
        ])
        expect(await rows(full, other)).toEqual([full, other])
        await drop()
      }
    },
  )

  test.skipIf(!available)(
    'the column gets its default, and a column that was never written stays unchanged',
    async () => {
      const { rows, drop } = await serve(
        {},
        `id varchar(20) primary key, name varchar(20), stock int default 5, note varchar(20), own varchar(20) default 'shop'`,
      )
      const table = `vanished_${process.pid}_${driver}_${number}`
      const { note: _note, ...item } = full
      await rows(item)
      await admin.run(`update ${table} set note = 'by hand', own = 'by hand'`)
      const { stock: _stock, ...rest } = item
      expect(await rows(rest)).toEqual([{ ...rest, stock: 5, note: 'by hand', own: 'by hand' }])
      await drop()
    },
  )

  test.skipIf(!available)('a required column refuses the item, with its name', async () => {
    const { rows, drop } = await serve({}, `id varchar(20) primary key, name varchar(20) not null`)
    await rows({ id: '1', name: 'Yerba' })
    expect(await rows({ id: '1' })).toEqual([{ id: '1', name: 'Yerba' }])
    const errors = (await flows.call('GET', '/errors')).body
    expect(errors).toMatch(driver === 'postgres' ? /column name/ : /'name'/)
    await drop()
  })
})

test('SQL Server: a removed field gets the default of its column', () => {
  const target = { driver: 'mssql' as const, table: 'articulos', upsertKey: ['id'] }
  const rows = ['1', '2'].map(
    (id) =>
      new Map([
        ['id', id],
        ['name', 'x'],
        ['stock', undefined],
      ]),
  )
  const { text, values } = mssqlUpsert(target, rows)
  expect(text).toContain('when matched then update set [name] = [s].[name], [stock] = default')
  expect(text).toContain(
    'when not matched then insert ([id], [name]) values ([s].[id], [s].[name])',
  )
  expect(values).toEqual(['1', 'x', '2', 'x'])
})
