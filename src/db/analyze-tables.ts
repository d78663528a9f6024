import { sql } from 'kysely'
import type { Database } from './database.ts'

/** Below, it hardly matters how the rows are found. */
const fewRows = 200

/**
 * Analyzes the tables of more than 200 rows: all of them after a migration, which may have added columns and indexes,
 * else those that were never analyzed. Autovacuum comes a minute after a table begins to grow; until then the planner
 * expects few rows, and prepared statements keep such plans. A table that was analyzed once is left to autovacuum.
 */
export async function analyzeTables(
  database: Pick<Database, 'db' | 'maintenance'>,
  which: 'all' | 'never analyzed',
  signal?: AbortSignal,
): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select s.relid::regclass::text as name
    from pg_stat_user_tables s join pg_class c on c.oid = s.relid
    where s.schemaname = current_schema() and pg_has_role(c.relowner, 'usage')
      and s.n_live_tup > ${fewRows}
      and (${which === 'all'} or (s.last_analyze is null and s.last_autoanalyze is null))
    order by name`.execute(database.db)
  if (rows.length === 0) return
  await database.maintenance(async (db) => {
    for (const { name } of rows) {
      if (signal?.aborted) return
      await db.transaction().execute(async (trx) => {
        // A tenth of the usual sample finds the same plans. During an import the whole one takes a tenth of its processor time.
        await sql`set local default_statistics_target = 10`.execute(trx)
        // Quoted by the database itself. A table that another process analyzes now is skipped.
        await sql.raw(`analyze (skip_locked) ${name}`).execute(trx)
      })
    }
  })
}
