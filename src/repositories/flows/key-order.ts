import { sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'

/**
 * Runs the read of one page of a walk by keys. Without statistics, as after a first import, the planner would read
 * and sort the whole flow for every page. With sorting disabled it follows the index and stops at the end of the
 * page. PostgreSQL before 18 disables sorting by a high cost, which would trigger JIT compilation of each page (0.5
 * s).
 */
export function inKeyOrder<T>(database: Database, read: (trx: Trx) => Promise<T>): Promise<T> {
  return database.transaction(async (trx) => {
    await sql`
      select set_config('enable_sort', 'off', true), set_config('jit', 'off', true)`.execute(trx)
    return await read(trx)
  })
}
