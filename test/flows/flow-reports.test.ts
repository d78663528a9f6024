import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { createCachedCount } from '../../src/domain/cached-count.ts'
import { countItemsByFlow } from '../../src/repositories/flows/flow-items.ts'
import {
  insertPoll,
  readLatestPolls,
  sumChangesSince,
} from '../../src/repositories/flows/flow-polls.ts'
import { openTestDatabase } from '../support/database.ts'

let database: Database

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const now = new Date('2026-11-21T15:00:00Z')
const hourMs = 3_600_000

async function poll(
  flow: string,
  fields: Partial<Parameters<typeof insertPoll>[1]> = {},
  times = 1,
) {
  const record = { flow, startedAt: now, durationMs: 5, rowsRead: 1, changes: 0, items: null }
  await database.transaction(async (trx) => {
    for (let count = 0; count < times; count += 1) {
      await insertPoll(
        trx,
        { ...record, kind: 'full', why: null, ...fields },
        { last_poll_at: now },
      )
    }
  })
}

test('the latest polls of each flow: durations oldest first, and whether the last one failed', async () => {
  for (const durationMs of [1, 2, 3]) await poll('a', { durationMs })
  await poll('b', { durationMs: 7 })
  await poll('b', { durationMs: 9, why: { code: 'POLL_FAILED' } })
  await poll('not asked for')
  const latest = await readLatestPolls(database.db, ['a', 'b', 'never polled'], 2)
  expect(Object.fromEntries(latest)).toEqual({
    a: { durations: [2, 3], error: null, why: null },
    b: { durations: [7], error: 'the poll failed; see the log', why: { code: 'POLL_FAILED' } },
  })
  await poll('b', { durationMs: 4 })
  expect((await readLatestPolls(database.db, ['b'], 2)).get('b')?.error).toBeNull()
})

test('changes are counted over a whole day, however often the flow polls', async () => {
  const old = new Date(now.getTime() - 26 * hourMs)
  const thisMorning = new Date(now.getTime() - 9 * hourMs)
  for (const [at, changes] of [
    [old, 1_000],
    [thisMorning, 3],
  ] as const) {
    await poll('busy', { startedAt: at, changes })
  }
  await sql`
    insert into flow_polls (flow, kind, started_at, duration_ms, rows_read, changes)
    select 'busy', 'full', ${now}, 5, 1, 0 from generate_series(1, 1500)`.execute(database.db)
  // Old ones are forgotten with every hundredth poll.
  await poll('busy', {}, 100)
  const { rows } = await sql<{ count: number; oldest: Date }>`
    select count(*) as count, min(started_at) as oldest
    from flow_polls where flow = 'busy'`.execute(database.db)
  expect(rows[0]?.count).toBeLessThanOrEqual(1_100)
  expect(rows[0]?.oldest).toEqual(thisMorning)
  const startOfDay = new Date(now.getTime() - 15 * hourMs)
  expect((await sumChangesSince(database.db, startOfDay)).get('busy')).toBe(3)
})

test('items are counted by flow', async () => {
  await sql`
    insert into flow_items (flow, pk, hash, changed_at)
    select 'flow' || n % 2, n::text, 'x', ${now} from generate_series(1, 5) n`.execute(database.db)
  expect(Object.fromEntries(await countItemsByFlow(database.db))).toEqual({ flow0: 2, flow1: 3 })
})

/** A count that takes a second of a clock by hand. */
function dearCount(rows: number) {
  let clockMs = 0
  let counted = 0
  const read = createCachedCount(
    async () => {
      counted += 1
      clockMs += 1_000
      return { value: counted, rows }
    },
    () => clockMs,
  )
  const pass = (ms: number) => {
    clockMs += ms
  }
  return { read, pass }
}

test('a small table is counted at each request', async () => {
  const { read } = dearCount(10_000)
  expect([await read(), await read(), await read()]).toEqual([1, 2, 3])
})

test('a large table is counted again only after fifty times the time of the count', async () => {
  const { read, pass } = dearCount(10_001)
  expect([await read(), await read()]).toEqual([1, 1])
  pass(49_999)
  expect(await read()).toBe(1)
  pass(1)
  expect(await Promise.all([read(), read(), read()])).toEqual([2, 2, 2])
  expect(await read()).toBe(2)
})

test('a slow count that failed is repeated at the next request', async () => {
  let clockMs = 0
  let fails = false
  const read = createCachedCount(
    async () => {
      clockMs += 10
      if (fails) throw new Error('no database')
      return { value: 'counted', rows: 20_000 }
    },
    () => clockMs,
  )
  await read()
  clockMs += 10_000
  fails = true
  await expect(read()).rejects.toThrow('no database')
  fails = false
  expect(await read()).toBe('counted')
})

test('old polls are removed also for a flow that always polls after another one', async () => {
  await sql`
    insert into flow_polls (flow, kind, started_at, duration_ms, rows_read, changes)
    select 'second', 'full', ${now}, 5, 1, 0 from generate_series(1, 1200)`.execute(database.db)
  // The numbers of polls are given to all flows together: the second one gets those that are no hundredth.
  await sql`
    select setval(pg_get_serial_sequence('flow_polls', 'id'), 1000000 + 99)`.execute(database.db)
  for (let round = 0; round < 100; round += 1) {
    await poll('first')
    await poll('second')
  }
  const { rows } = await sql<{ flow: string; count: number }>`
    select flow, count(*) as count from flow_polls
    where flow in ('first', 'second') group by flow order by flow`.execute(database.db)
  expect(rows).toEqual([
    { flow: 'first', count: 100 },
    { flow: 'second', count: 1_000 },
  ])
})
