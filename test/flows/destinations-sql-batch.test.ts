import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'
import type { SqlDriver } from '../../src/flows/destinations/statements/sql-statement.ts'
import type { Destination } from '../../src/flows/types.ts'
import { job, never } from './destinations-job.ts'

/** Several items in one statement must have the same result as one after another, also when some are invalid. */
const postgresUrl = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
const mysqlUrl = process.env.TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306/test'
const table = `batch_${process.pid}`

type Run = (text: string) => Promise<Record<string, unknown>[]>
type Admin = { run: Run; close(): Promise<void> }

async function connectPostgres(): Promise<Admin> {
  const client = new pg.Client({ connectionString: postgresUrl, connectionTimeoutMillis: 2_000 })
  await client.connect()
  return { run: async (text) => (await client.query(text)).rows, close: () => client.end() }
}

async function connectMysql(): Promise<Admin> {
  const client = await mysql.createConnection({ uri: mysqlUrl, connectTimeout: 2_000 })
  const run: Run = async (text) =>
    (await client.query<mysql.RowDataPacket[]>(text))[0].map?.((row) => ({ ...row })) ?? []
  return { run, close: () => client.end() }
}

const answers = async (connect: () => Promise<Admin>) => {
  try {
    await (await connect()).close()
    return true
  } catch {
    process.stderr.write('skipped: a database of this test does not answer\n')
    return false
  }
}
const engines: { driver: SqlDriver; url: string; connect: () => Promise<Admin>; has: boolean }[] = [
  {
    driver: 'postgres',
    url: postgresUrl,
    connect: connectPostgres,
    has: await answers(connectPostgres),
  },
  { driver: 'mysql', url: mysqlUrl, connect: connectMysql, has: await answers(connectMysql) },
]

describe.each(engines)('$driver', ({ driver, url, connect, has }) => {
  let admin: Admin
  let destination: Destination
  const together = async (
    bodies: Record<string, unknown>[],
    kind: 'upsert' | 'delete' = 'upsert',
  ) =>
    await destination.batches?.deliver(
      bodies.map((body) => job({ kind, body, pk: String(body.id), key: [String(body.id)] })),
      never,
    )
  const rows = () => admin.run(`select id, name, code from ${table} order by id`)

  beforeAll(async () => {
    if (!has) return
    admin = await connect()
    destination = openSqlDestination(
      { driver, table, upsertKey: ['id'] },
      { url, connections: 2, batch: 500, timeoutMs: 10_000 },
    )
  })
  beforeEach(async () => {
    if (!has) return
    await admin.run(`drop table if exists ${table}`)
    await admin.run(
      `create table ${table} (id int primary key, name varchar(10), code varchar(10) unique)`,
    )
  })
  afterAll(async () => {
    if (!has) return
    await admin.run(`drop table if exists ${table}`)
    await Promise.all([admin.close(), destination.close()])
  })

  test.skipIf(!has)(
    'new rows, existing rows, and rows with other columns are written',
    async () => {
      const ok = { ok: true }
      expect(
        await together([
          { id: 1, name: 'a' },
          { id: 2, name: 'b' },
        ]),
      ).toEqual([ok, ok])
      expect(
        await together([
          { id: 3, name: 'c', code: 'x' },
          { id: 2, name: 'B' },
          { id: 4, name: null },
          { id: 1, code: 'y' },
        ]),
      ).toEqual([ok, ok, ok, ok])
      expect(await rows()).toEqual([
        { id: 1, name: 'a', code: 'y' },
        { id: 2, name: 'B', code: null },
        { id: 3, name: 'c', code: 'x' },
        { id: 4, name: null, code: null },
      ])
      expect(await together([{ id: 1 }, { id: 9 }, { id: 3 }], 'delete')).toEqual([ok, ok, ok])
      expect((await rows()).map(({ id }) => id)).toEqual([2, 4])
    },
  )

  test.skipIf(!has)('a refused row rolls back the batch, which is then split', async () => {
    const bodies = [
      { id: 1, name: 'a' },
      { id: 2, name: 'far too long for it' },
      { id: 3, name: 'c' },
    ]
    expect(await together(bodies)).toBe('apart')
    expect(await rows()).toEqual([])
  })

  test.skipIf(!has)('a row without a key is refused alone, without a query', async () => {
    expect(await together([{ id: 1, name: 'a' }, { name: 'b' }])).toEqual([
      { ok: true },
      expect.objectContaining({ ok: false, retryable: false }),
    ])
    expect(await rows()).toHaveLength(1)
  })

  test.skipIf(!has)('two items for one row are written one after the other', async () => {
    const bodies = [
      { id: 1, name: 'a' },
      { id: 2, name: 'other' },
      { id: 1, name: 'b' },
      // MySQL compares a key with the text that was sent, and refuses another form of it.
      { id: driver === 'postgres' ? '01' : 1, name: 'c' },
    ]
    const ok = { ok: true }
    expect(await together(bodies)).toEqual([ok, ok, ok, ok])
    expect(await rows()).toMatchObject([
      { id: 1, name: 'c' },
      { id: 2, name: 'other' },
    ])
    expect(await together([{ id: 1 }, { id: '01' }], 'delete')).toEqual([ok, ok])
    expect(await rows()).toHaveLength(1)
  })

  test.skipIf(!has)(
    'a row of another item is never overwritten through its other key',
    async () => {
      await together([
        { id: 1, name: 'a', code: 'same' },
        { id: 3, name: 'c' },
      ])
      const bodies = [
        { id: 2, name: 'b', code: 'same' },
        { id: 3, name: 'C', code: 'other' },
      ]
      expect(await together(bodies)).toBe('apart')
      expect(await rows()).toEqual([
        { id: 1, name: 'a', code: 'same' },
        { id: 3, name: 'c', code: null },
      ])
    },
  )

  test.skipIf(!has)('without the lease nothing is written', async () => {
    const jobs = ['1', '2'].map((pk) => job({ pk, body: { id: pk }, mayStart: () => false }))
    expect(await destination.batches?.deliver(jobs, never)).toMatchObject([
      { ok: false, retryable: true, outage: false },
      { ok: false, retryable: true, outage: false },
    ])
    expect(await rows()).toEqual([])
  })
})

describe.skipIf(!engines[0]?.has)('values of each type of PostgreSQL are written', () => {
  const [one, many] = [`${table}_one`, `${table}_many`]
  const columns = `id text primary key, fixed char(4), short varchar(5), mark bit(3), bits bit varying, n smallint, big bigint,
    exact numeric(12, 2), loose double precision, paid boolean, bytes bytea, doc json, docb jsonb, day date, at timestamptz(3),
    bare timestamp, clock time, span interval, code uuid, letter "char", "Odd ""Name" text, place point, price money,
    mood ${one}_mood, positive ${one}_positive`
  const bodies = [
    {
      id: 'A',
      fixed: 'ab',
      short: 'abc  ',
      mark: '101',
      bits: '1011',
      n: -32768,
      big: '9007199254740993',
      exact: '1234.565',
      loose: 0.1,
      paid: true,
      bytes: '\\x00ff',
      doc: { 'a,b': ['{"x"}', null] },
      docb: '"text"',
      day: '2026-11-21',
      at: '2026-11-21T14:30:00.123456Z',
      bare: '2026-11-21 14:30:00.5',
      clock: '23:59',
      span: '1 day 2 hours',
      code: '0b3e3f0a-5a0e-4b1c-9c1e-2f6f1d1a2b3c',
      letter: 'x',
      'Odd "Name': 'NULL',
      place: '(1,2)',
      price: '12.30',
      mood: 'so, so',
      positive: 3,
    },
    {
      id: 'B\\"{},\n\t ñ 😀',
      fixed: '',
      short: '',
      paid: false,
      loose: 'NaN',
      bytes: '',
      doc: 'null',
      'Odd "Name': '',
      mood: 'fine',
    },
    { id: 'null', short: null, n: '7', doc: '[1]', 'Odd "Name': '{}' },
  ]
  let admin: Admin
  const openOn = (name: string) =>
    openSqlDestination(
      { driver: 'postgres', table: name, upsertKey: ['id'], binary: { bytes: 'text' } },
      { url: postgresUrl, connections: 2, batch: 500, timeoutMs: 10_000 },
    )
  const rowsOf = (name: string) =>
    admin.run(`select ${name}::text as row from ${name} order by id collate "C"`)
  beforeAll(async () => {
    admin = await connectPostgres()
    await admin.run(`create type ${one}_mood as enum ('fine', 'so, so')`)
    await admin.run(`create domain ${one}_positive as integer check (value > 0)`)
    await admin.run(`create table ${one} (${columns})`)
    await admin.run(`create table ${many} (${columns})`)
  })
  afterAll(async () => {
    await admin.run(`drop table if exists ${one}, ${many}`)
    await admin.run(`drop type ${one}_mood; drop domain ${one}_positive`)
    await admin.close()
  })

  /** Each row has every column, because only such rows share a statement. */
  const full = bodies.map((body) => {
    const none = Object.fromEntries(Object.keys(bodies[0] ?? {}).map((name) => [name, null]))
    return { ...none, ...body }
  })

  test('every column has the same value whether rows are written one by one or together, in one statement', async () => {
    const [alone, together] = [openOn(one), openOn(many)]
    for (const body of full) {
      expect(await alone.deliver(job({ body, pk: body.id }), never)).toEqual({ ok: true })
    }
    let statements = 0
    const jobs = full.map((body, index) => {
      const mayStart = () => {
        if (index === 0) statements += 1
        return true
      }
      return job({ body, pk: body.id, mayStart })
    })
    expect(await together.batches?.deliver(jobs, never)).toEqual(full.map(() => ({ ok: true })))
    expect(statements).toBe(1)
    const written = await rowsOf(one)
    expect(written).toHaveLength(3)
    expect(await rowsOf(many)).toEqual(written)
    await Promise.all([alone.close(), together.close()])
  })
})
