import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { createTableMaintenance } from '../../src/jobs/table-maintenance-job.ts'
import { takeLease } from '../../src/repositories/leases.ts'
import { needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'

let database: Database
beforeAll(async () => {
  if (postgresUrl) ({ database } = await openPostgresClone(postgresUrl))
  else process.stdout.write(`skipped: ${needsPostgres}\n`)
})
afterAll(async () => {
  await database?.close()
})

const now = () => new Date()
const sleep = async () => undefined
const careOf = (processId: string) =>
  createTableMaintenance({
    database,
    now,
    sleep,
    processId,
    log: { warn: () => undefined, error: () => undefined },
  })

async function addItems(flow: string, count: number): Promise<void> {
  await sql`
    insert into flow_items (flow, pk, hash, changed_at)
    select ${flow}, n::text, 'h2:x', now() from generate_series(1, ${count}::int) as n`.execute(
    database.db,
  )
}

/** The counters of a connection are published at the latest a second after its last statement. */
async function publish(): Promise<void> {
  await database.transaction((trx) => sql`select pg_stat_force_next_flush()`.execute(trx))
}

async function counted(table: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select reltuples::int as n from pg_class where oid = ${table}::regclass`.execute(database.db)
  return rows[0]?.n ?? Number.NaN
}

/** All connections of the pool publish what they know. */
async function settle(): Promise<void> {
  await Promise.all(Array.from({ length: 10 }, publish))
}

test.skipIf(!postgresUrl)(
  'tables that are filled or emptied are counted, by one process at a time, and cleaned where autovacuum does not',
  async () => {
    await sql`create table erp_items (n int)`.execute(database.db)
    await sql`insert into erp_items select generate_series(1, 5000)`.execute(database.db)
    await addItems('f', 150)
    await settle()
    expect(await careOf('a').maintain()).toEqual([])

    await addItems('g', 5_000)
    await settle()
    expect(await takeLease(database, { name: 'table-care', owner: 'b', now: now() })).toBeDefined()
    expect(await careOf('a').maintain()).toEqual([])
    expect(await counted('flow_items')).toBe(-1)
    await sql`delete from leases where owner = 'b'`.execute(database.db)

    expect(await careOf('a').maintain()).toEqual(['public.flow_items'])
    expect(await counted('flow_items')).toBe(5_150)
    // What is not the service's own is left alone.
    expect(await counted('erp_items')).toBe(-1)
    await settle()
    expect(await careOf('a').maintain()).toEqual([])

    const { rows } = await sql<{ autovacuum: string }>`show autovacuum`.execute(database.db)
    await sql`delete from flow_items where flow = 'g'`.execute(database.db)
    await settle()
    expect(await careOf('a').maintain()).toEqual(['public.flow_items'])
    if (rows[0]?.autovacuum !== 'off') return
    const dead = await sql<{ n: number }>`
    select n_dead_tup as n from pg_stat_user_tables where relname = 'flow_items'`.execute(
      database.db,
    )
    expect(dead.rows[0]?.n).toBe(0)
  },
)
