import type { Database } from '../../db/database.ts'
import { careForTables, findNeglectedTables } from '../../repositories/table-care.ts'
import { withLease } from '../../repositories/with-lease.ts'

export type TableCareDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  processId: string
  log: { warn(fields: object, message: string): void }
}

const everyMs = 5_000

/**
 * Has the server count, and where nobody else does clean, the tables that flows have filled or emptied: a planner that takes a
 * million rows for none reads all of them for each item. One process at a time does; the embedded database cares for itself.
 */
export function createTableCare(deps: TableCareDeps) {
  const stopped = new AbortController()
  let loop: Promise<void> | undefined

  /** Answers the names of the tables that were neglected. */
  const care = async (): Promise<string[]> => {
    if ((await findNeglectedTables(deps.database.db)).length === 0) return []
    const done = await withLease(deps, 'flows:table-care', async ({ signal }) => {
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
        deps.log.warn({ err: error }, 'the tables of the flows could not be counted'),
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
