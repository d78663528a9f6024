import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { analyzeTables } from '../../src/db/analyze-tables.ts'
import type { Database } from '../../src/db/database.ts'
import { needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'

describe.skipIf(!postgresUrl)(`tables of PostgreSQL (${needsPostgres})`, () => {
  let database: Database
  beforeEach(async () => {
    ;({ database } = await openPostgresClone(postgresUrl ?? ''))
    // The server would analyze it by itself.
    await sql`alter table flow_items set (autovacuum_enabled = off)`.execute(database.db)
    await database.db.connection().execute(async (db) => {
      await sql`
        create schema erp;
        create table erp.items with (autovacuum_enabled = off) as select generate_series(1, 900) as n;
        select pg_stat_force_next_flush()`.execute(db)
    })
  })
  afterEach(() => database?.close())

  /** On one connection, which then publishes what it counted. */
  const addItems = (flow: string, count: number) =>
    database.db.connection().execute(async (db) => {
      await sql`
        insert into flow_items (flow, pk, hash, changed_at)
        select ${flow}, n::text, 'h2:x', now() from generate_series(1, ${count}::int) as n`.execute(
        db,
      )
      await sql`select pg_stat_force_next_flush()`.execute(db)
    })

  /** -1 without statistics. */
  const counted = async (table: string) => {
    const { rows } = await sql<{ n: number }>`
      select reltuples::int as n from pg_class where oid = ${table}::regclass`.execute(database.db)
    return rows[0]?.n
  }

  test('one that grows beyond 200 rows is analyzed once, and all such after a migration', async () => {
    await addItems('a', 200)
    await analyzeTables(database, 'never analyzed')
    expect(await counted('flow_items')).toBe(-1)

    await addItems('b', 1)
    await analyzeTables(database, 'never analyzed')
    expect([await counted('flow_items'), await counted('orders')]).toEqual([201, -1])

    await addItems('c', 5_000)
    await analyzeTables(database, 'never analyzed')
    expect(await counted('flow_items')).toBe(201)

    await analyzeTables(database, 'all')
    // An empty table is not marked as analyzed.
    expect([await counted('flow_items'), await counted('orders')]).toEqual([5_201, -1])
    expect(await counted('erp.items')).toBe(-1)
  })

  test('a tenth of the usual sample is read, since it delays an import', async () => {
    await addItems('e', 5_000)
    await analyzeTables(database, 'all')
    const { rows } = await sql<{ bounds: number }>`
      select array_length(histogram_bounds::text::text[], 1) as bounds from pg_stats
      where tablename = 'flow_items' and attname = 'pk'`.execute(database.db)
    expect(rows).toEqual([{ bounds: 11 }])
  })

  test('one that belongs to another role is left alone', async () => {
    await addItems('d', 300)
    const maintenance = vi.fn()
    const undone = new Error('rolled back, with its role')
    const work = database.db.transaction().execute(async (trx) => {
      await sql`create role tillbridge_stranger; set local role tillbridge_stranger`.execute(trx)
      await analyzeTables({ db: trx, maintenance }, 'all')
      throw undone
    })
    await expect(work).rejects.toBe(undone)
    expect(maintenance).not.toHaveBeenCalled()
    await analyzeTables({ db: database.db, maintenance }, 'all')
    expect(maintenance).toHaveBeenCalled()
  })
})
