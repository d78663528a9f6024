import { careForTables, findNeglectedTables } from '../repositories/neglected-tables.ts'
import { type BackgroundJobDeps, createBackgroundJob } from './background-job.ts'
import type { LeaseDeps } from './with-lease.ts'

export type TableCareDeps = LeaseDeps & BackgroundJobDeps

export type TableCare = ReturnType<typeof createTableCare>

const everyMs = 5_000

/**
 * Analyzes the tables that have changed much, and vacuums them where autovacuum is off. Without statistics the planner
 * expects one order where a client has thousands, and reads each of them instead of using the right index. A server does so
 * by itself only after a minute. One process at a time does it; the embedded database has `src/db/vacuum.ts`.
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
    /** Answers the names of the tables that were neglected. */
    care: async (): Promise<string[]> => (await job.once()) ?? [],
    start() {
      if (deps.database.engine === 'postgres') job.start()
    },
    stop: job.stop,
  }
}
