import mssql from 'mssql'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { parseExactJson } from '../../src/domain/json.ts'
import { wallClockOf } from '../../src/domain/time-zone.ts'
import { compileMapping } from '../../src/flows/deliver/item-body.ts'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'
import type { SqlDriver, SqlTarget } from '../../src/flows/destinations/statements/sql-statement.ts'
import { createItemReader } from '../../src/flows/item/item.ts'
import { laterCursor } from '../../src/flows/poll/cursor.ts'
import { mssqlValue } from '../../src/flows/sources/sql-mssql.ts'
import { type Source, type SourceRow, UnreadableValue } from '../../src/flows/types.ts'
import { findDeliveries, recordChanges } from '../../src/repositories/flows/deliveries.ts'
import { openTestDatabase } from '../support/database.ts'
import { job, never } from './destinations-job.ts'
import { reachable, readAll, sqlSource } from './sources-sql-support.ts'

const postgresUrl = await reachable(
  process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL',
)
const mysqlUrl = await reachable('mysql://root@127.0.0.1:3306/test', 'MariaDB')
const table = `exact_${process.pid}`
const zone = 'America/Argentina/Buenos_Aires'
const hash = { ignore: [], trim: false, emptyAsNull: false, decimals: {} }
const reader = createItemReader({
  item: { key: ['id'], hash, filter: undefined, onDefinitionChange: 'ask' },
})

async function itemOf(row: SourceRow | undefined) {
  const read = await reader.read(row ?? {})
  if (!('item' in read)) throw new Error('no item')
  return read.item
}

const firstItem = async (source: Source) => itemOf((await readAll(source))[0])

describe('times with more digits than milliseconds', () => {
  const select = `select 1 as id, %s as at`
  const postgres = (literal: string, more: object = {}) =>
    sqlSource({
      driver: 'postgres',
      url: postgresUrl as string,
      query: select.replace('%s', literal),
      ...more,
    })

  test.skipIf(!postgresUrl).each([
    [`timestamptz '2026-01-02 03:04:05.123456+00'`, '2026-01-02T03:04:05.123456Z'],
    [`timestamptz '2026-01-02 03:04:05.1234+00'`, '2026-01-02T03:04:05.1234Z'],
    [`timestamptz '2026-01-02 03:04:05.120+00'`, '2026-01-02T03:04:05.120Z'],
    [`timestamp '2026-01-02 03:04:05.000001'`, '2026-01-02T03:04:05.000001Z'],
    [`array[timestamp '2026-01-02 03:04:05.000001']`, ['2026-01-02T03:04:05.000001Z']],
    [`timestamp '0044-03-15 10:00:00 BC'`, '0044-03-15 10:00:00 BC'],
    [`'[9007199254740993]'::jsonb`, [9007199254740993n]],
    [`'9007199254740993'::json`, 9007199254740993n],
    [`array['{"a": 9007199254740993}']::jsonb[]`, [{ a: 9007199254740993n }]],
    [`array['[9007199254740993]', '0.10']::json[]`, [[9007199254740993n], 0.1]],
  ])('PostgreSQL: %s', async (literal, at) => {
    expect((await firstItem(postgres(literal))).value.at).toEqual(at)
  })

  test.skipIf(!postgresUrl)(
    'PostgreSQL returns all digits of a double, whatever its settings',
    async () => {
      const url = `${postgresUrl}?options=-c%20extra_float_digits%3D0`
      const query = `select 1 as id, float8 '0.1' + float8 '0.2' as f8, float4 '1.2345679' as f4,
      array[float4 '0.1', 'NaN'] as list`
      const { value } = await firstItem(sqlSource({ driver: 'postgres', url, query }))
      expect(value).toEqual({ id: 1, f8: 0.1 + 0.2, f4: 1.2345679, list: [0.1, 'NaN'] })
    },
  )

  test.skipIf(!mysqlUrl)('MariaDB, in the item and on the way into a table', async () => {
    const admin = await mysql.createConnection({ uri: mysqlUrl as string, dateStrings: true })
    const destination = openSqlDestination(
      { driver: 'mysql', table, upsertKey: ['id'] },
      { url: mysqlUrl as string, connections: 1, batch: 500, timeoutMs: 10_000 },
    )
    onTestFinished(async () => {
      await admin.query(`drop table if exists ${table}`)
      await Promise.all([admin.end(), destination.close()])
    })
    await admin.query(
      `create table ${table} (id int primary key, at datetime(6), stamp timestamp(6))`,
    )
    const query = `select 1 as id, timestamp '2026-01-02 03:04:05.123456' as at`
    const item = await firstItem(sqlSource({ driver: 'mysql', url: mysqlUrl as string, query }))
    expect(item.value).toEqual({ id: 1, at: '2026-01-02T03:04:05.123456Z' })
    const body = { ...item.value, stamp: item.value.at }
    expect(await destination.deliver(job({ body }), never)).toEqual({ ok: true })
    const [rows] = await admin.query(`select at from ${table}`)
    expect(rows).toEqual([{ at: '2026-01-02 03:04:05.123456' }])
  })

  test('SQL Server', () => {
    const value = Object.assign(new Date('2026-01-02T03:04:05.123Z'), {
      nanosecondsDelta: 0.0004567,
    })
    const given = (type: unknown) => mssqlValue(value, { name: 'at', type })
    expect(given(mssql.DateTime2)).toHaveProperty('exact', '2026-01-02T03:04:05.1234567Z')
    expect(given(mssql.Time)).toBe('03:04:05.1234567')
  })

  test('a field of type date keeps them, and a cursor uses them', async () => {
    const { apply } = compileMapping({ fields: { at: { from: 'at', type: 'date' } } } as never)
    expect(await apply({ at: '2026-01-02T00:04:05.123456-03:00' })).toEqual({
      at: '2026-01-02T03:04:05.123456Z',
    })
    const [early, late] = ['2026-01-02T03:04:05.123456Z', '2026-01-02T03:04:05.123457Z']
    expect(laterCursor(early, late)).toBe(late)
  })
})

test.skipIf(!postgresUrl)(
  'arrays of PostgreSQL are lists, whatever their element type',
  async () => {
    const client = new pg.Client(postgresUrl as string)
    await client.connect()
    onTestFinished(async () => {
      await client.query(`drop domain ${table}_code; drop type ${table}_mood`)
      await client.end()
    })
    await client.query(`create type ${table}_mood as enum ('glad', 'sad, or "so"');
    create domain ${table}_code as varchar(8)`)
    const query = `select 1 as id, array['glad', 'sad, or "so"']::${table}_mood[] as moods, '{}'::${table}_mood[] as none,
      array['A,1', null]::${table}_code[] as codes, array['[1,5)'::int4range] as ranges, array[B'101'] as bits,
      'glad'::${table}_mood as mood, '{a}'::text as word, null::${table}_mood[] as nothing`
    const item = await firstItem(
      sqlSource({ driver: 'postgres', url: postgresUrl as string, query }),
    )
    expect(item.value).toMatchObject({
      moods: ['glad', 'sad, or "so"'],
      none: [],
      codes: ['A,1', null],
      ranges: ['[1,5)'],
      bits: ['101'],
      mood: 'glad',
      word: '{a}',
      nothing: null,
    })
  },
)

describe('times without a zone, with source.timeZone', () => {
  test.each([
    // Summer and winter, the hour that spring leaves out, and the first of the two that autumn has.
    ['Europe/Madrid', '2026-07-01T12:00:00Z', '2026-07-01T10:00:00.000Z'],
    ['Europe/Madrid', '2026-01-01T12:00:00Z', '2026-01-01T11:00:00.000Z'],
    ['Europe/Madrid', '2026-03-29T02:30:00Z', '2026-03-29T01:30:00.000Z'],
    ['Europe/Madrid', '2026-10-25T02:30:00Z', '2026-10-25T00:30:00.000Z'],
    ['Asia/Kathmandu', '2026-01-01T00:00:00Z', '2025-12-31T18:15:00.000Z'],
    [zone, '2026-01-01T00:00:00Z', '2026-01-01T03:00:00.000Z'],
  ])('in %s %s is %s', (name, wall, instant) => {
    expect(wallClockOf(name).toInstant(new Date(wall)).toISOString()).toBe(instant)
  })

  const stamp = '2026-01-02 00:04:05.123456'
  const instant = '2026-01-02T03:04:05.123456Z'

  test.skipIf(!postgresUrl)(
    'PostgreSQL: both kinds of columns, and the cursor of both',
    async () => {
      for (const type of ['timestamp', 'timestamptz']) {
        const rows = `(values (1, timestamp '${stamp}'), (2, timestamp '2026-01-01 23:00:00')) as v (id, plain)`
        const value = type === 'timestamp' ? 'plain' : `plain at time zone '${zone}'`
        const source = sqlSource({
          driver: 'postgres',
          url: postgresUrl as string,
          query: `select id, at from (select id, ${value} as at from ${rows}) x where at >= :cursor`,
          timeZone: zone,
          cursor: { field: 'at', initial: '1970-01-01T00:00:00Z', overlapMs: 0 },
        })
        const all = await readAll(source)
        expect((await itemOf(all[0])).value.at).toBe(instant)
        expect((await readAll(source, instant)).map(({ id }) => id)).toEqual([1])
      }
    },
  )

  test.skipIf(!mysqlUrl)('MariaDB: a column without one, its cursor, and one with it', async () => {
    const admin = await mysql.createConnection({ uri: mysqlUrl as string })
    onTestFinished(async () => {
      await admin.query(`drop table if exists ${table}`)
      await admin.end()
    })
    await admin.query(`set time_zone = '+00:00'`)
    await admin.query(`create table ${table} (id int, at datetime(6), stamp timestamp(6) null)`)
    await admin.query(
      `insert into ${table} values (1, '${stamp}', '2026-01-02 03:04:05.5'), (2, '2026-01-01 23:00:00', null)`,
    )
    const source = sqlSource({
      driver: 'mysql',
      url: mysqlUrl as string,
      query: `select id, at, stamp from ${table} where at >= :cursor order by id`,
      timeZone: zone,
      cursor: { field: 'at', initial: '1970-01-01T00:00:00Z', overlapMs: 0 },
    })
    expect((await firstItem(source)).value).toEqual({
      id: 1,
      at: instant,
      stamp: '2026-01-02T03:04:05.500Z',
    })
    expect((await readAll(source, instant)).map(({ id }) => id)).toEqual([1])
  })

  test.skipIf(!postgresUrl)(
    'PostgreSQL: both hours that the clock shows twice are read, from every position in them',
    async () => {
      const admin = new pg.Client({ connectionString: postgresUrl })
      await admin.connect()
      onTestFinished(async () => {
        await admin.query(`drop table if exists ${table}_twice`)
        await admin.end()
      })
      await admin.query(`create table ${table}_twice (id int, plain timestamp, exact timestamptz)`)
      // New York: 05:00 to 06:00 and 06:00 to 07:00 UTC are 01:00 to 02:00.
      for (const minute of [5, 35, 65, 95, 125]) {
        await admin.query(
          `insert into ${table}_twice select $1::int, at at time zone 'America/New_York', at
           from (select timestamptz '2026-11-01 05:00+00' + $1::int * interval '1 minute' as at) x`,
          [minute],
        )
      }
      for (const column of ['plain', 'exact']) {
        const source = sqlSource({
          driver: 'postgres',
          url: postgresUrl as string,
          query: `select id, ${column} as at from ${table}_twice where ${column} >= :cursor order by id`,
          timeZone: 'America/New_York',
          cursor: { field: 'at', initial: '1970-01-01T00:00:00Z', overlapMs: 0 },
        })
        for (const since of ['2026-11-01T05:35:00Z', '2026-11-01T06:35:00Z']) {
          const read = (await readAll(source, since)).map(({ id }) => id)
          expect(read, `${column} from ${since}`).toEqual([5, 35, 65, 95, 125])
        }
        const after = (await readAll(source, '2026-11-01T07:01:00Z')).map(({ id }) => id)
        expect(after).toEqual([125])
      }
    },
  )

  test('SQL Server: a byte that the code page of a column lacks is no text', () => {
    const text = 'a\ufffdb'
    const given = (type: unknown) => mssqlValue(text, { name: 'n', type })
    for (const type of [mssql.VarChar, mssql.Char, mssql.Text]) {
      const why = { code: 'COLUMN_NO_CHARACTERS', data: { column: 'n' } } as const
      expect(given(type)).toEqual(new UnreadableValue(why))
    }
    // Here the table itself may have this character.
    expect(given(mssql.NVarChar)).toBe(text)
  })

  test('SQL Server: only columns without an offset', () => {
    const clock = wallClockOf(zone)
    const value = new Date('2026-01-02T00:04:05.000Z')
    const given = (type: unknown) => mssqlValue(value, { name: 'at', type }, clock)
    expect(given(mssql.DateTime)).toEqual(new Date('2026-01-02T03:04:05.000Z'))
    expect(given(mssql.DateTimeOffset)).toEqual(value)
    expect(given(mssql.Date)).toBe('2026-01-02')
  })
})

describe('whole numbers of JSON beyond 2^53', () => {
  const big = 9_007_199_254_740_993n
  let database: Database
  beforeAll(async () => {
    database = await openTestDatabase()
  })
  afterAll(() => database.close())

  test('reach a receiver as the same numbers, also through the database', async () => {
    const row = parseExactJson('{"id":9007199254740993,"deep":[{"n":-12345678901234567890}]}')
    const { pk, hash, value } = await itemOf(row as SourceRow)
    expect(pk).toBe('9007199254740993')
    const target = { flow: 'big', destination: 'web' }
    const to = { flow: 'big', destinations: ['web'], keepsHistory: false }
    const change = { pk, kind: 'upsert' as const, hash, value, change: 1 }
    await database.transaction((trx) => recordChanges(trx, to, [change], new Date()))
    const [delivery] = await findDeliveries(database.db, target, [pk])
    expect(delivery?.payload).toEqual({ id: big, deep: [{ n: -12_345_678_901_234_567_890n }] })
    const fields = { sku: 'id', code: { from: 'id', type: 'integer' }, all: 'deep' }
    const body = await compileMapping({ fields } as never).apply(delivery?.payload ?? {})
    expect(JSON.stringify(body)).toBe(
      '{"sku":9007199254740993,"code":9007199254740993,"all":[{"n":-12345678901234567890}]}',
    )
  })

  test('are exact texts in an expression, which would otherwise round them', async () => {
    for (const map of ['{ "id": id, "list": [list] }', '{ "id": $string(id), "list": list[] }']) {
      const { apply } = compileMapping({ map, fields: undefined })
      expect(await apply({ id: big, list: [big] })).toEqual({ id: `${big}`, list: [`${big}`] })
      // Every other id fits in a JavaScript number: a receiver must not get another type for it.
      const even = parseExactJson('{"id":9007199254740994,"list":[9007199254740994]}')
      expect(await apply(even as SourceRow)).toEqual({
        id: '9007199254740994',
        list: ['9007199254740994'],
      })
    }
  })
})

type Admin = { run(text: string): Promise<Record<string, unknown>[]>; close(): Promise<void> }

async function connect(driver: SqlDriver): Promise<Admin> {
  if (driver === 'mysql') {
    const client = await mysql.createConnection(mysqlUrl as string)
    return {
      run: async (text) => (await client.query<mysql.RowDataPacket[]>(text))[0],
      close: () => client.end(),
    }
  }
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  return { run: async (text) => (await client.query(text)).rows, close: () => client.end() }
}

describe.each([
  { driver: 'postgres' as SqlDriver, url: postgresUrl, bytes: 'bytea' },
  { driver: 'mysql' as SqlDriver, url: mysqlUrl, bytes: 'blob' },
])('into a table of $driver', ({ driver, url, bytes }) => {
  async function open(columns: string, change: Partial<SqlTarget> = {}) {
    const admin = await connect(driver)
    const destination = openSqlDestination(
      { driver, table, upsertKey: ['id'], ...change },
      { url: url as string, connections: 1, batch: 500, timeoutMs: 10_000 },
    )
    onTestFinished(async () => {
      await admin.run(`drop table if exists ${table}`)
      await Promise.all([admin.close(), destination.close()])
    })
    await admin.run(`create table ${table} (id int primary key, ${columns})`)
    return {
      deliver: (body: unknown) => destination.deliver(job({ body }), never),
      rows: () => admin.run(`select * from ${table}`),
    }
  }

  test.skipIf(!url)('bytes arrive unchanged', async () => {
    const { deliver, rows } = await open(`photo ${bytes}, name ${bytes}`, {
      binary: { photo: 'base64', name: 'text' },
    })
    expect(await deliver({ id: 1, photo: 'AP8=', name: 'ñ' })).toEqual({ ok: true })
    expect(await rows()).toEqual([{ id: 1, photo: Buffer.from([0, 255]), name: Buffer.from('ñ') }])
    expect(await deliver({ id: 1, photo: 'no base64!', name: null })).toMatchObject({
      ok: false,
      retryable: false,
      why: { code: 'NO_BASE64', data: { column: 'photo' } },
    })
    expect(await deliver({ id: 1, photo: null, name: null })).toEqual({ ok: true })
  })

  test.skipIf(!url)(
    'a text for a bytes column without a stated format is refused by its name',
    async () => {
      const { deliver, rows } = await open(`photo ${bytes}`)
      expect(await deliver({ id: 1, photo: 'AP8=' })).toMatchObject({
        ok: false,
        retryable: false,
        why: { code: 'BYTES_WITHOUT_FORM', data: { column: 'photo' } },
      })
      expect(await rows()).toEqual([])
      expect(await deliver({ id: 1, photo: null })).toEqual({ ok: true })
    },
  )

  test.skipIf(!url)(
    'a value that does not fit is refused with the name of its column',
    async () => {
      const { deliver } = await open('name varchar(10), stock int')
      const result = await deliver({ id: 1, name: 'a', stock: ['S3CRET for column name'] })
      expect(result).toMatchObject({ ok: false, retryable: false })
      expect(result).toHaveProperty('why.data.column', 'stock')
      expect(JSON.stringify(result)).not.toContain('S3CRET')
    },
  )

  test.skipIf(!url || driver === 'mysql')('a list is written to an array column', async () => {
    const { deliver, rows } = await open('tags text[], sizes int[], doc jsonb')
    const body = { id: 1, tags: ['a', 'b "c", {d}', null], sizes: [[1], [2]], doc: [1, 'x'] }
    expect(await deliver(body)).toEqual({ ok: true })
    expect(await rows()).toEqual([body])
    expect(await deliver({ id: 1, tags: [], sizes: null })).toEqual({ ok: true })
    expect(await rows()).toMatchObject([{ tags: [], sizes: null }])
    const wrong = await deliver({ id: 1, sizes: ['x'] })
    expect(wrong).toHaveProperty('why.data.column', 'sizes')
  })
})
