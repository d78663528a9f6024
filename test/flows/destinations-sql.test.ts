import { createServer, type Socket } from 'node:net'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'
import type { SqlDriver } from '../../src/flows/destinations/statements/sql-statement.ts'
import type { DeliveryResult, Destination } from '../../src/flows/types.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { job, never } from './destinations-job.ts'

const postgresUrl = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
const mysqlUrl = process.env.TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306/test'
const table = `dest_${process.pid}`

type Admin = {
  run(text: string): Promise<Record<string, unknown>[]>
  close(): Promise<void>
}

async function connectPostgres(): Promise<Admin> {
  const client = new pg.Client({ connectionString: postgresUrl, connectionTimeoutMillis: 2_000 })
  await client.connect()
  return { run: async (text) => (await client.query(text)).rows, close: () => client.end() }
}

async function connectMysql(): Promise<Admin> {
  const client = await mysql.createConnection({
    uri: mysqlUrl,
    connectTimeout: 2_000,
    timezone: 'Z',
  })
  await client.query(`set time_zone = '+00:00'`)
  return {
    run: async (text) => (await client.query<mysql.RowDataPacket[]>(text))[0],
    close: () => client.end(),
  }
}

const answers = async (connect: () => Promise<Admin>, name: string) => {
  try {
    await (await connect()).close()
    return true
  } catch {
    process.stderr.write(`skipped: ${name} does not answer\n`)
    return false
  }
}
const hasPostgres = await answers(connectPostgres, 'PostgreSQL of TEST_DATABASE_URL')
const hasMysql = await answers(connectMysql, 'MySQL of TEST_MYSQL_URL')

const engines = [
  {
    driver: 'postgres' as SqlDriver,
    url: postgresUrl,
    connect: connectPostgres,
    available: hasPostgres,
    columns:
      'id int primary key, name varchar(10) not null, doc json, price numeric(10,2) check (price >= 0), seen timestamptz, active boolean, code text unique',
    quote: '"',
  },
  {
    driver: 'mysql' as SqlDriver,
    url: mysqlUrl,
    connect: connectMysql,
    available: hasMysql,
    columns:
      'id int primary key, name varchar(10) not null, doc json, price decimal(10,2) check (price >= 0), seen datetime(3), active boolean, code varchar(50) unique',
    quote: '`',
  },
]

const reasonOf = (result: DeliveryResult) => (result.ok ? '' : sentenceOf(result.why, 'en'))

describe.each(engines)(
  '$driver',
  { tags: ['long'] },
  ({ driver, url, connect, available, columns, quote }) => {
    let admin: Admin
    let destination: Destination
    const open = (
      change: { table?: string; upsertKey?: string[]; url?: string; ms?: number } = {},
    ) =>
      openSqlDestination(
        { driver, table: change.table ?? table, upsertKey: change.upsertKey ?? ['id'] },
        { url: change.url ?? url, connections: 4, batch: 500, timeoutMs: change.ms ?? 10_000 },
      )
    const upsert = (body: unknown, to = destination) => to.deliver(job({ body }), never)
    const rows = () => admin.run(`select * from ${table} order by id`)

    beforeAll(async () => {
      if (!available) return
      admin = await connect()
      destination = open()
    })
    beforeEach(async () => {
      if (!available) return
      await admin.run(`drop table if exists ${table}`)
      await admin.run(`create table ${table} (${columns})`)
    })
    afterAll(async () => {
      if (!available) return
      await admin.run(`drop table if exists ${table}`)
      await Promise.all([admin.close(), destination.close()])
    })

    test.skipIf(!available)(
      'the same row written twice is one row; a change updates it',
      async () => {
        const body = {
          id: 1,
          name: 'Ñandú 😀',
          doc: { list: [1, 'ñ'] },
          price: '10.50',
          seen: '2026-11-21T14:30:00.123Z',
          active: true,
        }
        expect(await upsert(body)).toEqual({ ok: true })
        expect(await upsert(body)).toEqual({ ok: true })
        const [first, second] = await rows()
        expect(second).toBeUndefined()
        expect(first).toMatchObject({ id: 1, name: 'Ñandú 😀', price: '10.50' })
        expect(new Date(first?.seen as string).toISOString()).toBe('2026-11-21T14:30:00.123Z')
        expect(Boolean(first?.active)).toBe(true)
        const doc = first?.doc
        expect(typeof doc === 'string' ? JSON.parse(doc) : doc).toEqual({ list: [1, 'ñ'] })

        expect(await upsert({ ...body, name: 'b', price: 9.99, active: false })).toEqual({
          ok: true,
        })
        expect(await rows()).toMatchObject([{ id: 1, name: 'b', price: '9.99' }])
      },
    )

    test.skipIf(!available)('only the mapped columns change', async () => {
      await upsert({ id: 1, name: 'a', code: 'keep' })
      await upsert({ id: 1, name: 'b' })
      expect(await rows()).toMatchObject([{ name: 'b', code: 'keep' }])
    })

    test.skipIf(!available)(
      'a delete removes only its row, and a missing row is a success',
      async () => {
        await upsert({ id: 1, name: 'a' })
        await upsert({ id: 2, name: 'b' })
        const remove = (body: unknown, key: string[]) =>
          destination.deliver(job({ kind: 'delete', body, key }), never)
        expect(await remove({ id: 1 }, ['x'])).toEqual({ ok: true })
        expect(await remove({ id: 1 }, ['x'])).toEqual({ ok: true })
        expect(await rows()).toMatchObject([{ id: 2 }])
        expect(await remove(null, ['2'])).toMatchObject({ ok: false, retryable: false })
        expect(await rows()).toMatchObject([{ id: 2 }])
      },
    )

    test.skipIf(!available)(
      'a key that only begins like a number matches no other row',
      async () => {
        await upsert({ id: 5, name: 'five' })
        await destination.deliver(job({ kind: 'delete', body: { id: '5abc' } }), never)
        await upsert({ id: '5abc', name: 'other' })
        expect(await rows()).toMatchObject([{ id: 5, name: 'five' }])
      },
    )

    test.skipIf(!available)('a text key is compared as text', async () => {
      const byCode = open({ upsertKey: ['code'] })
      onTestFinished(() => byCode.close())
      await upsert({ id: 1, name: 'a', code: '7x' })
      await byCode.deliver(job({ kind: 'delete', body: { code: 7 } }), never)
      expect(await rows()).toHaveLength(1)
    })

    test.skipIf(!available)(
      'another unique value of another row is not overwritten, and can be used when it is free',
      async () => {
        await upsert({ id: 1, name: 'a', code: 'same' })
        const result = await upsert({ id: 2, name: 'b', code: 'same' })
        expect(result).toMatchObject({ ok: false, retryable: true, outage: false })
        expect(reasonOf(result)).toContain('another row has the same unique value')
        expect(await rows()).toMatchObject([{ id: 1, name: 'a' }])
        await upsert({ id: 1, name: 'a', code: 'other' })
        expect(await upsert({ id: 2, name: 'b', code: 'same' })).toEqual({ ok: true })
      },
    )

    test.skipIf(!available)('values and names are data, never SQL', async () => {
      const evil = `x'); drop table ${table}; --`
      await upsert({ id: 1, name: 'a', code: evil })
      expect(await rows()).toMatchObject([{ code: evil }])
      const column = `name${quote} = 'hit', ${quote}code`
      expect(await upsert({ id: 1, [column]: 'x' })).toMatchObject({ ok: false, retryable: false })
      expect(await rows()).toMatchObject([{ name: 'a', code: evil }])
    })

    test.skipIf(!available).each([
      ['a missing value', { id: 1 }, 'name'],
      ['an unknown column', { id: 1, name: 'a', colour: 'S3CRET' }, 'colour'],
      ['a text that is too long', { id: 1, name: 'S3CRET-S3CRET' }, 'too long'],
      ['a wrong type', { id: 'S3CRET', name: 'a' }, 'does not fit'],
      ['a check', { id: 1, name: 'a', price: -1 }, 'check|CONSTRAINT'],
    ])('%s is refused for good, without showing values', async (_, body, shown) => {
      const result = await upsert(body)
      expect(result).toMatchObject({ ok: false, retryable: false, outage: false })
      expect(reasonOf(result)).toMatch(new RegExp(shown, 'i'))
      expect(reasonOf(result)).not.toContain('S3CRET')
      expect(await rows()).toEqual([])
    })

    test.skipIf(!available)('an unknown table is refused for good and named', async () => {
      const other = open({ table: `${table}_none` })
      onTestFinished(() => other.close())
      const result = await upsert({ id: 1, name: 'a' }, other)
      expect(result).toMatchObject({ ok: false, retryable: false })
      expect(reasonOf(result)).toContain(`${table}_none`)
    })

    test.skipIf(!available)('a row that another session has locked is retried later', async () => {
      await upsert({ id: 1, name: 'a' })
      const impatient = open({ ms: 1_500 })
      const other = await connect()
      onTestFinished(async () => {
        await other.run('rollback')
        await Promise.all([other.close(), impatient.close()])
      })
      await other.run(driver === 'postgres' ? 'begin' : 'start transaction')
      await other.run(`update ${table} set name = 'held' where id = 1`)
      const result = await upsert({ id: 1, name: 'b' }, impatient)
      expect(result).toMatchObject({ ok: false, retryable: true, outage: false })
    })

    test.skipIf(!available)(
      'a wrong password or database is an outage; the reason has no address',
      async () => {
        const wrong = new URL(url)
        wrong.username = 'nobody'
        wrong.password = 'pa55word'
        wrong.pathname = '/missing_database'
        const other = open({ url: wrong.href })
        onTestFinished(() => other.close())
        const result = await upsert({ id: 1, name: 'a' }, other)
        expect(result).toMatchObject({ ok: false, retryable: true, outage: true })
        expect(reasonOf(result)).not.toMatch(/pa55word|nobody|127\.0\.0\.1/)
      },
    )

    test.skipIf(!available)('many concurrent new rows are all written', async () => {
      const many = Array.from({ length: 60 }, (_, id) => upsert({ id, name: 'n' }))
      expect(new Set((await Promise.all(many)).map((result) => result.ok))).toEqual(new Set([true]))
      expect(await rows()).toHaveLength(60)
    })

    test.skipIf(!available)('an aborted delivery is not begun', async () => {
      const result = await destination.deliver(
        job({ body: { id: 1, name: 'a' } }),
        AbortSignal.abort(),
      )
      expect(result).toMatchObject({ ok: false, retryable: true, outage: false })
      expect(await rows()).toEqual([])
    })
  },
)

test.skipIf(!hasPostgres)('a missing index on the key is reported', async () => {
  const admin = await connectPostgres()
  const destination = openSqlDestination(
    { driver: 'postgres', table: `${table}_plain`, upsertKey: ['id'] },
    { url: postgresUrl, connections: 1, batch: 500, timeoutMs: 5_000 },
  )
  onTestFinished(async () => {
    await admin.run(`drop table ${table}_plain`)
    await Promise.all([destination.close(), admin.close()])
  })
  await admin.run(`create table ${table}_plain (id int)`)
  const result = await destination.deliver(job({ body: { id: 1 } }), never)
  expect(result).toMatchObject({ ok: false, retryable: false })
  expect(reasonOf(result)).toContain('no unique index on the columns of upsertKey')
})

describe.each([
  ['postgres', 'postgres://u:pa55word@127.0.0.1:PORT/db'],
  ['mysql', 'mysql://u:pa55word@127.0.0.1:PORT/db'],
  ['mssql', 'mssql://u:pa55word@127.0.0.1:PORT/db?encrypt=false'],
] as const)('%s, without a running server', (driver, url) => {
  const open = (port: number, timeoutMs: number) =>
    openSqlDestination(
      { driver, table: 't', upsertKey: ['id'] },
      { url: url.replace('PORT', String(port)), connections: 1, batch: 500, timeoutMs },
    )

  test('a closed port is an outage', async () => {
    const destination = open(9, 3_000)
    onTestFinished(() => destination.close())
    const result = await destination.deliver(job({ body: { id: 1 } }), never)
    expect(result).toMatchObject({ ok: false, retryable: true, outage: true })
    expect(reasonOf(result)).not.toContain('pa55word')
  })

  test('a server that closes the connection is an outage, and a later delivery connects again', async () => {
    const received: Buffer[] = []
    const listener = createServer((socket: Socket) => {
      socket.on('error', () => {})
      // The client speaks first with PostgreSQL and SQL Server. With MySQL the server does, so this one just closes the
      // connection.
      if (driver === 'mysql') {
        received.push(Buffer.from('connected'))
        socket.destroy()
      }
      socket.once('data', (data) => {
        received.push(data)
        socket.destroy()
      })
    })
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => new Promise((resolve) => listener.close(() => resolve())))
    const address = listener.address()
    const destination = open(typeof address === 'object' ? (address?.port ?? 0) : 0, 3_000)
    onTestFinished(() => destination.close())
    for (const times of [1, 2]) {
      const result = await destination.deliver(job({ body: { id: 1 } }), never)
      expect(result).toMatchObject({ ok: false, retryable: true, outage: true })
      expect(received.length).toBeGreaterThanOrEqual(times)
    }
    // The first byte of a TDS packet of type PRELOGIN (MS-TDS 2.2.3.1.1).
    if (driver === 'mssql') expect(received[0]?.[0]).toBe(0x12)
  })
})
