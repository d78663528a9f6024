import { type AddressInfo, connect, createServer } from 'node:net'
import mysql from 'mysql2/promise'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { SourceError } from '../../src/flows/types.ts'
import { reachable, readAll, readItem, sqlSource } from './sources-sql-support.ts'
import { flowOf, ids, openTestSource } from './sources-support.ts'

const url = await reachable('mysql://root@127.0.0.1:3306/test', 'MariaDB')
const table = `src_${process.pid}_${Date.now()}`
let admin: mysql.Connection

beforeAll(async () => {
  if (!url) return
  admin = await mysql.createConnection({ uri: url, timezone: 'Z' })
  await admin.query(`create table ${table} (id int primary key, code char(6), name varchar(40),
    changed datetime(6) not null) engine=innodb`)
  await admin.query(`insert into ${table} select seq, concat('A', seq), concat('n', seq),
    timestampadd(minute, seq, '2026-01-01 00:00:00.123456') from seq_1_to_2500`)
})
afterAll(async () => {
  if (!url) return
  await admin.query(`drop table ${table}`)
  await admin.end()
})

const source = (query: string, more: object = {}) =>
  sqlSource({ driver: 'mysql', url: url as string, query, ...more })

/** Queries of this file's sources that are still running at the server. */
async function running(): Promise<number> {
  const [rows] = await admin.query(
    `select count(*) as n from information_schema.processlist
     where info like '%${table}%' and id <> connection_id()`,
  )
  return Number((rows as { n: number }[])[0]?.n)
}

const untilNoneRuns = () => expect.poll(running, { timeout: 10_000, interval: 50 }).toBe(0)

test.skipIf(!url)('a scan returns all records in batches of fetchSize', async () => {
  const sizes: number[] = []
  const { signal } = new AbortController()
  for await (const batch of source(`select id from ${table} order by id;`).scan({
    since: null,
    signal,
  })) {
    sizes.push(batch.length)
  }
  expect(sizes).toEqual([1_000, 1_000, 500])
})

test.skipIf(!url)(
  'a word is no key of a column of numbers, not even that of the record 0',
  async () => {
    const numbers = `select id from (select 0 as id union select 7) x`
    expect(await readItem(source(numbers), 'ABC')).toEqual([])
    expect(await readItem(source(numbers), '7abc')).toEqual([])
    expect(await readItem(source(numbers), '7')).toEqual([{ id: 7 }])
  },
)

test.skipIf(!url)('a key with blanks at its end is found, whatever the collation', async () => {
  for (const collation of ['utf8mb4_bin', 'utf8mb4_nopad_bin']) {
    const texts = `select convert('A  ' using utf8mb4) collate ${collation} as id`
    expect(await readItem(source(texts), 'A')).toEqual([{ id: 'A  ' }])
  }
})

test.skipIf(!url)('a boolean parameter has the value that the database uses', async () => {
  const query = `select id from (select 1 as id, true as active union select 2, false) x where active = :active`
  for (const active of [true, false]) {
    const flow = flowOf({ type: 'sql', driver: 'mysql', url, query, parameters: { active } })
    const { source: opened } = openTestSource(flow)
    expect(ids(await readAll(opened))).toEqual([active ? 1 : 2])
    await opened.close()
  }
})

test.skipIf(!url)('an invalid date stays unchanged', async () => {
  await admin.query(`create table ${table}_days (id int, at datetime)`)
  try {
    const [modes] = await admin.query('select @@sql_mode as mode')
    await admin.query(`set sql_mode = 'ALLOW_INVALID_DATES'`)
    await admin.query(`insert into ${table}_days values (1, '2026-02-30 10:00:00')`)
    await admin.query('set sql_mode = ?', [(modes as { mode: string }[])[0]?.mode])
    const rows = await readAll(source(`select id, at from ${table}_days`))
    expect(rows).toEqual([{ id: 1, at: '2026-02-30 10:00:00' }])
  } finally {
    await admin.query(`drop table ${table}_days`)
  }
})

test.skipIf(!url)('values are exact: big numbers as text, times as Date in UTC', async () => {
  const [row] = await readAll(
    source(`select 1 as id, cast(18446744073709551615 as unsigned) as big,
      cast('12345678901234567890.12' as decimal(22,2)) as \`dec\`, cast(0.1 as float) as f4,
      null as nothing, date '2026-02-03' as day, timestamp '2026-03-01 10:00:00.5' as local,
      cast('0000-00-00' as datetime) as never, b'101' as bits, x'00ff' as bytes,
      'a\\0b' as text_, '{"a": 12345678901234567890}' as doc, maketime(10, 0, 0) as hour_`),
  )
  expect(row).toMatchObject({
    id: 1,
    big: '18446744073709551615',
    dec: '12345678901234567890.12',
    f4: 0.1,
    nothing: null,
    day: '2026-02-03',
    local: new Date('2026-03-01T10:00:00.500Z'),
    bytes: 'AP8=',
    text_: 'a\0b',
    hour_: '10:00:00',
  })
})

test.skipIf(!url)('foreign names and long texts arrive unchanged', async () => {
  const [row] = await readAll(
    source("select 1 as id, 'c' as `constructor`, repeat('x', 1000000) as t"),
  )
  expect(Object.keys(row ?? {})).toEqual(['id', 'constructor', 't'])
  expect(Object.getPrototypeOf(row)).toBe(Object.prototype)
  expect(row?.t).toBe('x'.repeat(1_000_000))
  // The driver refuses this value; losing it would be worse.
  await expect(readAll(source("select 1 as id, 'p' as `__proto__`"))).rejects.toThrow('__proto__')
})

test.skipIf(!url)('the cursor limits an incremental read, and initial a full one', async () => {
  const cursor = { field: 'changed', initial: '2026-01-01T00:10:00Z', overlapMs: 0 }
  const some = source(`select id, changed from ${table} where changed >= :cursor`, { cursor })
  expect(await readAll(some, '2026-01-02T17:30:00.000Z')).toHaveLength(11)
  expect(await readAll(some)).toHaveLength(2_491)
})

test.skipIf(!url)(
  'one item is read by its key, and a loose comparison returns no other',
  async () => {
    const wrapped = source(`select id, name from ${table} -- all`)
    expect(await readItem(wrapped, '7')).toEqual([{ id: 7, name: 'n7' }])
    expect(await readItem(wrapped, '7abc')).toEqual([])
    const byName = source(`select name, id from ${table}`, { key: ['name'] })
    expect(await readItem(byName, 'N7')).toEqual([])
    expect(await readItem(byName, `n7' or '1'='1`)).toEqual([])
  },
)

test.skipIf(!url)('a query cannot write or contain a second statement', async () => {
  await expect(readAll(source(`delete from ${table} returning id`))).rejects.toThrow(SourceError)
  await expect(readAll(source(`select 1 as id; delete from ${table}`))).rejects.toThrow(SourceError)
  const [rows] = await admin.query(`select count(*) as n from ${table}`)
  expect(rows).toEqual([{ n: 2_500 }])
})

test.skipIf(!url)(
  'a query that takes too long, or is aborted, ends at the server',
  { tags: ['long'] },
  async () => {
    const slow = `select 1 as id, sleep(60) from ${table}`
    const impatient = source(slow, { limits: { timeoutMs: 300 } })
    await expect(readAll(impatient)).rejects.toThrow('no answer for 300 ms')
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
  },
)

test.skipIf(!url)(
  'a slow consumer does not use up the time of the source',
  { tags: ['long'] },
  async () => {
    const some = source(`select id from ${table}`, { limits: { timeoutMs: 300, fetchSize: 1_000 } })
    const { signal } = new AbortController()
    let rows = 0
    for await (const batch of some.scan({ since: null, signal })) {
      rows += batch.length
      if (rows === 1_000) await new Promise((resolve) => setTimeout(resolve, 500))
    }
    expect(rows).toBe(2_500)
  },
)

test.skipIf(!url)('a connection that the server closes fails the read', async () => {
  const some = source(`select id, repeat('x', 20000) as t from ${table}`, {
    limits: { fetchSize: 10 },
  })
  const read = async () => {
    let isFirst = true
    for await (const _ of some.scan({ since: null, signal: new AbortController().signal })) {
      if (!isFirst) continue
      isFirst = false
      const [rows] = await admin.query(
        `select id from information_schema.processlist
         where info like '%${table}%' and id <> connection_id()`,
      )
      for (const { id } of rows as { id: number }[]) await admin.query(`kill ${id}`)
    }
  }
  await expect(read()).rejects.toThrow(SourceError)
})

test.skipIf(!url)(
  'an abort between two batches, an early end and close stop the read',
  async () => {
    const some = source(`select id, '${table}' from ${table}`, { limits: { fetchSize: 10 } })
    const given = new AbortController()
    const reason = new Error('given up')
    const aborted = async () => {
      for await (const _ of some.scan({ since: null, signal: given.signal })) given.abort(reason)
    }
    await expect(aborted()).rejects.toBe(reason)
    const { signal } = new AbortController()
    for await (const _ of some.scan({ since: null, signal })) break
    const closed = async () => {
      for await (const _ of some.scan({ since: null, signal })) await some.close()
    }
    await expect(closed()).rejects.toThrow('closed')
    await untilNoneRuns()
  },
)

test('a server that accepts the connection and sends nothing is a failure after the timeout', async () => {
  const silent = createServer((socket) => socket.resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const mute = (timeoutMs: number) =>
    sqlSource({
      driver: 'mysql',
      url: `mysql://bob@127.0.0.1:${port}/x`,
      query: 'select 1 as id',
      limits: { timeoutMs },
    })
  await expect(readAll(mute(100))).rejects.toThrow(SourceError)
  const closed = mute(20_000)
  const read = expect(readAll(closed)).rejects.toThrow('the source was closed')
  await closed.close()
  await read
  silent.close()
})

test('failures to connect are reported without the password', async () => {
  const failure = await readAll(
    sqlSource({
      driver: 'mysql',
      url: 'mysql://bob:Secr3t%21@127.0.0.1:1/x',
      query: 'select 1 as id',
    }),
  ).catch((error) => error)
  expect(failure).toBeInstanceOf(SourceError)
  expect(failure.message).toContain('ECONNREFUSED')
  expect(JSON.stringify([failure.message, failure.stack])).not.toMatch(/Secr3t/)
})

test.skipIf(!url)(
  'a server without read-only transactions (MySQL before 5.6) is read too',
  async () => {
    const { hostname, port } = new URL(url as string)
    const asked: string[] = []
    const message = Buffer.from('#42000You have an error in your SQL syntax near read only')
    const body = Buffer.concat([Buffer.from([0xff, 1064 & 0xff, 1064 >> 8]), message])
    const refusal = Buffer.concat([Buffer.from([body.length, 0, 0, 1]), body])
    const proxy = createServer((socket) => {
      const server = connect(Number(port), hostname)
      server.pipe(socket)
      socket.on('error', () => server.destroy()).on('close', () => server.destroy())
      server.on('error', () => socket.destroy())
      socket.on('data', (bytes) => {
        const text = bytes.toString('latin1')
        const begins = /start transaction.*/.exec(text)?.[0]
        if (begins) asked.push(begins)
        if (text.includes('read only')) socket.write(refusal)
        else server.write(bytes)
      })
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void proxy.close())
    const old = new URL(url as string)
    old.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const rows = await readAll(
      sqlSource({ driver: 'mysql', url: old.href, query: `select * from ${table} where id < 4` }),
    )
    expect(rows).toHaveLength(3)
    expect(asked).toEqual(['start transaction read only', 'start transaction'])
  },
)
