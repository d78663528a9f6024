import { sql } from 'kysely'
import type { Database, Db } from '../db/database.ts'
import type { Tables } from '../db/tables.ts'

/** Tables that grow or are often rewritten. Others of the schema may belong to other programs, or stay small. */
const ownTables = [
  ...['orders', 'order_operations', 'order_events', 'order_calls'],
  ...[
    'idempotency_keys',
    'pos',
    'stores',
    'account_webhooks',
    'webhook_log',
    'sessions',
    'sign_in_failures',
    'leases',
  ],
  ...['activity_log', 'activity_seals', 'activity_unsealed', 'oauth_states', 'api_keys'],
  ...['provider_payments', 'orphans', 'chargebacks', 'closings', 'closing_changes'],
  ...['settlement_files', 'settlement_rows', 'box_sightings', 'fleet_changes', 'alert_messages'],
  ...['flow_items', 'deliveries', 'item_versions', 'item_attempts'],
  ...['flow_errors', 'flow_activity', 'flow_polls'],
] as const satisfies readonly (keyof Tables)[]

type TableToMaintain = { name: string; isUnclean: boolean; isMiscounted: boolean }

/**
 * Tables with a fifth of their rows changed since the last analysis (at least 200), or dead where autovacuum is off
 * (at least 1,000). PostgreSQL only.
 */
export async function findTablesToMaintain(db: Db): Promise<TableToMaintain[]> {
  const { rows } = await sql<TableToMaintain>`
    with grown as (
      select format('%I.%I', schemaname, relname) as name, n_mod_since_analyze as changed,
        n_dead_tup as dead, 0.2 * n_live_tup as fifth
      from pg_stat_user_tables
      where schemaname = current_schema() and relname = any(${ownTables}::text[])
    ), judged as (
      select name, changed > 200 + fifth as "isMiscounted",
        dead > 1000 + fifth and not current_setting('autovacuum')::boolean as "isUnclean"
      from grown
    )
    select * from judged where "isMiscounted" or "isUnclean" order by name`.execute(db)
  return rows
}

/**
 * Analyzes and vacuums the tables one after the other. Each statement stands alone and blocks no query. A table that
 * is being vacuumed or analyzed is skipped.
 */
export async function maintainTables(
  database: Pick<Database, 'maintenance'>,
  tables: readonly TableToMaintain[],
  signal: AbortSignal,
): Promise<void> {
  await database.maintenance((pool) =>
    pool.connection().execute(async (db) => {
      // A smaller sample than the default takes a fifth of the time on a large table, and is exact enough.
      await sql`set default_statistics_target = 20`.execute(db)
      for (const { name, isUnclean, isMiscounted } of tables) {
        if (signal.aborted) return
        const what = [isUnclean && 'vacuum', isMiscounted && 'analyze'].filter(Boolean)
        const command =
          what.length === 2 ? 'vacuum (analyze, skip_locked)' : `${what[0]} (skip_locked)`
        // Quoted by the database itself.
        await sql.raw(`${command} ${name}`).execute(db)
      }
    }),
  )
}
