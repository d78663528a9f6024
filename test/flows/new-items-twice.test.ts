import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { lockItems, upsertHashes } from '../../src/repositories/flows/flow-items.ts'
import { needsPostgres, openTestDatabase, postgresUrl } from '../support/database.ts'
import { latch } from './deliver-support.ts'

/** A new item has no row to lock, so two reads may find it new together. */
let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const flow = 'articles'
const at = new Date('2026-11-22T10:00:00Z')
const store = (pk: string, hash: string, read: number) =>
  database.transaction((trx) => upsertHashes(trx, flow, [{ pk, hash }], { read, at }))
const rowOf = (pk: string) =>
  database.db
    .selectFrom('flow_items')
    .select(['hash', 'seen_as', 'read_number'])
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .executeTakeFirst()

test('the same content that another process stored since the comparison is no change of this one', async () => {
  expect(await store('a', 'h:1', 5)).toEqual({ ours: new Set(['a']), same: new Set() })
  expect(await store('a', 'h:1', 7)).toEqual({ ours: new Set(), same: new Set(['a']) })
  // The result of a read that began between the two is not stored.
  expect(await store('a', 'h:0', 6)).toEqual({ ours: new Set(), same: new Set() })
  expect(await rowOf('a')).toMatchObject({ hash: 'h:1', read_number: 7 })
  expect(await store('a', 'h:2', 8)).toEqual({ ours: new Set(['a']), same: new Set() })
  expect(await rowOf('a')).toMatchObject({ hash: 'h:2', seen_as: null })
})

test.skipIf(!postgresUrl)(
  `when two reads find a new item at once only one makes it a change${postgresUrl ? '' : ` (${needsPostgres})`}`,
  async () => {
    const [found, done] = [latch(), latch()]
    const first = database.transaction(async (trx) => {
      const stored = await upsertHashes(trx, flow, [{ pk: 'b', hash: 'h:1' }], { read: 1, at })
      found.open()
      await done.opened
      return stored
    })
    await found.opened
    const second = database.transaction(async (trx) => {
      expect(await lockItems(trx, flow, ['b'])).toEqual(new Map())
      done.open()
      return upsertHashes(trx, flow, [{ pk: 'b', hash: 'h:1' }], { read: 2, at })
    })
    expect(await first).toEqual({ ours: new Set(['b']), same: new Set() })
    expect(await second).toEqual({ ours: new Set(), same: new Set(['b']) })
  },
)
