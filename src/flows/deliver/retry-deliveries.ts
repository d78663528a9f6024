import type { Database } from '../../db/database.ts'
import { endPauses } from '../../repositories/flows/delayed-deliveries.ts'
import type { DeliveryTarget } from '../../repositories/flows/delivery-target.ts'
import {
  type FailedFilter,
  failedRows,
  requeueFailed,
} from '../../repositories/flows/failed-deliveries.ts'
import { wakeDestination } from '../../repositories/flows/flow-events.ts'
import { deliveryPages } from '../../repositories/flows/key-order.ts'

export type SendAgainDeps = { database: Database; now: () => Date }

const rowsAtOnce = 1_000

/**
 * Queues failed deliveries again from their first attempt: of a flow, a destination, an item, or one group of
 * failures. It walks once over the present failures, `limit` per transaction. Returns how many.
 */
export async function retryFailed(
  deps: SendAgainDeps,
  filter: FailedFilter,
  limit = rowsAtOnce,
): Promise<number> {
  const { database } = deps
  const { flow } = filter
  const at = deps.now()
  let total = 0
  for await (const rows of deliveryPages(database, limit, (page) => failedRows(filter, page))) {
    for (const group of rows) {
      if (group.pks.length === 0) continue
      total += await database.transaction(async (trx) => {
        const requeued = await requeueFailed(trx, filter, group, at)
        if (requeued.length > 0) {
          wakeDestination(database, { flow, destination: group.destination })
        }
        return requeued.length
      })
    }
  }
  return total
}

/**
 * Ends the pauses between attempts of a destination: all its deliveries are due now. Earlier attempts still count. It
 * walks once over delayed deliveries, `limit` per transaction. Returns how many.
 */
export async function tryNow(
  deps: SendAgainDeps,
  { flow, destination }: DeliveryTarget,
  limit = rowsAtOnce,
): Promise<number> {
  const at = deps.now()
  let total = 0
  for (;;) {
    const pks = await deps.database.transaction(async (trx) => {
      const due = await endPauses(trx, { flow, destination }, { at, limit })
      if (due.length > 0) wakeDestination(deps.database, { flow, destination })
      return due
    })
    total += pks.length
    if (pks.length < limit) return total
  }
}
