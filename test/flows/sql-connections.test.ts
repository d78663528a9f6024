import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'

import { connectionLimit } from '../../src/flows/net/connection-limit.ts'
import { job, never } from './destinations-job.ts'
import { reachable, readAll, sqlSource } from './sources-sql-support.ts'

/** Any number of flows on one server leaves connections to other programs: here it has 20 for us. */
const url = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const role = `flows_${process.pid}_${Date.now()}`
const password = 'canary-password'
let admin: Client
let address: string

beforeAll(async () => {
  if (!url) return
  admin = new Client({ connectionString: url })
  await admin.connect()
  await admin.query(`create role ${role} login connection limit 20 password '${password}'`)
  await admin.query(`create schema ${role} authorization ${role}`)
  await admin.query(`create table ${role}.items (id text primary key)`)
  await admin.query(`alter table ${role}.items owner to ${role}`)
  const own = new URL(url)
  own.username = role
  own.password = password
  address = own.href
})
afterAll(async () => {
  if (!url) return
  await admin.query(`drop schema ${role} cascade`)
  await admin.query(`drop role ${role}`)
  await admin.end()
})

test.skipIf(!url)(
  '200 flows that read from one server at once all read, within its limit of connections',
  { tags: ['long'] },
  async () => {
    const sources = Array.from({ length: 200 }, () =>
      sqlSource({ driver: 'postgres', url: address, query: 'select 1 as id, pg_sleep(0.01)' }),
    )
    const read = await Promise.all(sources.map((source) => readAll(source)))
    expect(read.map((rows) => rows.length)).toEqual(sources.map(() => 1))
    await Promise.all(sources.map((source) => source.close()))
  },
)

test.skipIf(!url)('40 destinations on it with four writes each all write', async () => {
  const target = { driver: 'postgres' as const, table: `${role}.items`, upsertKey: ['id'] }
  const destinations = Array.from({ length: 40 }, () =>
    openSqlDestination(target, { url: address, connections: 4, batch: 500, timeoutMs: 30_000 }),
  )
  const results = await Promise.all(
    destinations.flatMap((destination, place) =>
      [0, 1, 2, 3].map((lane) =>
        destination.deliver(job({ body: { id: `${place}-${lane}` } }), never),
      ),
    ),
  )
  expect(results.filter(({ ok }) => !ok)).toEqual([])
  await Promise.all(destinations.map((destination) => destination.close()))
  const { rows } = await admin.query(`select count(*)::int as n from ${role}.items`)
  expect(rows[0].n).toBe(160)
})

test.skipIf(!url)('a read that waits for a connection ends with its flow', async () => {
  const slow = Array.from({ length: 10 }, () =>
    sqlSource({ driver: 'postgres', url: address, query: 'select 1 as id, pg_sleep(30)' }),
  )
  const reading = slow.map((source) => readAll(source).catch(() => 'ended'))
  const waiting = sqlSource({ driver: 'postgres', url: address, query: 'select 1 as id' })
  const read = readAll(waiting)
  await waiting.close()
  await expect(read).rejects.toThrow('the source was closed')
  await Promise.all(slow.map((source) => source.close()))
  expect(await Promise.all(reading)).toEqual(slow.map(() => 'ended'))
})

test('connections are given in the order of the requests, and an aborted request does not use one', async () => {
  const limit = connectionLimit('postgres', 'postgres://a@limit.example.com/b', 'write')
  const { signal } = new AbortController()
  const taken = await Promise.all(Array.from({ length: 10 }, () => limit.acquire(signal)))
  const order: number[] = []
  const acquireInOrder = async (place: number, given = signal) => {
    const release = await limit.acquire(given)
    order.push(place)
    release()
  }
  const aborting = new AbortController()
  const aborted = acquireInOrder(1, aborting.signal)
  const others = [acquireInOrder(2), acquireInOrder(3)]
  aborting.abort(new Error('left'))
  await expect(aborted).rejects.toThrow('left')
  expect(order).toEqual([])
  taken[0]?.()
  // Called twice, it frees one place.
  taken[0]?.()
  await Promise.all(others)
  expect(order).toEqual([2, 3])
  for (const release of taken) release()
})

test('the same server and user have one limit, whatever the database and the password', () => {
  const limit = (address: string) => connectionLimit('postgres', address, 'read')
  const one = limit('postgres://a:x@erp.example.com/b')
  expect(limit('postgresql://a:y@ERP.example.com:5432/c?sslmode=require')).toBe(one)
  expect(limit('postgres://b:x@erp.example.com/b')).not.toBe(one)
  expect(limit('postgres://a:x@erp.example.com:5433/b')).not.toBe(one)
  const named = (password: string) =>
    connectionLimit('mssql', `Server=erp;User Id=a;Password=${password}`, 'read')
  expect(named('x')).toBe(named('y'))
})
