import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import firebird, { type Database } from 'node-firebird'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type FirebirdColumn,
  firebirdText,
  firebirdValue,
  readRawValues,
} from '../../src/flows/sources/sql-firebird-values.ts'
import { SourceError, UnreadableValue } from '../../src/flows/types.ts'
import { reachable, readAll, readItem, sqlSource } from './sources-sql-support.ts'

// A server that accepts the login creates the database of these tests. It runs on this machine, with an account that may
// write here.
const server = process.env.TEST_FIREBIRD_URL
if (server === undefined) {
  process.stdout.write('skipped: no Firebird, since TEST_FIREBIRD_URL names none\n')
}
const there = server === undefined ? undefined : await reachable(server, 'Firebird')
const file = join(tmpdir(), `src_${process.pid}_${Date.now()}.fdb`)
const url = there && `${there}${file}`
let admin: Database

type Done = (error: unknown, value: unknown) => void
const ask = <T>(start: (done: Done) => void): Promise<T> =>
  new Promise((resolve, reject) =>
    start((error, value) => (error ? reject(error) : resolve(value as T))),
  )
const run = (sql: string) =>
  ask<Record<string, unknown>[]>((done) => admin.query(sql, [], done as never))

const table = `create table t (id integer not null primary key, code char(6), name varchar(40) character set win1252,
  old varchar(20) character set none, pad char(6) character set none, big bigint, small smallint, n2 numeric(4,2), n9 numeric(9,2),
  n18 numeric(18,4), ts timestamp, d date, t time, f float, dp double precision, ok boolean,
  note blob sub_type text character set win1252, note_old blob sub_type text character set none, bytes blob, raw varchar(8) character set octets)`

beforeAll(async () => {
  if (!there) return
  const { hostname, port, username, password } = new URL(there)
  admin = await ask((done) =>
    firebird.create(
      {
        host: hostname,
        port: Number(port),
        user: username,
        password: decodeURIComponent(password),
        database: file,
        encoding: 'UTF8',
        pageSize: 8_192,
        isPool: true,
      } as never,
      done as never,
    ),
  )
  await run(table)
  await run(`insert into t values (1, 'A1', _WIN1252 x'D1F18020', _NONE x'41F180', _NONE x'4142', 9223372036854775807, -7, -0.05, 1234567.89,
    -99999999999999.9999, '2026-03-08 02:30:00.1234', '0001-01-01', '10:20:30.5000', 0.1, 0.1, true,
    _WIN1252 x'F180', _NONE x'F180', x'00FF', x'00FF61')`)
  await run(`insert into t (id) values (2)`)
  await run(
    `create table many (id integer not null primary key, changed timestamp, t varchar(400))`,
  )
  await run(`execute block as declare i integer = 0; begin while (i < 2500) do begin i = i + 1;
    insert into many values (:i, dateadd(:i minute to timestamp '2026-01-01 00:00:00.1234'), rpad('x', 300, 'x')); end end`)
})
afterAll(async () => {
  if (!there) return
  await ask((done) => admin.detach(done as never))
  rmSync(file, { force: true })
})

const source = (query: string, more: object = {}) =>
  sqlSource({ driver: 'firebird', url: `${url}?charset=WIN1252`, query, ...more })

/** Queries of this file's sources that are still running. Only a new transaction shows the current ones. */
const running = async () => {
  const [row] = await run(
    `select count(*) as n from mon$attachments where mon$attachment_id <> current_connection and mon$system_flag = 0`,
  )
  return Number(row?.n ?? row?.N)
}
const untilNoneRuns = () => expect.poll(running, { timeout: 10_000, interval: 50 }).toBe(0)

test.skipIf(!url)('values are exact, whatever the time zone of this machine', async () => {
  const zone = process.env.TZ
  for (const one of ['UTC', 'America/New_York']) {
    process.env.TZ = one
    const [row, empty] = await readAll(source('select * from t order by id'))
    expect(row).toEqual({
      ID: 1,
      CODE: 'A1',
      NAME: 'Ññ€ ',
      OLD: 'Añ€',
      PAD: 'AB',
      BIG: '9223372036854775807',
      SMALL: -7,
      N2: '-0.05',
      N9: '1234567.89',
      N18: '-99999999999999.9999',
      TS: new Date('2026-03-08T02:30:00.123Z'),
      D: '0001-01-01',
      T: '10:20:30.5',
      F: 0.1,
      DP: 0.1,
      OK: true,
      NOTE: 'ñ€',
      NOTE_OLD: 'ñ€',
      BYTES: 'AP8=',
      RAW: 'AP9h',
    })
    expect(row?.TS).toHaveProperty('exact', '2026-03-08T02:30:00.1234Z')
    expect(new Set(Object.values(empty ?? {}))).toEqual(new Set([2, null]))
  }
  process.env.TZ = zone
  if (zone === undefined) delete process.env.TZ
})

test.skipIf(!url)('times are read in the timeZone of the source', async () => {
  const [row] = await readAll(
    source('select id as "id", ts from t', { timeZone: 'America/Argentina/Buenos_Aires' }),
  )
  expect(row?.TS).toHaveProperty('exact', '2026-03-08T05:30:00.1234Z')
})

test.skipIf(!url)(
  'bytes that are not text of the connection’s charset make their own record invalid',
  async () => {
    const utf8 = (query: string) =>
      readAll(sqlSource({ driver: 'firebird', url: url as string, query }))
    for (const name of ['old', 'note_old']) {
      const [row] = await utf8(`select id, ${name} from t where id = 1`)
      const data = { column: name.toUpperCase(), charset: 'UTF8' }
      expect(row).toEqual({
        ID: 1,
        [name.toUpperCase()]: new UnreadableValue({ code: 'COLUMN_BYTES_NO_TEXT', data }),
      })
    }
    expect(await utf8('select id, name, note from t where id = 1')).toEqual([
      { ID: 1, NAME: 'Ññ€ ', NOTE: 'ñ€' },
    ])
  },
)

test.skipIf(!url)(
  'a scan returns all records, a few at a time, and closes its connection',
  async () => {
    const sizes: number[] = []
    const { signal } = new AbortController()
    for await (const batch of source('select id, t from many order by id;').scan({
      since: null,
      signal,
    })) {
      sizes.push(batch.length)
    }
    expect(sizes.reduce((left, right) => left + right)).toBe(2_500)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000)
    await untilNoneRuns()
  },
)

test.skipIf(!url)(
  'the cursor limits an incremental read to its last digit, and initial a full one',
  async () => {
    const cursor = { field: 'CHANGED', initial: '2026-01-01T00:10:00Z', overlapMs: 0 }
    const some = source('select id, changed from many where changed >= :cursor', { cursor })
    expect(await readAll(some, '2026-01-02T17:30:00.000Z')).toHaveLength(11)
    expect(await readAll(some)).toHaveLength(2_491)
  },
)

test.skipIf(!url)(
  'one item is read by its key, also wrapped, and a loose comparison returns no other',
  async () => {
    const key = { key: ['ID'] }
    const wrapped = source('select id, code from t -- all', key)
    expect(await readItem(wrapped, '1')).toEqual([{ ID: 1, CODE: 'A1' }])
    expect(await readItem(wrapped, '1abc')).toEqual([])
    expect(await readItem(wrapped, '99999999999')).toEqual([])
    const own = source('select id, name from t', {
      ...key,
      itemQuery: 'select id, code from t where id = :pk',
    })
    expect(await readItem(own, '1')).toEqual([{ ID: 1, CODE: 'A1' }])
    const common = source(
      'with x as (select id, code from t) select id, code from x order by id',
      key,
    )
    expect(await readItem(common, '2')).toEqual([{ ID: 2, CODE: null }])
    const byCode = source('select code, id from t', { key: ['CODE'] })
    expect(await readItem(byCode, 'A1')).toEqual([{ ID: 1, CODE: 'A1' }])
    expect(await readItem(byCode, "A1' or '1'='1")).toEqual([])
  },
)

test.skipIf(!url)('parameters are bound as texts of the charset', async () => {
  const rows = (text: string, name: string) => readAll(source(text, { parameters: { name } }))
  expect(await rows('select id from t where name = :name', 'Ññ€ ')).toHaveLength(1)
  expect(await rows('select id from t where old = :name', 'Añ€')).toHaveLength(1)
  expect(await rows('select id from t where n9 = :name', '1234567.89')).toHaveLength(1)
  expect(await rows("select id from t where name = :name or code = q'{it's}'", 'x')).toEqual([])
})

test.skipIf(!url)('a query cannot write', async () => {
  await run('recreate table w (id integer)')
  await run(
    `create or alter procedure writes returns (id integer) as begin insert into w values (1); id = 1; suspend; end`,
  )
  await expect(readAll(source('select id from writes'))).rejects.toThrow('read - only transaction')
  await expect(readAll(source('delete from t'))).rejects.toThrow(SourceError)
  await untilNoneRuns()
})

test.skipIf(!url)('a query that takes too long, or is aborted, ends at the server', async () => {
  const slow = "select count(*) as id from many a, many b, many c where a.t || b.t || c.t = ''"
  const impatient = source(slow, { limits: { timeoutMs: 500 } })
  await expect(readAll(impatient)).rejects.toThrow('no answer for 500 ms')
  await untilNoneRuns()
  const given = new AbortController()
  const reason = new Error('given up')
  const drain = async () => {
    for await (const _ of source(slow).scan({ since: null, signal: given.signal }));
  }
  const aborted = expect(drain()).rejects.toBe(reason)
  await expect.poll(running, { timeout: 10_000, interval: 20 }).toBe(1)
  given.abort(reason)
  await aborted
  await untilNoneRuns()
})

test.skipIf(!url)('an early end and close stop the read', async () => {
  const some = source('select id, t from many', { limits: { fetchSize: 10 } })
  const { signal } = new AbortController()
  for await (const _ of some.scan({ since: null, signal })) break
  const closed = async () => {
    for await (const _ of some.scan({ since: null, signal })) await some.close()
  }
  await expect(closed()).rejects.toThrow('closed')
  await untilNoneRuns()
})

test.skipIf(!url)('a wrong password is reported without it', async () => {
  const wrong = new URL(url as string)
  wrong.password = 'canary-wrong'
  const failure = await readAll(
    sqlSource({ driver: 'firebird', url: wrong.href, query: 'select 1 from t' }),
  ).catch((error) => error)
  expect(failure).toBeInstanceOf(SourceError)
  expect(failure.message).toContain('user name and password')
  expect(failure.message).not.toContain('canary')
})

const column = (type: number, more: object = {}) =>
  ({
    alias: 'C',
    type,
    subType: 0,
    scale: 0,
    length: 4,
    decode: () => null,
    ...more,
  }) as FirebirdColumn
const clock = undefined

test('a value is exactly what was received, to the last digit, and a null flag after it counts', () => {
  const taken = (one: FirebirdColumn, ...words: unknown[]) => {
    readRawValues([one])
    const next = () => words.shift()
    const reader = {
      readInt: next,
      readUInt: next,
      readInt64BigInt: next,
      readBuffer: next,
      readArray: next,
    }
    const raw = one.decode(reader as never, true)
    return firebirdValue(raw, one, { text: firebirdText('WIN1252'), clock })
  }
  expect(taken(column(580, { scale: -4 }), -1n, 0)).toBe('-0.0001')
  expect(taken(column(580, { scale: -4 }), 0n, -1)).toBe(null)
  expect(taken(column(496, { scale: -2 }), 7, 0)).toBe('0.07')
  expect(taken(column(510), 61_107, 863_999_999, 0)).toHaveProperty(
    'exact',
    '2026-03-08T23:59:59.9999Z',
  )
  expect(taken(column(570), 0, 0)).toBe('1858-11-17')
  expect(taken(column(560), 1, 0)).toBe('00:00:00.0001')
  expect(taken(column(448), Buffer.from([0x80, 0x20]), 0)).toBe('€ ')
  expect(taken(column(452), Buffer.from([0x80, 0x20]), 0)).toBe('€')
  const broken = firebirdValue(Buffer.from([0xff]), column(452), {
    text: firebirdText('UTF8'),
    clock,
  })
  expect(broken).toBeInstanceOf(UnreadableValue)
  // TIMESTAMP WITH TIME ZONE, DECFLOAT, arrays.
  for (const type of [32_754, 32_762, 540]) {
    expect(() => readRawValues([column(type)])).toThrow('the column C has a type that is not read')
  }
})

test('a server that accepts the connection and sends nothing is a failure after the timeout', async () => {
  const silent = createServer((socket) => socket.on('error', () => undefined).resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const mute = (timeoutMs: number) =>
    sqlSource({
      driver: 'firebird',
      url: `firebird://bob:canary-password@127.0.0.1:${port}/x`,
      query: 'select 1 as id from t',
      limits: { timeoutMs },
    })
  await expect(readAll(mute(100))).rejects.toThrow('no answer for 100 ms')
  const closed = mute(20_000)
  const read = expect(readAll(closed)).rejects.toThrow('the source was closed')
  await closed.close()
  await read
  silent.close()
})

test('failures to connect are reported without the password', async () => {
  const failure = await readAll(
    sqlSource({
      driver: 'firebird',
      url: 'firebird://bob:canary-bob@127.0.0.1:1/erp',
      query: 'select 1 as id from t',
    }),
  ).catch((error) => error)
  expect(failure).toBeInstanceOf(SourceError)
  expect(failure.message).toContain('ECONNREFUSED')
  expect(JSON.stringify([failure.message, failure.stack])).not.toMatch(/canary/)
})
