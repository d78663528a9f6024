import { randomBytes } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { inject } from 'vitest'
import type { Database, Db, Trx } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { cloneTemplate, dropDatabase, urlOf } from './postgres-template.ts'
import { borrowDatabase } from './worker-database.ts'

/** The server for the tests that need PostgreSQL; without it they are skipped. */
export const postgresUrl: string | undefined = process.env.TEST_DATABASE_URL || undefined

/** What `test.skipIf` tests of PostgreSQL carry in their name. */
export const needsPostgres = 'needs TEST_DATABASE_URL'

/**
 * A migrated database without rows for a test file: a new one on PostgreSQL when TEST_DATABASE_URL is set, else the
 * embedded one of the worker. Close it in `afterAll`; that also drops or empties it.
 */
export async function openTestDatabase(): Promise<Database> {
  return postgresUrl ? (await openPostgresClone(postgresUrl)).database : await openEmbedded()
}

/** The embedded database, whatever TEST_DATABASE_URL says. */
export async function openEmbedded(): Promise<Database> {
  const database = await borrowDatabase()
  // Whoever borrows gets the same rows.
  seedsOfWorker ??= await readRows(database)
  seedsOf.set(database, seedsOfWorker)
  return database
}

let seedsOfWorker: Rows | undefined

/** For a database that a test makes itself: one of this run, so that no other run takes it for a leftover and drops it. */
export function nameInRun(what: string): string {
  return `${inject('postgresTemplate')}_${what}_${randomBytes(4).toString('hex')}`
}

export type PostgresClone = { database: Database; url: string }

/**
 * As openTestDatabase on the given server, with the address, for tests that want a second connection.
 */
export async function openPostgresClone(serverUrl: string): Promise<PostgresClone> {
  const template = inject('postgresTemplate')
  if (!template) throw new Error('Run vitest with --config test/vitest.config.ts')
  const name = await cloneTemplate(serverUrl, template)
  const url = urlOf(serverUrl, name)
  const database = await openDatabase({ databaseUrl: url })
  const close = async () => {
    await database.close()
    await dropDatabase(serverUrl, name)
  }
  return { url, database: await rememberSeeds({ ...database, close }) }
}

/** The rows of every table; null for an empty one. */
type Rows = { table: string; rows: string | null }[]
/** What the migrations themselves insert. */
const seedsOf = new WeakMap<Database, Rows>()

/** Empties every table and puts back the rows that the migrations themselves insert, as after openTestDatabase. */
export async function truncateAll(database: Database): Promise<void> {
  const seeds = seedsOf.get(database)
  if (!seeds) throw new Error('truncateAll is for databases of openTestDatabase')
  await replaceRows(database, seeds, 'restart identity')
}

/**
 * Copies every table, and returns what puts them back as they were: a backup that is restored. Identity columns go on
 * counting. Whoever uses the database meanwhile sees one change from new to old.
 */
export async function backUp(database: Database): Promise<() => Promise<void>> {
  const rows = await readRows(database)
  return () => replaceRows(database, rows, 'continue identity')
}

async function replaceRows(
  database: Database,
  rows: Rows,
  identity: 'restart identity' | 'continue identity',
): Promise<void> {
  await database.transaction(async (trx) => {
    const names = rows.map(({ table }) => table)
    await sql.raw(`lock table ${names.join(', ')} in access exclusive mode`).execute(trx)
    // Neither triggers that forbid it nor references: what is put back was right when it was read.
    await sql`set local session_replication_role = replica`.execute(trx)
    const filled = await sql<{ table: string }>`
      select name as table from unnest(${names}::text[]) as name
      where pg_relation_size(name::regclass) > 0`.execute(trx)
    for (const { table } of filled.rows) await sql.raw(`delete from ${table}`).execute(trx)
    for (const { table, rows: saved } of rows) {
      if (saved === null) continue
      const target = sql.raw(table)
      const columns = await givenColumns(trx, table)
      await sql`insert into ${target} (${columns}) overriding system value
        select ${columns} from jsonb_populate_recordset(null::${target}, ${saved}::jsonb)`.execute(
        trx,
      )
    }
    if (identity === 'restart identity') {
      await sql`select setval(seqrelid::regclass, seqstart, false) from pg_sequence`.execute(trx)
    }
  })
}

/** The columns of a table that an insert gives: not those that the database derives from others. */
export async function givenColumns(db: Db | Trx, table: string): Promise<RawBuilder<unknown>> {
  const { rows } = await sql<{ name: string }>`
    select attname as name from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attgenerated = ''
    order by attnum`.execute(db)
  return sql.join(rows.map(({ name }) => sql.id(name)))
}

async function rememberSeeds(database: Database): Promise<Database> {
  seedsOf.set(database, await readRows(database))
  return database
}

async function readRows(database: Database): Promise<Rows> {
  const tables = await sql<{ name: string }>`
    select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname = 'public' and not starts_with(tablename, 'kysely_')`.execute(database.db)
  const parts = tables.rows.map(
    ({ name }) =>
      sql`select ${name} as table, (select jsonb_agg(to_jsonb(t)) from ${sql.raw(name)} t)::text as rows`,
  )
  // One statement, so that all tables are of one moment.
  const all = await sql<Rows[number]>`${sql.join(parts, sql` union all `)}`.execute(database.db)
  return all.rows
}
