import { sql } from 'kysely'
import type { Db } from '../db/database.ts'

/** A table that is copied, and the columns that are written; generated ones are not. */
export type CopiedTable = { name: string; columns: string[] }

/** The last number that an identity column gave. */
export type SequencePosition = { name: string; value: string }

/** Tables without data of ours: the copy itself lists the applied migrations. */
const bookkeeping = ['kysely_migration', 'kysely_migration_lock']

/**
 * All tables of the schema from the catalog, so that none can be forgotten; referenced tables come first. A table may
 * refer to itself: see `listSelfReferences`.
 *
 * @throws when tables refer to each other in a circle: no order of rows would work then.
 */
export async function listTables(db: Db): Promise<CopiedTable[]> {
  const tables = await sql<CopiedTable>`
    select relname::text as name, (
      select array_agg(attname::text order by attnum) from pg_attribute
      where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = ''
    ) as columns
    from pg_class c
    where relnamespace = current_schema()::regnamespace and relkind = 'r'
      and relname::text <> all(${bookkeeping}::text[])
      and not exists (select from pg_depend where objid = c.oid and deptype = 'e')
    order by relname::text collate "C"`.execute(db)
  const references = await sql<{ source: string; target: string }>`
    select s.relname::text as source, t.relname::text as target
    from pg_constraint join pg_class s on s.oid = conrelid join pg_class t on t.oid = confrelid
    where contype = 'f' and connamespace = current_schema()::regnamespace`.execute(db)
  const left = new Map(tables.rows.map((table) => [table.name, table]))
  const ordered: CopiedTable[] = []
  while (left.size > 0) {
    const free = [...left.values()].filter(
      ({ name }) =>
        !references.rows.some(
          ({ source, target }) => source === name && target !== name && left.has(target),
        ),
    )
    if (free.length === 0) {
      throw new Error(`these tables refer to each other in a circle: ${[...left.keys()]}`)
    }
    for (const table of free) {
      ordered.push(table)
      left.delete(table.name)
    }
  }
  return ordered
}

/** Foreign keys of tables to themselves: their rows come in any order, so they are checked after the last one. */
export async function listSelfReferences(db: Db): Promise<{ table: string; name: string }[]> {
  const { rows } = await sql<{ table: string; name: string }>`
    select relname::text as table, conname::text as name
    from pg_constraint join pg_class on pg_class.oid = conrelid
    where contype = 'f' and conrelid = confrelid and connamespace = current_schema()::regnamespace
    order by 1, 2`.execute(db)
  return rows
}

/** The migrations that made the tables, in their order; none when the database has never been migrated. */
export async function readMigrationLevel(db: Db): Promise<string[]> {
  const { rows: found } = await sql<{ isThere: boolean }>`
    select to_regclass('kysely_migration') is not null as "isThere"`.execute(db)
  if (found[0]?.isThere !== true) return []
  const { rows } = await sql<{ name: string }>`
    select name from kysely_migration order by name collate "C"`.execute(db)
  return rows.map(({ name }) => name)
}

/** Read after the rows: a sequence is then never behind a row that was read. */
export async function readSequences(db: Db): Promise<SequencePosition[]> {
  const { rows } = await sql<SequencePosition>`
    select sequencename::text as name, last_value::text as value from pg_sequences
    where schemaname = current_schema() and last_value is not null
    order by sequencename::text collate "C"`.execute(db)
  return rows
}

export async function setSequence(db: Db, { name, value }: SequencePosition): Promise<void> {
  await sql`select setval(${sql.lit(`"${name}"`)}::regclass, ${value}::bigint)`.execute(db)
}
