import type { Database } from '../db/database.ts'
import { careForTables, findNeglectedTables } from '../repositories/neglected-tables.ts'
import { withLease } from './with-lease.ts'

export type TableCareDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  processId: string
  log: { warn(fields: object, message: string): void }
}

export type TableCare = ReturnType<typeof createTableCare>

const everyMs = 5_000

/**
 * Has the server count the tables that have changed, and clean them where nobody else does: a planner that knows nothing of a
 * table takes all of a client's orders for one, and reads each of them where another index would lead to the one. Servers do it by
 * themselves after a minute, and not at all with `autovacuum` off. One process at a time does; the embedded database
 * cares for itself.
 */
export function createTableCare(deps: TableCareDeps) {
  const stopped = new AbortController()
  let loop: Promise<void> | undefined

  /** Answers the names of the tables that were neglected. */
  const care = async (): Promise<string[]> => {
    if ((await findNeglectedTables(deps.database.db)).length === 0) return []
    const done = await withLease(deps, 'table-care', async ({ signal }) => {
      // Another process may just have done it.
      const tables = await findNeglectedTables(deps.database.db)
      await careForTables(deps.database, tables, AbortSignal.any([signal, stopped.signal]))
      return tables.map(({ name }) => name)
    })
    return done?.result ?? []
  }

  const run = async () => {
    while (!stopped.signal.aborted) {
      await deps.sleep(everyMs, stopped.signal).catch(() => undefined)
      if (stopped.signal.aborted) return
      await care().catch((error: unknown) =>
        deps.log.warn({ err: error }, 'the tables could not be counted'),
      )
    }
  }

  return {
    care,
    start() {
      if (deps.database.engine === 'postgres') loop ??= run()
    },
    async stop() {
      stopped.abort()
      await loop
    },
  }
}
