import { careForTables, findNeglectedTables } from '../repositories/neglected-tables.ts'
import { type BackgroundJobDeps, createBackgroundJob } from './background-job.ts'
import type { LeaseDeps } from './with-lease.ts'

export type TableCareDeps = LeaseDeps & BackgroundJobDeps

export type TableCare = ReturnType<typeof createTableCare>

const everyMs = 5_000

/**
 * Analyzes tables with many changes, and vacuums them where autovacuum is off. Without statistics the planner expects
 * one order for a client that has thousands, and does not use the right index. A server analyzes by itself only after a
 * minute. One process at a time does it; the embedded database has `src/db/vacuum.ts`.
 */
export function createTableCare(deps: TableCareDeps) {
  const neglected = () => findNeglectedTables(deps.database.db)
  const job = createBackgroundJob(deps, {
    name: 'table-care',
    intervalMs: everyMs,
    waitsFirst: true,
    lease: { deps, isDue: async () => (await neglected()).length > 0 },
    async run(signal) {
      // Another process may just have done it.
      const tables = await neglected()
      await careForTables(deps.database, tables, signal)
      return tables.map(({ name }) => name)
    },
  })

  return {
    /** Returns the names of the tables that needed it. */
    care: async (): Promise<string[]> => (await job.once()) ?? [],
    start() {
      if (deps.database.engine === 'postgres') job.start()
    },
    stop: job.stop,
  }
}
