import type { Database } from '../../db/database.ts'
import { endPauses } from '../../repositories/flows/delayed-deliveries.ts'
import type { DeliveryTarget } from '../../repositories/flows/deliveries.ts'
import type { DeliveryQueue } from '../queue/queue.ts'

const rowsAtOnce = 1_000

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
