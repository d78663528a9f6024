import type { Database } from '../../db/database.ts'
import { endPauses } from '../../repositories/flows/delayed-deliveries.ts'
import type { DeliveryTarget } from '../../repositories/flows/deliveries.ts'
import {
  beforeAllFailed,
  type FailedFilter,
  type FailedRows,
  failedRows,
  reviveFailed,
  wantedAmong,
} from '../../repositories/flows/failed-deliveries.ts'
import { inKeyOrder } from '../../repositories/flows/key-order.ts'
import type { DeliveryQueue } from './queue.ts'

const rowsAtOnce = 1_000

/**
 * Has failed deliveries tried again from their first attempt on: of a flow, a destination, an item, or one group of
 * failures. Walks once over what has failed by now, `limit` in each transaction. Answers how many.
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
        const revived = await reviveFailed(trx, filter, group, at)
        if (revived.length > 0) queue.wake(flow, group.destination)
        return revived.length
      })
    }
    const looked = rows.reduce((sum, one) => sum + one.looked, 0)
    const last = rows.at(-1)
    after =
      last && looked === limit ? { destination: last.destination, pk: last.lastPk } : undefined
  }
  return total
}

/** Without the items whose words are not asked for. Where both are, the words themselves have chosen them already. */
async function wanted(group: FailedRows, { isWanted, error }: FailedFilter): Promise<FailedRows> {
  const { errors } = group
  if (!isWanted || !errors || error !== undefined) return group
  const rows = group.pks.map((pk, place) => ({ pk, words: errors[place] ?? '' }))
  return { ...group, pks: await wantedAmong(rows, isWanted) }
}

/**
 * Ends the pauses between the attempts of what a destination is owed: all of it is due now. Attempts already made go on being
 * counted. Some in each transaction, and once over what is delayed by now. Answers how many.
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
