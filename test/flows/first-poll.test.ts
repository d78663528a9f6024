import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { syncItem } from '../../src/flows/control/sync-item.ts'
import { recordChanges, recordNewItems } from '../../src/repositories/flows/deliveries.ts'
import { findHashes } from '../../src/repositories/flows/flow-items.ts'
import { openEmbedded, openTestDatabase } from '../support/database.ts'
import { countStatements } from '../support/statements.ts'
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

test('an item that is stored while a first poll is about to write it is sent once, and so are the others', async () => {
  const poll = await createTestPoll(database, { now })
  poll.rows = [
    [
      { id: 'a', v: 1 },
      { id: 'b', v: 1 },
    ],
    [{ id: 'c', v: 1 }],
  ]
  poll.runtime.source.readItem = async () => [{ id: 'b', v: 1 }]
  const deps = { ...poll.deps }
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

test('a delivery recorded before a first poll writes its item, as by another process, is queued again', async () => {
  const poll = await createTestPoll(database, { now })
  const to = { flow: poll.name, destinations: ['web'], keepsHistory: true }
  const changes = (v: number) => [
    { pk: 'b', kind: 'upsert' as const, hash: `h-${v}`, value: { v }, change: v },
  ]
  poll.deps.enqueue = (trx, _runtime, changes, { areNew } = {}) =>
    (areNew ? recordNewItems : recordChanges)(trx, to, changes, now())
  beforeFirstWrite(poll, () =>
    database.transaction((trx) => recordChanges(trx, to, changes(1), now())),
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

test('a first poll fails when its write fails for a reason other than existing rows', async () => {
  const poll = await createTestPoll(database, { now })
  poll.rows = [[{ id: 'a', v: 1 }]]
  const writes = beforeFirstWrite(poll, () => Promise.reject(new Error('no disk')))
  await expect(poll.poll()).rejects.toThrow('no disk')
  // And the note that it failed.
  expect(writes()).toBe(2)
})

test('a first poll writes the same rows as any other, without reading existing ones', async () => {
  const keep = async (before: (name: string) => Promise<unknown>) => {
    const poll = await createTestPoll(database, { now })
    await before(poll.name)
    const to = { flow: poll.name, destinations: ['shop', 'web'], keepsHistory: true }
    poll.deps.enqueue = (trx, _runtime, changes, { areNew } = {}) =>
      (areNew ? recordNewItems : recordChanges)(trx, to, changes, at)
    poll.deps.now = () => at
    poll.rows = [
      [
        { id: 'ñ', v: 1, text: 'x'.repeat(70_000) },
        { id: 'a', v: 'it\'s "5\u20ac"', n: null },
      ],
      [{ id: 'B', v: 12.5 }],
    ]
    const statements = await countStatements(() => poll.poll())
    const rowsOf = async (table: 'flow_items' | 'deliveries' | 'item_versions') => {
      const rows = await database.db
        .selectFrom(table)
        .selectAll()
        .where('flow', '=', poll.name)
        .orderBy('pk')
        .execute()
      return rows
        .filter(({ pk }) => pk !== 'old')
        .map((row) => ({ ...row, flow: '', id: 0, change_number: 0, read_number: 0 }))
    }
    const left = [
      await rowsOf('flow_items'),
      await rowsOf('deliveries'),
      await rowsOf('item_versions'),
    ]
    const lookups = statements.filter((text) => /= any\(|lateral/.test(text))
    return { left, lookups }
  }
  const at = new Date()
  const first = await keep(async () => undefined)
  const other = await keep(async (flow) => {
    const values = { flow, pk: 'old', seen_at: at, kind: 'upsert' as const, hash: 'h' }
    await database.db.insertInto('item_versions').values(values).execute()
  })
  expect(first.left.map((rows) => rows.length)).toEqual([3, 6, 3])
  expect(first.left).toEqual(other.left)
  expect(first.lookups).toEqual([])
  expect(other.lookups.length).toBeGreaterThan(0)
})

test.each([
  ['new items', recordNewItems, 1_500],
  ['new items', recordNewItems, 500],
  ['changes', recordChanges, 1_500],
  ['changes', recordChanges, 500],
])(
  '%s, also more than one statement takes (%#), are written in the order of their keys',
  async (_, record, count) => {
    const embedded = await openEmbedded()
    try {
      const keys = Array.from({ length: count }, (_one, n) =>
        String((n * 7) % count).padStart(4, '0'),
      )
      const changes = keys.map((pk) => ({
        ...{ pk, kind: 'upsert' as const, hash: 'h', value: {}, change: 1 },
      }))
      const to = { flow: 'ordered', destinations: ['web'], keepsHistory: false }
      await embedded.transaction((trx) => record(trx, to, changes, now()))
      const { rows } = await sql<{ pk: string }>`
      select pk from deliveries where flow = 'ordered' order by ctid`.execute(embedded.db)
      expect(rows.map(({ pk }) => pk)).toEqual(keys.toSorted())
    } finally {
      await embedded.close()
    }
  },
)
