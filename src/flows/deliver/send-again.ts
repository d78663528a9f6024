import type { Database } from '../../db/database.ts'
import { endPauses } from '../../repositories/flows/delayed-deliveries.ts'
import type { DeliveryTarget } from '../../repositories/flows/deliveries.ts'
import {
  beforeAllFailed,
  type FailedFilter,
  type FailedRows,
  failedRows,
  requeueFailed,
  selectedAmong,
} from '../../repositories/flows/failed-deliveries.ts'
import { inKeyOrder } from '../../repositories/flows/key-order.ts'
import type { DeliveryQueue } from './queue.ts'

const rowsAtOnce = 1_000

/**
 * Queues failed deliveries again from their first attempt: of a flow, a destination, an item, or one group of
 * failures. It walks once over the present failures, `limit` per transaction. Returns how many.
 */
export async function retryFailed(
  deps: { database: Database; queue: Pick<DeliveryQueue, 'wake'>; now: () => Date },
  filter: FailedFilter,
  limit = rowsAtOnce,
): Promise<number> {
  const { database, queue } = deps
  const { flow } = filter
  const at = deps.now()
  let total = 0
  let after: typeof beforeAllFailed | undefined = beforeAllFailed
  while (after) {
    const page = failedRows(filter, { after, limit })
    const { rows } = await inKeyOrder(database, (trx) => page.execute(trx))
    for (const one of rows) {
      const group = await wanted(one, filter)
      if (group.pks.length === 0) continue
      total += await database.transaction(async (trx) => {
        const requeued = await requeueFailed(trx, filter, group, at)
        if (requeued.length > 0) queue.wake(flow, group.destination)
        return requeued.length
      })
    }
    const scanned = rows.reduce((sum, one) => sum + one.scanned, 0)
    const last = rows.at(-1)
    after =
      last && scanned === limit ? { destination: last.destination, pk: last.lastPk } : undefined
  }
  return total
}

/** Leaves out items whose error text does not match. With an exact `error` the query has selected them already. */
async function wanted(group: FailedRows, { isSelected, error }: FailedFilter): Promise<FailedRows> {
  const { errors } = group
  if (!isSelected || !errors || error !== undefined) return group
  const rows = group.pks.map((pk, place) => ({ pk, words: errors[place] ?? '' }))
  return { ...group, pks: await selectedAmong(rows, isSelected) }
}

/**
 * Ends the pauses between attempts of a destination: all its deliveries are due now. Earlier attempts still count. It
 * walks once over delayed deliveries, `limit` per transaction. Returns how many.
 */
export async function tryNow(
  deps: { database: Database; queue: Pick<DeliveryQueue, 'wake'>; now: () => Date },
  { flow, destination }: DeliveryTarget,
  limit = rowsAtOnce,
): Promise<number> {
  const at = deps.now()
  let total = 0
  for (;;) {
    const pks = await deps.database.transaction(async (trx) => {
      const due = await endPauses(trx, { flow, destination }, { at, limit })
      if (due.length > 0) deps.queue.wake(flow, destination)
      return due
    })
    total += pks.length
    if (pks.length < limit) return total
  }
}
