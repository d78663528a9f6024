import { createServer } from 'node:net'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SourceError, UnreadableValue } from '../../src/flows/types.ts'
import { reachable, readAll, readItem, sqlSource } from './sources-sql-support.ts'

const url = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const schema = `src_${process.pid}_${Date.now()}`
const table = `${schema}.items`
let admin: Client

beforeAll(async () => {
  if (!url) return
  admin = new Client({ connectionString: url })
  await admin.connect()
  await admin.query(`create schema ${schema}`)
  await admin.query(`create table ${table} (id int primary key, code char(6), name text,
    changed timestamptz not null, local timestamp)`)
  await admin.query(`insert into ${table} select g, 'A' || g, 'n' || g,
    timestamptz '2026-01-01 00:00:00.123456+00' + g * interval '1 minute', '2026-03-01 10:00:00.5'
    from generate_series(1, 2500) g`)
})
afterAll(async () => {
  if (!url) return
  await admin.query(`drop schema ${schema} cascade`)
  await admin.end()
})

const source = (query: string, more: object = {}) =>
  sqlSource({ driver: 'postgres', url: url as string, query, ...more })

/** Open connections of sources to this server. */
async function openConnections(): Promise<number> {
  const { rows } = await admin.query(
    `select count(*)::int as n from pg_stat_activity where application_name = 'tillbridge'
     and query like '%${schema}%'`,
  )
  return rows[0].n
}

/** The server notices a closed connection with a delay. */
async function untilNoneOpen(): Promise<void> {
  await expect.poll(openConnections, { timeout: 10_000, interval: 50 }).toBe(0)
}

test.skipIf(!url)('a scan returns all records in batches of fetchSize and closes', async () => {
  const sizes: number[] = []
  const ids: unknown[] = []
  const { signal } = new AbortController()
  const all = source(`select id from ${table} order by id; -- all`)
  for await (const batch of all.scan({ since: null, signal })) {
    sizes.push(batch.length)
    ids.push(...batch.map(({ id }) => id))
  }
  expect(sizes).toEqual([1_000, 1_000, 500])
  expect(ids).toEqual(Array.from({ length: 2_500 }, (_, index) => index + 1))
  await untilNoneOpen()
})

test.skipIf(!url)(
  'JSON that no item can contain stays text, and large rows come in small batches',
  async () => {
    const huge = `('["' || repeat('x', 1048576) || '"]')::jsonb`
    const [row] = await readAll(source(`select 1 as id, ${huge} as doc`))
    expect(row?.doc).toBeTypeOf('string')
    const sizes: number[] = []
    const large = source(`select id, repeat('x', 400000) as t from ${table} where id <= 6`)
    const { signal } = new AbortController()
    for await (const batch of large.scan({ since: null, signal })) sizes.push(batch.length)
    expect(sizes).toEqual([2, 2, 2])
  },
)

test.skipIf(!url)(
  'values are exact: big numbers as text, times as Date in UTC, the rest as JSON',
  async () => {
    const [row] = await readAll(
      source(`select 1 as id, 9007199254740993::bigint as big, 12345678901234567890.12::numeric as dec,
      0.1::float4 as f4, 'NaN'::float8 as nan, true as yes, null as nothing, date '2026-02-03' as day,
      timestamp '2026-03-01 10:00:00.5' as local, timestamptz '2026-03-01 10:00:00-03' as zoned,
      'infinity'::timestamptz as never, '{"a": 12345678901234567890}'::jsonb as doc,
      '\\x00ff'::bytea as bytes, '{1.10,2.2}'::numeric[] as decs, interval '1 day' as span,
      '{2026-03-01 10:00:00}'::timestamp[] as times, '1.50'::money::text as text`),
    )
    expect(row).toEqual({
      id: 1,
      big: '9007199254740993',
      dec: '12345678901234567890.12',
      f4: 0.1,
      nan: 'NaN',
      yes: true,
      nothing: null,
      day: '2026-02-03',
      local: new Date('2026-03-01T10:00:00.500Z'),
      zoned: new Date('2026-03-01T13:00:00Z'),
      never: 'infinity',
      doc: { a: 12345678901234567890n },
      bytes: 'AP8=',
      decs: ['1.10', '2.2'],
      span: '1 day',
      times: [new Date('2026-03-01T10:00:00Z')],
      text: expect.any(String),
    })
  },
)

test.skipIf(!url)('foreign names and long texts arrive unchanged', async () => {
  const [row] = await readAll(
    source(`select 1 as id, 'p' as __proto__, 'c' as constructor, repeat('x', 1000000) as t`),
  )
  expect(Object.entries(row ?? {})).toEqual([
    ['id', 1],
    ['__proto__', 'p'],
    ['constructor', 'c'],
    ['t', 'x'.repeat(1_000_000)],
  ])
})

test.skipIf(!url)('the cursor limits an incremental read, and initial a full one', async () => {
  const cursor = { field: 'changed', initial: '2026-01-01T00:10:00Z', overlapMs: 0 }
  const query = `select id, changed from ${table} where changed >= :cursor and 1::text = '1'`
  const some = source(query, { cursor })
  expect(await readAll(some, '2026-01-02T17:30:00.000Z')).toHaveLength(11)
  expect(await readAll(some)).toHaveLength(2_491)
})

test.skipIf(!url)(
  'one item is read by the wrapped query, by itemQuery, and only when the key is equal',
  async () => {
    const wrapped = source(`select id, name from ${table} where changed >= :cursor -- x`, {
      cursor: { field: 'changed', initial: '1970-01-01T00:00:00Z', overlapMs: 0 },
    })
    expect(await readItem(wrapped, '7')).toEqual([{ id: 7, name: 'n7' }])
    expect(await readItem(wrapped, '7000')).toEqual([])
    const loose = source(`select id from ${table}`, {
      itemQuery: `select id, name from ${table} where id::text like :pk || '%'`,
    })
    expect(await readItem(loose, '24')).toEqual([{ id: 24, name: 'n24' }])
    const byCode = source(`select code, id from ${table}`, { key: ['code', 'id'] })
    expect(await readItem(byCode, 'A7', '7')).toEqual([{ code: 'A7    ', id: 7 }])
    expect(await readItem(byCode, 'A7', '8')).toEqual([])
    const quoting = `1' or '1'='1`
    expect(
      await readItem(source(`select name, id from ${table}`, { key: ['name'] }), quoting),
    ).toEqual([])
  },
)

test.skipIf(!url)('a key that the column cannot hold is an item that does not exist', async () => {
  const wrapped = source(`select id from ${table}`)
  expect(await readItem(wrapped, 'seven')).toEqual([])
  expect(await readItem(wrapped, '99999999999999999999')).toEqual([])
  expect(await readItem(wrapped, 'a\u0000b')).toEqual([])
  const own = source(`select id from ${table}`, {
    itemQuery: `select id from ${table} where id = :pk::int`,
  })
  expect(await readItem(own, 'seven')).toEqual([])
  // But records that cannot be read are a failure, not an absence.
  const broken = source(`select id, name::int as n from ${table}`)
  await expect(readItem(broken, '7')).rejects.toThrow(SourceError)
})

test.skipIf(!url)('a query cannot write, not even by leaving its transaction', async () => {
  await admin.query(`create function ${schema}.write() returns int language sql as
    $$ delete from ${table} returning 1 $$`)
  await expect(readAll(source(`select ${schema}.write() as id`))).rejects.toThrow('25006')
  const leaving = source(`select 1 as id; commit; delete from ${table}`)
  await expect(readAll(leaving)).rejects.toThrow(SourceError)
  const { rows } = await admin.query(`select count(*)::int as n from ${table}`)
  expect(rows[0].n).toBe(2_500)
})

test.skipIf(!url)('more records than maxRows fail the read', async () => {
  const bounded = (maxRows: number) => source(`select id from ${table}`, { limits: { maxRows } })
  expect(await readAll(bounded(2_500))).toHaveLength(2_500)
  await expect(readAll(bounded(2_499))).rejects.toThrow('limits.maxRows')
  await untilNoneOpen()
})

test.skipIf(!url)('two columns of one name are an error, not a lost value', async () => {
  await expect(readAll(source('select 1 as id, 2 as id'))).rejects.toThrow('id twice')
})

test.skipIf(!url)(
  'a query that takes too long is stopped at the server',
  { tags: ['long'] },
  async () => {
    const slow = source(`select 1 as id, pg_sleep(60), '${schema}'`, { limits: { timeoutMs: 200 } })
    await expect(readAll(slow)).rejects.toThrow('57014')
    await untilNoneOpen()
  },
)

test.skipIf(!url)(
  'a slow consumer does not use up the time of the source',
  { tags: ['long'] },
  async () => {
    const some = source(`select id from ${table}`, { limits: { timeoutMs: 400, fetchSize: 1_000 } })
    const { signal } = new AbortController()
    let rows = 0
    for await (const batch of some.scan({ since: null, signal })) {
      rows += batch.length
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    expect(rows).toBe(2_500)
  },
)

test.skipIf(!url)(
  'an abort, an early end and close stop the read and close the connection',
  async () => {
    const given = new AbortController()
    const reason = new Error('given up')
    const some = source(`select id from ${table}`, { limits: { fetchSize: 10 } })
    const read = async () => {
      for await (const _ of some.scan({ since: null, signal: given.signal })) given.abort(reason)
    }
    await expect(read()).rejects.toBe(reason)
    for await (const _ of some.scan({ since: null, signal: new AbortController().signal })) break
    const closed = async () => {
      const { signal } = new AbortController()
      for await (const _ of some.scan({ since: null, signal })) await some.close()
    }
    await expect(closed()).rejects.toThrow('closed')
    await untilNoneOpen()
  },
)

test.skipIf(!url)('a connection that the server closes fails the read', async () => {
  const some = source(`select id from ${table}`, { limits: { fetchSize: 10 } })
  const read = async () => {
    for await (const _ of some.scan({ since: null, signal: new AbortController().signal })) {
      await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'tillbridge' and query like '%tillbridge%'`)
    }
  }
  await expect(read()).rejects.toThrow(SourceError)
})

describe('a database without an encoding (SQL_ASCII)', () => {
  const database = `ascii_${process.pid}`
  const address = (charset = '') => {
    const to = new URL(url as string)
    to.pathname = `/${database}`
    if (charset !== '') to.searchParams.set('charset', charset)
    return to.toString()
  }
  const run = async (to: string, ...texts: string[]) => {
    const client = new Client({ connectionString: to })
    await client.connect()
    for (const text of texts) await client.query(text)
    await client.end()
  }
  const from = (charset: string, query: string, more: object = {}) =>
    sqlSource({ driver: 'postgres', url: address(charset), query, ...more })
  beforeAll(async () => {
    if (!url) return
    await run(
      url,
      `create database ${database} encoding 'SQL_ASCII' template template0 lc_collate 'C' lc_ctype 'C'`,
    )
    await run(
      address(),
      `set client_encoding to 'SQL_ASCII'`,
      'create table t (id int, code text, name varchar(20), pad char(4), doc json, list text[], price numeric(9,2), at timestamptz)',
      `insert into t values (1, E'A\\361', E'\\361and\\372', E'\\361', E'["\\361"]', array[E'\\361'], 10.50, '2026-01-02 03:04:05.123456+00'),
        (2, 'B', 'plain', 'b', '{"a": 9007199254740993}', null, null, null), (3, 'C', E'\\201', 'c', null, null, null, null)`,
    )
  })
  afterAll(async () => {
    if (url) await run(url, `drop database ${database}`)
  })

  test.skipIf(!url)('is read in the charset of the address, its values as ever', async () => {
    const rows = await readAll(from('LATIN1', 'select * from t where id < 3 order by id'))
    expect(rows).toMatchObject([
      { id: 1, code: 'Añ', name: 'ñandú', pad: 'ñ   ', doc: ['ñ'], list: ['ñ'], price: '10.50' },
      { id: 2, name: 'plain', doc: { a: 9007199254740993n }, list: null, at: null },
    ])
    expect(rows[0]?.at).toHaveProperty('exact', '2026-01-02T03:04:05.123456Z')
    const item = { itemQuery: 'select * from t where code = :pk', key: ['code'] }
    for (const more of [item, { key: ['code'] }]) {
      expect(await readItem(from('WIN1252', 'select * from t', more), 'Añ')).toMatchObject([
        { id: 1 },
      ])
    }
  })

  test.skipIf(!url)('a text that is none in the charset makes its own record invalid', async () => {
    const names = async (charset: string) =>
      (await readAll(from(charset, 'select id, name from t order by id'))).map(({ name }) =>
        name instanceof UnreadableValue ? name.why : name,
      )
    const no = (charset: string) => ({
      code: 'COLUMN_BYTES_NO_TEXT',
      data: { column: 'name', charset },
    })
    expect(await names('')).toEqual([no('UTF8'), 'plain', no('UTF8')])
    expect(await names('WIN1250')).toEqual(['ńandú', 'plain', no('WIN1250')])
    await expect(names('EBCDIC')).rejects.toThrow('charset=EBCDIC')
  })
})

test('failures to connect are reported without the password', { tags: ['long'] }, async () => {
  const silent = createServer((socket) => socket.resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const at = (address: string) =>
    readAll(
      sqlSource({
        driver: 'postgres',
        url: address,
        query: 'select 1 as id',
        limits: { timeoutMs: 200 },
      }),
    ).catch((error) => error)
  const failures = [
    await at(`postgres://bob:Secr3t%21@127.0.0.1:${port}/x`),
    await at('postgres://bob:Secr3t%21@no-such-host.invalid/x'),
    await at('postgres://bob:Secr3t%21@127.0.0.1:1/x'),
  ]
  silent.close()
  for (const failure of failures) {
    expect(failure).toBeInstanceOf(SourceError)
    expect(failure.message).toMatch(/^postgres source: ./)
    expect(JSON.stringify([failure.message, failure.stack])).not.toMatch(/Secr3t/)
  }
  expect(failures[2].message).toContain('ECONNREFUSED')
})

test.skipIf(!url)('a message of the database is reported', async () => {
  await expect(readAll(source('select nothing'))).rejects.toThrow(
    /42703: column "nothing".*Correct the table or column in source.query/,
  )
})
