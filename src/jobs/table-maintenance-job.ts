import { findTablesToMaintain, maintainTables } from '../repositories/table-maintenance.ts'
import { type BackgroundJobDeps, createBackgroundJob } from './background-job.ts'
import type { LeaseDeps } from './with-lease.ts'

type TableMaintenanceDeps = LeaseDeps & BackgroundJobDeps

export type TableMaintenance = ReturnType<typeof createTableMaintenance>

const everyMs = 5_000

/**
 * Analyzes tables with many changes, and vacuums them if autovacuum is off. Without statistics the planner expects
 * one order per client, and uses the wrong index. A server analyzes only after a minute. One process at a time does
 * it; the embedded database has `src/db/vacuum.ts`.
 */
export function createTableMaintenance(deps: TableMaintenanceDeps) {
  const toMaintain = () => findTablesToMaintain(deps.database.db)
  const job = createBackgroundJob(deps, {
    name: 'table-care',
    intervalMs: everyMs,
    waitsFirst: true,
    lease: { deps, isDue: async () => (await toMaintain()).length > 0 },
    async run(signal) {
      // Another process may have done it just now.
      const tables = await toMaintain()
      await maintainTables(deps.database, tables, signal)
      return tables.map(({ name }) => name)
    },
  })

  return {
    /** Returns the names of the tables that needed it. */
    maintain: async (): Promise<string[]> => (await job.once()) ?? [],
    start() {
      if (deps.database.engine === 'postgres') job.start()
    },
    stop: job.stop,
  }
}
