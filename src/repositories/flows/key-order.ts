import { sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'

/**
 * Runs the reading of one page of a walk by keys. A planner that knows nothing of a table yet, as after a first import, takes
 * a whole flow for a handful of rows, and reads and sorts all of them for every page; forbidden to sort it follows the
 * index, and ends where the page does. PostgreSQL before 18 forbids by a price, for which it would compile each page (0.5 s).
 */
export function inKeyOrder<T>(database: Database, read: (trx: Trx) => Promise<T>): Promise<T> {
  return database.transaction(async (trx) => {
    await sql`
      select set_config('enable_sort', 'off', true), set_config('jit', 'off', true)`.execute(trx)
    return await read(trx)
  })
}
