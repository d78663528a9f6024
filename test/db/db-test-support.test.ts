import { sql } from 'kysely'
import { afterAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openTestDatabase, truncateAll } from '../support/database.ts'

const database: Database = await openTestDatabase()
afterAll(() => database.close())

test('truncateAll empties the tables, the append-only ones too, and restores the seeds of the migrations', async () => {
  const { db } = database
  await db
    .insertInto('settings')
    .values({ name: 'a', value: 'b', updated_at: new Date() })
    .execute()
  await db.updateTable('activity_head').set({ seq: 7, hash: 'x' }).execute()
  await db
    .insertInto('activity_log')
    .values({
      seq: 1,
      id: crypto.randomUUID(),
      client_name: null,
      ip_address: null,
      action: 'test',
      resource_type: 'test',
      resource_id: null,
      status: 'success',
      error_message: null,
      metadata: '{}',
      duration_ms: 0,
      created_at: new Date(),
      key_id: 'k',
      previous_hash: '',
      hash: 'h',
    })
    .execute()
  await truncateAll(database)
  expect(await db.selectFrom('settings').selectAll().execute()).toEqual([])
  expect(await db.selectFrom('activity_log').selectAll().execute()).toEqual([])
  expect(await db.selectFrom('activity_head').selectAll().execute()).toEqual([
    { one: true, seq: 0, hash: '' },
  ])
})

test('after truncateAll the append-only tables refuse again', async () => {
  await truncateAll(database)
  const truncate = sql`truncate activity_log`.execute(database.db)
  await expect(truncate).rejects.toMatchObject({ code: '23001' })
})
