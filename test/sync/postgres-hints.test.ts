import { Client } from 'pg'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { followPostgres } from '../../src/sync/sources/postgres-hints.ts'
import { reachable, sqlSource } from './sources-sql-support.ts'

/** NOTIFY of the database that is read wakes a flow; it is a hint, and nothing depends on it. */
const url = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const one = `one_${process.pid}`
const two = `two_${process.pid}`
let admin: Client

beforeAll(async () => {
  if (!url) return
  admin = new Client({ connectionString: url })
  await admin.connect()
})
afterAll(() => admin?.end())

const patience = { timeout: 15_000, interval: 20 }
const listening = async () => {
  const { rows } = await admin.query(
    `select pid from pg_stat_activity where application_name = 'tillbridge' and query ilike 'listen%'
     and (query like '%${one}%' or query like '%${two}%')`,
  )
  return rows.map(({ pid }) => pid as number)
}

test.skipIf(!url)(
  'each hears its own channel over one connection, and again after that broke',
  async () => {
    const warnings: Error[] = []
    const warn = (warning: Error) => void warnings.push(warning)
    process.on('warning', warn)
    const heard = { one: 0, two: 0 }
    const ends = [
      followPostgres(url as string, one, () => {
        heard.one += 1
      }),
      followPostgres(url as string, two, () => {
        heard.two += 1
      }),
    ]
    // The first hint says that the connection is there.
    await vi.waitFor(() => expect(Math.min(heard.one, heard.two)).toBe(1), patience)
    expect(await listening()).toHaveLength(1)
    await admin.query(`notify ${two}`)
    await vi.waitFor(() => expect(heard).toEqual({ one: 1, two: 2 }), patience)

    const [pid] = await listening()
    await admin.query('select pg_terminate_backend($1)', [pid])
    await vi.waitFor(() => expect(heard).toEqual({ one: 2, two: 3 }), patience)
    for (const end of ends) await end()
    await vi.waitFor(async () => expect(await listening()).toEqual([]), patience)
    process.off('warning', warn)
    // Such as that the connection was asked while it was busy.
    expect(warnings).toEqual([])
  },
)

test.skipIf(!url)('a source follows its channel until it is closed', async () => {
  const source = sqlSource({
    driver: 'postgres',
    url: url as string,
    query: 'select 1 as id',
    wakeOn: one,
  })
  let heard = 0
  source.follow?.(() => {
    heard += 1
  })
  await vi.waitFor(() => expect(heard).toBe(1), patience)
  await admin.query(`notify ${one}`)
  await vi.waitFor(() => expect(heard).toBe(2), patience)
  await source.close()
  await vi.waitFor(async () => expect(await listening()).toEqual([]), patience)
})

test('a server that is away throws nothing', async () => {
  const end = followPostgres('postgres://x@127.0.0.1:1/none', one, () => undefined)
  await end()
})
