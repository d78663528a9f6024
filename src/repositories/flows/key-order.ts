import { type RawBuilder, sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'
import { atOnce, type Step } from '../../db/steps.ts'

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

/** The place of a delivery of a flow, in key order. */
export type DeliveryPlace = { destination: string; pk: string }
export const beforeAllDeliveries: DeliveryPlace = { destination: '', pk: '' }

/**
 * Walks over the deliveries of a flow by key. Each page sums up `limit` rows by destination, with the last key and the
 * number of rows.
 */
export async function* deliveryPages<
  Row extends { destination: string; lastPk: string; scanned: number },
>(
  database: Database,
  limit: number,
  pageAfter: (page: { after: DeliveryPlace; limit: number }) => RawBuilder<Row>,
  step: Step = atOnce,
): AsyncGenerator<Row[]> {
  let after: DeliveryPlace | undefined = beforeAllDeliveries
  while (after) {
    const page = pageAfter({ after, limit })
    const { rows } = await step(() => inKeyOrder(database, (trx) => page.execute(trx)))
    yield rows
    const last = rows.at(-1)
    const scanned = rows.reduce((sum, row) => sum + row.scanned, 0)
    after =
      last && scanned === limit ? { destination: last.destination, pk: last.lastPk } : undefined
  }
}
