import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { syncItem } from '../../src/flows/control/sync-item.ts'
import { createItemReader } from '../../src/flows/item/item.ts'
import { createItemKeys } from '../../src/flows/item/key-set.ts'
import { createItemMemory } from '../../src/flows/poll/item-memory.ts'
import { resetItem } from '../../src/flows/poll/pauses-and-limits.ts'
import type { Term } from '../../src/jobs/leader.ts'
import { openTestDatabase } from '../support/database.ts'
import { countStatements } from '../support/statements.ts'
import { openTerm } from './deliver-support.ts'
import { createTestPoll, records, type TestPoll } from './poll-support.ts'

const now = () => new Date()
let database: Database
beforeAll(async () => {
  // Before the database is opened, so that nothing is missed.
  await countStatements(async () => undefined)
  database = await openTestDatabase()
})
afterAll(() => database.close())

type Remembering = TestPoll & { newTerm(): AbortController }

async function rememberingPoll({
  mostItems = 1_000,
  ...options
}: Partial<Parameters<typeof createTestPoll>[1]> & {
  mostItems?: number
} = {}): Promise<Remembering> {
  const poll = await createTestPoll(database, { now, ...options })
  let term: Term | undefined
  const newTerm = () => {
    const end = new AbortController()
    term = { ...openTerm, signal: end.signal }
    return end
  }
  newTerm()
  const current = () => (term?.signal.aborted ? undefined : term)
  poll.deps.memory = createItemMemory({ current }, { mostItems })
  return Object.assign(poll, { newTerm })
}

/** Keys that are looked up by the next poll, in statements. */
async function lookUps(poll: TestPoll): Promise<number> {
  const statements = await countStatements(() => poll.poll())
  return statements.filter((one) => /select "pk", coalesce\(seen_as/.test(one)).length
}

test('items that have not changed since the poll before need no look-up, and changes are found', async () => {
  const poll = await rememberingPoll({ flow: { deletes: { mode: 'delete' } } })
  poll.rows = [records(1, 30, { v: 1 })]
  expect(await poll.poll()).toMatchObject({ changes: 30 })
  expect(await lookUps(poll)).toBe(0)
  poll.rows = [[...records(1, 29, { v: 1 }), { id: '30', v: 2 }, { id: '31', v: 1 }]]
  poll.enqueued = []
  expect(await poll.poll()).toMatchObject({ changes: 2 })
  expect(poll.enqueued.slice(30).map(({ pk }) => pk)).toEqual(['30', '31'])
  // Back to the content before.
  poll.rows = [records(1, 31, { v: 1 })]
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  poll.rows = [records(2, 31, { v: 1 })]
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(poll.enqueued.at(-1)).toMatchObject({ pk: '1', kind: 'delete' })
  // It was forgotten with its delete.
  poll.rows = [records(1, 31, { v: 1 })]
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(poll.enqueued.at(-1)).toMatchObject({ pk: '1', kind: 'upsert' })
})

test('the few changes of many batches are written together', async () => {
  const poll = await rememberingPoll()
  const batches = (v: number) =>
    [0, 20, 40, 60, 80].map((from) => [
      ...records(from + 1, from + 19, { v: 1 }),
      { id: `${from + 20}`, v },
    ])
  poll.rows = batches(1)
  await poll.poll()
  poll.rows = batches(2)
  const statements = await countStatements(() => poll.poll())
  expect(poll.enqueued.slice(100).map(({ pk }) => pk)).toEqual(['20', '40', '60', '80', '100'])
  expect(statements.filter((one) => one.startsWith('insert into "flow_items"'))).toHaveLength(1)
})

test('an item whose record could not be read is deleted when the source loses it', async () => {
  const poll = await rememberingPoll({ flow: { deletes: { mode: 'delete' } } })
  poll.rows = [records(1, 12)]
  await poll.poll()
  poll.newTerm()
  poll.rows = [[...records(1, 11), { id: '12', v: Number.NaN }]]
  await poll.poll()
  poll.rows = [records(1, 11)]
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(poll.enqueued.at(-1)).toMatchObject({ pk: '12', kind: 'delete' })
})

test('an item that another process reset is sent by the next poll', async () => {
  const poll = await rememberingPoll()
  poll.rows = [records(1, 3)]
  await poll.poll()
  await resetItem({ database, now, audit: async () => undefined }, poll.name, '2', 'test')
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(poll.enqueued.at(-1)).toMatchObject({ pk: '2' })
})

test('what a promoted replica lacks is sent again, though this process remembers it', async () => {
  const poll = await rememberingPoll()
  poll.rows = [records(1, 3, { v: 1 })]
  await poll.poll()
  const { db } = database
  const tables = ['flow_items', 'flow_state'].map((name) => ({
    table: sql.table(name),
    copy: sql.table(`${name}_copy`),
  }))
  const isOfFlow = sql`flow = ${sql.lit(poll.name)}`
  for (const { table, copy } of tables) {
    await sql`create table ${copy} as select * from ${table} where ${isOfFlow}`.execute(db)
  }
  poll.rows = [records(1, 3, { v: 2 })]
  expect(await poll.poll()).toMatchObject({ changes: 3 })
  for (const { table, copy } of tables) {
    await sql`delete from ${table} where ${isOfFlow}`.execute(db)
    await sql`insert into ${table} select * from ${copy}`.execute(db)
  }
  expect(await poll.poll()).toMatchObject({ changes: 3 })
})

test('the end of the term ends what is remembered, and a limit bounds it', async () => {
  const poll = await rememberingPoll()
  poll.rows = [records(1, 3)]
  await poll.poll()
  expect(await lookUps(poll)).toBe(0)
  const end = poll.newTerm()
  expect(await lookUps(poll)).toBe(1)
  expect(await lookUps(poll)).toBe(0)
  end.abort()
  expect(await lookUps(poll)).toBe(1)

  const many = await rememberingPoll({ mostItems: 2 })
  many.rows = [records(1, 3)]
  await many.poll()
  expect(await lookUps(many)).toBe(1)
})

test('a cursor does not pass a change back that a sync of the item hides from the memory', async () => {
  const poll = await rememberingPoll({ cursor: { field: 'at', overlapMs: 0 } })
  const row = (v: number, at: string) => ({ id: '1', v, at: `2026-01-01T00:00:${at}Z` })
  poll.runtime.flow = {
    ...poll.runtime.flow,
    item: { ...poll.runtime.flow.item, hash: { ...poll.runtime.flow.item.hash, ignore: ['at'] } },
  }
  poll.runtime.read = createItemReader(poll.runtime.flow).read
  poll.rows = [[row(1, '01')]]
  await poll.poll()
  // During the poll a sync reads the item with other content, and the source gets the former one again.
  poll.runtime.source.readItem = async () => [row(2, '02')]
  poll.beforeBatch = async () => {
    poll.beforeBatch = () => undefined
    await syncItem(poll.deps, poll.runtime, '1')
  }
  poll.rows = [[row(1, '03')]]
  await poll.poll()
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(poll.enqueued.map(({ value }) => value.v)).toEqual([1, 2, 1])
  expect(poll.scans.at(-1)).toBe(poll.scans.at(-2))
})

test('the keys of items keep their content from read to read, and what a read has not found is known', {
  tags: ['long'],
}, () => {
  const keys = createItemKeys()
  const all = Array.from({ length: 20_000 }, (_, index) => `A-${index}`)
  const hashOf = (key: string) => `h2:${Buffer.from(key.repeat(8)).toString('base64url')}`
  for (const [index, key] of all.entries()) {
    expect(keys.add(key, index + 1)).toBe(true)
    keys.remember(key, hashOf(key))
  }
  keys.begin()
  expect(keys.size).toBe(0)
  expect(keys.has('A-7')).toBe(false)
  expect(all.every((key) => keys.isSame(key, hashOf(key)))).toBe(true)
  expect(all.some((key) => keys.isSame(key, hashOf(`${key}x`)))).toBe(false)
  expect(all.slice(1).every((key, index) => keys.add(key, index + 1))).toBe(true)
  expect(keys.countUnseen()).toBe(1)
  keys.forgetUnseen()
  expect(keys.countUnseen()).toBe(0)
  expect(keys.isSame('A-0', hashOf('A-0'))).toBe(false)
})
