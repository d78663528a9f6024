import type { Database } from '../../db/database.ts'
import { type FailedFilter, reviveFailed } from '../../repositories/delivery-reports.ts'
import type { DeliveryQueue } from '../queue/queue.ts'

const rowsAtOnce = 1_000

/**
 * Has failed deliveries tried again from their first attempt on: of a flow, a destination, an item, or one group of
 * failures. Answers how many. Each thousand is committed by itself.
 */
export async function retryFailed(
  deps: { database: Database; queue: DeliveryQueue; now: () => Date },
  filter: FailedFilter,
): Promise<number> {
  const at = deps.now()
  let total = 0
  for (;;) {
    const revived = await deps.database.transaction(async (trx) => {
      const rows = await reviveFailed(trx, filter, { at, limit: rowsAtOnce })
      for (const [destination, group] of Map.groupBy(rows, (row) => row.destination)) {
        const pks = group.map(({ pk }) => pk)
        await deps.queue.wake(trx, filter.flow, destination, pks)
      }
      return rows.length
    })
    total += revived
    if (revived < rowsAtOnce) return total
  }
}
