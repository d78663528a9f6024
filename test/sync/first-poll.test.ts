import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { recordChanges } from '../../src/repositories/deliveries.ts'
import { findHashes } from '../../src/repositories/flow-items.ts'
import { syncItem } from '../../src/sync/engine/sync-item.ts'
import { openTestDatabase } from '../support/database.ts'
import { createTestPoll, type TestPoll } from './poll-support.ts'

const now = () => new Date()
let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

/** What the first poll writes is tried with this before; answers how often something was written. */
function beforeFirstWrite(poll: TestPoll, before: () => Promise<unknown>): () => number {
  let writes = 0
  poll.beforeBatch = () => {
    poll.beforeBatch = () => undefined
    poll.deps.database = {
      ...database,
      transaction: async (work) => {
        writes += 1
        if (writes === 1) await before()
        return database.transaction(work)
      },
    }
  }
  return () => writes
}

test('what somebody stores while a first poll is about to write it is sent once, and so is the rest', async () => {
  const poll = await createTestPoll(database, { now })
  poll.rows = [
    [
      { id: 'a', v: 1 },
      { id: 'b', v: 1 },
    ],
    [{ id: 'c', v: 1 }],
  ]
  poll.runtime.source.readItem = async () => [{ id: 'b', v: 1 }]
  const deps = { ...poll.deps, retryItem: async () => 0 }
  const writes = beforeFirstWrite(poll, () => syncItem(deps, poll.runtime, 'b'))
  expect(await poll.poll()).toMatchObject({ rowsRead: 3, changes: 2 })
  expect(poll.enqueued.map(({ pk }) => pk).sort()).toEqual(['a', 'b', 'c'])
  // The first batch twice, the second, and the end.
  expect(writes()).toBe(4)
  expect([...(await findHashes(database.db, poll.name, ['a', 'b', 'c'])).keys()].sort()).toEqual([
    'a',
    'b',
    'c',
  ])
})

test('a first poll of a flow that owes something already, as after a restored backup, owes it anew', async () => {
  const poll = await createTestPoll(database, { now })
  const to = { flow: poll.name, destinations: ['web'], keepsHistory: true }
  const owed = (v: number) => [
    { pk: 'b', kind: 'upsert' as const, hash: `h-${v}`, payload: { v }, change: v },
  ]
  await database.transaction((trx) => recordChanges(trx, to, owed(1), now()))
  poll.deps.enqueue = (trx, _runtime, changes, owing) =>
    recordChanges(
      trx,
      { ...to, ...owing },
      changes.map(({ value, ...change }) => ({ ...change, payload: value })),
      now(),
    )
  poll.rows = [['a', 'b', 'c'].map((id) => ({ id, v: 2 }))]
  expect(await poll.poll()).toMatchObject({ rowsRead: 3, changes: 3 })
  const rows = await database.db
    .selectFrom('deliveries')
    .select(['pk', 'version', 'state'])
    .where('flow', '=', poll.name)
    .orderBy('pk')
    .execute()
  expect(rows).toEqual([
    { pk: 'a', version: 1, state: 'waiting' },
    { pk: 'b', version: 2, state: 'waiting' },
    { pk: 'c', version: 1, state: 'waiting' },
  ])
})

test('a first poll that fails for another reason than what is there is a failed poll', async () => {
  const poll = await createTestPoll(database, { now })
  poll.rows = [[{ id: 'a', v: 1 }]]
  const writes = beforeFirstWrite(poll, () => Promise.reject(new Error('no disk')))
  await expect(poll.poll()).rejects.toThrow('no disk')
  // And the note that it failed.
  expect(writes()).toBe(2)
})
