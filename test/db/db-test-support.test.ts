/** @module-tag long */

import { PGlite } from '@electric-sql/pglite'
import { sql } from 'kysely'
import { afterAll, expect, test } from 'vitest'
import { type Database, notify } from '../../src/db/database.ts'
import { openEmbedded, openTestDatabase, truncateAll } from '../support/database.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'
import { countStatements } from '../support/statements.ts'
import { schemaOf } from '../support/worker-database.ts'

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
      mac: 'h',
    })
    .execute()
  await truncateAll(database)
  expect(await db.selectFrom('settings').selectAll().execute()).toEqual([])
  expect(await db.selectFrom('activity_log').selectAll().execute()).toEqual([])
  expect(await db.selectFrom('activity_head').selectAll().execute()).toEqual([
    { one: true, start_seq: 0, start_hash: '', lost_seq: 0, seq: 0, hash: '', mac: null },
  ])
})

test('after truncateAll the append-only tables refuse again', async () => {
  await truncateAll(database)
  const truncate = sql`truncate activity_log`.execute(database.db)
  await expect(truncate).rejects.toMatchObject({ code: '23001' })
})

test('an embedded database that is used again has no row, no setting and no listener of before', async () => {
  const before = await openEmbedded()
  const { db } = before
  const received: string[] = []
  await before.listen('channel', (payload) => received.push(payload))
  await sql`insert into settings (name, value, updated_at) values ('a', 'b', now())`.execute(db)
  await sql`update activity_head set seq = 7`.execute(db)
  await sql`select nextval(pg_get_serial_sequence('activity_log', 'seq'))`.execute(db)
  await sql`set statement_timeout = 12345`.execute(db)
  await sql`select pg_advisory_lock(1)`.execute(db)
  await before.close()
  const after = await openEmbedded()
  await after.transaction((trx) => notify(trx, 'channel', 'hello'))
  const { rows } = await sql`
    select (select count(*) from settings) as settings, (select seq from activity_head),
      current_setting('statement_timeout') as timeout,
      nextval(pg_get_serial_sequence('activity_log', 'seq')) as next,
      (select count(*) from pg_locks where locktype = 'advisory') as locks`.execute(after.db)
  expect(rows).toEqual([{ settings: 0, seq: 0, timeout: '0', next: 1, locks: 0 }])
  expect(received).toEqual([])
  await after.close()
  await expect(sql`select 1`.execute(db)).rejects.toThrow('closed')
})

test('statements stay prepared when the embedded database is used again, and are recorded', async () => {
  const ask = (db: Database['db']) => sql`select ${1}::int as prepared_before`.execute(db)
  const before = await openEmbedded()
  for (let times = 0; times < 4; times += 1) await ask(before.db)
  await before.close()
  const after = await openEmbedded()
  const { rows } = await sql<{ count: number }>`select count(*)::int from pg_prepared_statements
    where statement like '%prepared_before' and statement not like '%pg_prepared%'`.execute(
    after.db,
  )
  expect(rows).toEqual([{ count: 1 }])
  expect(await countStatements(() => ask(after.db))).toEqual(['select $1::int as prepared_before'])
  await after.close()
})

test('an embedded database with a changed schema is not used again', async () => {
  const before = await openEmbedded()
  await sql`create table more (id int)`.execute(before.db)
  await before.close()
  const after = await openEmbedded()
  const { rows } = await sql`select to_regclass('more') as more`.execute(after.db)
  expect(rows).toEqual([{ more: null }])
  await after.close()
})

test('columns, functions, triggers, indexes, tables and names count as the schema, rows do not', async () => {
  const pglite = await PGlite.create({ loadDataDir: await pgliteTemplate() })
  const seen = new Set([await schemaOf(pglite)])
  await pglite.exec(`insert into settings (name, value, updated_at) values ('a', 'b', now());
    truncate clients cascade`)
  await pglite.exec('vacuum analyze settings')
  seen.add(await schemaOf(pglite))
  expect(seen.size).toBe(1)
  const changes = [
    'alter table settings add column more text',
    'alter table settings alter column more set default 1',
    'create function twice(n int) returns int language sql as $$ select 2 * n $$',
    'alter table activity_log disable trigger all',
    'alter table pos drop constraint pos_client_fkey',
    'drop index deliveries_failed',
    'create table more (id int)',
    'alter table orders rename to orders_away',
  ]
  for (const [at, change] of changes.entries()) {
    await pglite.exec(change)
    seen.add(await schemaOf(pglite))
    expect(seen.size, change).toBe(at + 2)
  }
  await pglite.close()
})
