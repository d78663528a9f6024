import type { Database } from '../../db/database.ts'
import { deleteFinished } from '../../repositories/delivery-reports.ts'
import { deleteFlowErrorsBefore } from '../../repositories/flow-errors.ts'
import type { Flow } from '../definition/schema.ts'

const rowsAtOnce = 10_000

/**
 * Forgets what a flow keeps longer than its definition says. `keepFailed` counts for failed deliveries and for /errors;
 * `keepCompleted` for delivered items that the flow knows no longer, such as deleted ones. Of an item that it does know
 * the row stays, without the item's content, as the record that the destination has it: one row per item and
 * destination, however often it changes. What is forgotten loses nothing: the next change of the item makes a new row.
 */
export async function cleanDeliveries(
  deps: { database: Database; now: () => Date },
  { name, queue }: Pick<Flow, 'name' | 'queue'>,
): Promise<{ deliveries: number; errors: number }> {
  const { db } = deps.database
  const now = deps.now().getTime()
  const doneBefore = new Date(now - queue.keepCompletedMs)
  const failedBefore = new Date(now - queue.keepFailedMs)
  let deliveries = 0
  for (let found = rowsAtOnce; found === rowsAtOnce; deliveries += found) {
    found = await deleteFinished(db, name, { doneBefore, failedBefore, limit: rowsAtOnce })
  }
  return { deliveries, errors: await deleteFlowErrorsBefore(db, name, failedBefore) }
}
