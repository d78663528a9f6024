import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'
import {
  mysqlDelete,
  mysqlUpdate,
} from '../../src/flows/destinations/statements/mysql-statements.ts'
import type { SqlDriver } from '../../src/flows/destinations/statements/sql-statement.ts'
import type { DeliveryResult } from '../../src/flows/types.ts'
import { job, never } from './destinations-job.ts'

const postgresUrl = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
const mysqlUrl = process.env.TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306/test'
const table = `dest_keys_${process.pid}`

type Admin = {
  run(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  close(): Promise<void>
}

async function connectPostgres(): Promise<Admin> {
  const client = new pg.Client({ connectionString: postgresUrl, connectionTimeoutMillis: 2_000 })
  await client.connect()
  return {
    run: async (text, values) => (await client.query(text, values)).rows,
    close: () => client.end(),
  }
}

async function connectMysql(): Promise<Admin> {
  const client = await mysql.createConnection({ uri: mysqlUrl, connectTimeout: 2_000 })
  return {
    run: async (text, values = []) =>
      (await client.execute<mysql.RowDataPacket[]>(text, values as string[]))[0],
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
const collation = `blind_${process.pid}`

const postgres = { driver: 'postgres' as SqlDriver, url: postgresUrl, connect: connectPostgres }
const maria = { driver: 'mysql' as SqlDriver, url: mysqlUrl, connect: connectMysql }
const columns = [
  { ...postgres, has: hasPostgres, column: `text collate ${collation}` },
  {
    ...maria,
    has: hasMysql,
    column: 'varchar(50) character set utf8mb4 collate utf8mb4_general_ci',
  },
  {
    ...maria,
    has: hasMysql,
    column: 'varchar(50) character set utf8mb3 collate utf8mb3_unicode_ci',
  },
  { ...maria, has: hasMysql, column: 'varchar(50) character set latin1 collate latin1_swedish_ci' },
]

describe.each(columns)('a key of $driver in $column', ({ driver, url, connect, has, column }) => {
  let admin: Admin
  const open = () => {
    const destination = openSqlDestination(
      { driver, table, upsertKey: ['code'] },
      { url, connections: 2, batch: 500, timeoutMs: 10_000 },
    )
    onTestFinished(() => destination.close())
    return {
      upsert: (body: unknown) => destination.deliver(job({ body }), never),
      remove: (code: string) => destination.deliver(job({ kind: 'delete', body: { code } }), never),
    }
  }
  const rows = async () =>
    (await admin.run(`select code, name from ${table} order by name`)).map((row) => ({ ...row }))
  const create = (unique: string) =>
    admin.run(`create table ${table} (code ${column} not null ${unique}, name varchar(50))`)

  beforeAll(async () => {
    if (!has) return
    admin = await connect()
    if (driver !== 'postgres') return
    await admin.run(
      `create collation if not exists ${collation} (provider = icu, locale = 'und-u-ks-level1', deterministic = false)`,
    )
  })
  beforeEach(async () => {
    if (has) await admin.run(`drop table if exists ${table}`)
  })
  afterAll(async () => {
    if (!has) return
    await admin.run(`drop table if exists ${table}`)
    if (driver === 'postgres') await admin.run(`drop collation if exists ${collation}`)
    await admin.close()
  })

  test.skipIf(!has || !column.includes('latin1'))(
    'that it cannot store is refused with that reason',
    async () => {
      await create('unique')
      const { upsert } = open()
      expect(await upsert({ code: '☃', name: '1' })).toMatchObject({
        ok: false,
        why: { code: 'BAD_KEY_CHARACTER', data: { code: 'error 1267' } },
      })
    },
  )

  test.skipIf(!has)('never changes or deletes the row of another item', async () => {
    await create('unique')
    const { upsert, remove } = open()
    expect(await upsert({ code: 'ñandú', name: '1' })).toEqual({ ok: true })
    for (const code of ['ÑANDÚ', 'nandu', 'Ñandú']) {
      const result: DeliveryResult = await upsert({ code, name: code })
      expect(result).toMatchObject({
        ok: false,
        retryable: true,
        outage: false,
        why: { code: 'ROW_LOOKS_ALIKE' },
      })
      expect(await upsert({ code })).toMatchObject({ ok: false, retryable: true })
      expect(await remove(code)).toEqual({ ok: true })
    }
    expect(await rows()).toEqual([{ code: 'ñandú', name: '1' }])
    expect(await upsert({ code: 'ñandú', name: '2' })).toEqual({ ok: true })
    expect(await upsert({ code: 'ñandú' })).toEqual({ ok: true })
    expect(await rows()).toEqual([{ code: 'ñandú', name: '2' }])
    expect(await remove('ñandú')).toEqual({ ok: true })
    expect(await rows()).toEqual([])
  })

  test.skipIf(!has || driver === 'postgres')(
    'without an index has one row for each item',
    async () => {
      await create('')
      const { upsert, remove } = open()
      for (const code of ['a1', 'A1', 'á1', '7', '7 ']) {
        expect(await upsert({ code, name: code })).toEqual({ ok: true })
        expect(await upsert({ code, name: code })).toEqual({ ok: true })
      }
      expect(await rows()).toHaveLength(5)
      await remove('A1')
      await remove('7')
      expect((await rows()).map(({ code }) => code).sort()).toEqual(['7 ', 'a1', 'á1'])
    },
  )
})

test.skipIf(!hasPostgres)('with a trigger that skips unchanged rows is not refused', async () => {
  const admin = await connectPostgres()
  const destination = openSqlDestination(
    { driver: 'postgres', table, upsertKey: ['code'] },
    { url: postgresUrl, connections: 1, batch: 500, timeoutMs: 10_000 },
  )
  onTestFinished(async () => {
    await admin.run(`drop table if exists ${table}`)
    await Promise.all([admin.close(), destination.close()])
  })
  await admin.run(`create table ${table} (code text primary key, name text)`)
  await admin.run(
    `create trigger redundant before update on ${table} for each row execute function suppress_redundant_updates_trigger()`,
  )
  for (const _ of [1, 2]) {
    const result = await destination.deliver(job({ body: { code: 'a', name: 'b' } }), never)
    expect(result).toEqual({ ok: true })
  }
})

test.skipIf(!hasMysql)('uses the index of the key', async () => {
  const admin = await connectMysql()
  onTestFinished(async () => {
    await admin.run(`drop table if exists ${table}`)
    await admin.close()
  })
  await admin.run(
    `create table ${table} (code varchar(50) collate utf8mb4_general_ci primary key, name varchar(50))`,
  )
  const filler = Array.from({ length: 200 }, (_, index) => `('k${index}', 'x')`)
  await admin.run(`insert into ${table} values ${filler.join(', ')}`)
  const target = { driver: 'mysql' as const, table, upsertKey: ['code'] }
  const row = new Map([
    ['code', 'k7'],
    ['name', 'y'],
  ])
  for (const { text, values } of [mysqlUpdate(target, row), mysqlDelete(target, [['k7']])]) {
    expect(await admin.run(`explain ${text}`, values)).toMatchObject([
      { key: 'PRIMARY', rows: '1' },
    ])
  }
})

describe.each([
  { ...postgres, has: hasPostgres, types: ['numeric(10,2)', 'uuid', 'char(40)', 'timestamptz'] },
  { ...maria, has: hasMysql, types: ['decimal(10,2)', 'uuid', 'char(40)', 'datetime(3)'] },
])('keys that $driver writes in its own way', ({ driver, url, connect, has, types }) => {
  const keys = ['7', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'x', '2026-11-21T14:30:00.123Z']
  test.skipIf(!has).each(types.map((type, index) => [type, keys[index]]))(
    '%s',
    async (type, code) => {
      const admin = await connect()
      const destination = openSqlDestination(
        { driver, table, upsertKey: ['code'] },
        { url, connections: 1, batch: 500, timeoutMs: 10_000 },
      )
      onTestFinished(async () => {
        await admin.run(`drop table if exists ${table}`)
        await Promise.all([admin.close(), destination.close()])
      })
      await admin.run(`create table ${table} (code ${type} primary key, name varchar(50))`)
      for (const name of ['a', 'b']) {
        expect(await destination.deliver(job({ body: { code, name } }), never)).toEqual({
          ok: true,
        })
      }
      expect(await admin.run(`select name from ${table}`)).toMatchObject([{ name: 'b' }])
      await destination.deliver(job({ kind: 'delete', body: { code } }), never)
      expect(await admin.run(`select name from ${table}`)).toEqual([])
    },
  )
})
