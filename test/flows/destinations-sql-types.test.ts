import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'
import type { SqlDriver } from '../../src/flows/destinations/statements/sql-statement.ts'
import { job, never } from './destinations-job.ts'
import { reachable } from './sources-sql-support.ts'
import { column, contains, type TdsAnswer, tdsServer } from './sources-tds-server.ts'

/** A value arrives as its column's type has it, whatever the other rows and the type in JSON are. */
const postgresUrl = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL',
)
const mysqlUrl = await reachable('mysql://root@127.0.0.1:3306/test', 'MariaDB')
const table = `types_${process.pid}`
type Run = (text: string) => Promise<Record<string, unknown>[]>
const engines: {
  driver: SqlDriver
  url: string | undefined
  connect: () => Promise<[Run, () => Promise<void>]>
}[] = [
  {
    driver: 'postgres',
    url: postgresUrl,
    connect: async () => {
      const client = new pg.Client({ connectionString: postgresUrl })
      await client.connect()
      return [async (text) => (await client.query(text)).rows, () => client.end()]
    },
  },
  {
    driver: 'mysql',
    url: mysqlUrl,
    connect: async () => {
      const client = await mysql.createConnection(mysqlUrl as string)
      const run: Run = async (text) => (await client.query<mysql.RowDataPacket[]>(text))[0]
      return [run, () => client.end()]
    },
  },
]

const exact = '1234567890123456789012345.1234567890123'
describe.each(engines)('$driver', ({ driver, url, connect }) => {
  test.skipIf(!url)('a batch of texts, numbers and nulls arrives as given', async () => {
    const [run, close] = await connect()
    await run(
      `create table ${table} (id varchar(40) primary key, code varchar(40), n numeric(38,13), b ${driver === 'mysql' ? 'varbinary(8)' : 'bytea'})`,
    )
    const destination = openSqlDestination(
      { driver, table, upsertKey: ['id'], binary: { b: 'text' } },
      { url: url as string, connections: 1, batch: 500, timeoutMs: 10_000 },
    )
    onTestFinished(async () => {
      await destination.close()
      await run(`drop table ${table}`)
      await close()
    })
    const bodies = [
      { id: '00042', code: '10.50', n: exact, b: 'x' },
      { id: 43, code: 1e-7, n: 0.1, b: null },
      { id: '0.1', code: 1e21, n: null, b: null },
      {
        id: 12_345_678_901_234_567_890n,
        code: '2026-01-02T03:04:05.000Z',
        n: '-0.0000000000001',
        b: '',
      },
    ]
    for (const order of [bodies, bodies.toReversed(), ...bodies.map((body) => [body])]) {
      await run(`delete from ${table}`)
      const jobs = order.map((body) => job({ body }))
      const results =
        jobs.length > 1
          ? await destination.batches?.deliver(jobs, never)
          : [await destination.deliver(jobs[0] as never, never)]
      expect(results).toEqual(jobs.map(() => ({ ok: true })))
      const text = driver === 'mysql' ? 'cast(n as char)' : 'n::text'
      const rows = await run(`select id, code, ${text} as n from ${table} order by id`)
      const all = [
        { id: '0.1', code: '1e+21', n: null },
        { id: '00042', code: '10.50', n: exact },
        { id: '12345678901234567890', code: '2026-01-02T03:04:05.000Z', n: '-0.0000000000001' },
        { id: '43', code: '1e-7', n: '0.1000000000000' },
      ]
      const ids = order.map(({ id }) => String(id))
      expect(rows.map((row) => ({ ...row }))).toEqual(all.filter(({ id }) => ids.includes(id)))
    }
  })
})

describe('SQL Server', () => {
  let server: Awaited<ReturnType<typeof tdsServer>>
  let requests: Buffer[]
  let types: [string, string][]
  const wide = (text: string) => Buffer.from(text, 'utf16le')
  beforeAll(async () => {
    server = await tdsServer((request): TdsAnswer | undefined => {
      if (contains(request, 'sys.columns')) {
        return { columns: [column('name', 'text'), column('kind', 'text')], rows: types }
      }
      if (!contains(request, 'dbo')) return undefined
      requests.push(request)
      return {}
    })
  })
  beforeEach(() => {
    requests = []
    types = [
      ['foto', 'bytes'],
      ['code', 'text'],
    ]
  })
  afterAll(() => server.close())

  const open = (binary = {}) => {
    const destination = openSqlDestination(
      { driver: 'mssql', table: 'dbo.items', upsertKey: ['code'], binary },
      { url: server.url, connections: 1, batch: 500, timeoutMs: 10_000 },
    )
    onTestFinished(() => destination.close())
    return destination
  }
  /** The declared types of the parameters. */
  const declared = (request: Buffer | undefined) => {
    const text = request?.toString('latin1').replaceAll('\0', '') ?? ''
    return [...text.matchAll(/@\d+ ([a-z]+\([a-z0-9]+\))/g)].map(([, type]) => type)
  }

  test('an empty column of bytes is an empty value of bytes, in a batch and alone', async () => {
    const destination = open({ foto: 'text' })
    const bodies = [
      { code: 'a', foto: null },
      { code: 'b', foto: 'x' },
    ]
    const jobs = bodies.map((body) => job({ body }))
    expect(await destination.batches?.deliver(jobs, never)).toEqual([{ ok: true }, { ok: true }])
    expect(await destination.deliver(jobs[0] as never, never)).toEqual({ ok: true })
    expect(requests.map(declared)).toEqual([
      ['nvarchar(4000)', 'varbinary(max)', 'nvarchar(4000)', 'varbinary(max)'],
      ['nvarchar(4000)', 'varbinary(max)'],
    ])
  })

  test('texts and numbers of one column are both text, which the server converts to its type', {
    tags: ['long'],
  }, async () => {
    const destination = open()
    const bodies = [
      { code: '00042', price: exact, active: true },
      { code: 43, price: 1e-7, active: false },
      { code: 1234567.89, price: 12_345_678_901_234_567_890n, active: null },
    ]
    await destination.batches?.deliver(
      bodies.map((body) => job({ body })),
      never,
    )
    expect(declared(requests[0])).toEqual(Array.from({ length: 9 }, () => 'nvarchar(4000)'))
    const text = requests[0]?.toString('latin1') ?? ''
    for (const value of ['00042', exact, '43', '0.0000001', '1234567.89', '12345678901234567890']) {
      expect(text, value).toContain(wide(value).toString('latin1'))
    }
    await destination.deliver(job({ kind: 'delete', body: { code: 43 } }), never)
    expect(declared(requests[1])).toEqual(['nvarchar(4000)'])
  })
})
