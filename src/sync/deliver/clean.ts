import type { Database } from '../../db/database.ts'
import { deleteFinished } from '../../repositories/flows/finished-deliveries.ts'
import { deleteFlowErrorsBefore } from '../../repositories/flows/flow-errors.ts'
import { trimItemHistory } from '../../repositories/flows/item-versions.ts'
import type { Flow } from '../definition/schema.ts'

/** How many rows are gone. */
export type Cleaned = { deliveries: number; errors: number; history: number }

/**
 * Forgets what a flow keeps longer than its definition says. `keepFailed` counts for failed deliveries and for /errors;
 * `keepHistory` for what items looked like and who answered what; `keepCompleted` for delivered items that the flow
 * knows no longer, such as deleted ones. Of an item that it does know the row stays, without the item's content, as the
 * record that the destination has it: one row per item and destination, however often it changes. What is forgotten loses nothing: the next change of the item makes a new row.
 */
export async function cleanDeliveries(
  deps: { database: Database; now: () => Date },
  { name, queue }: Pick<Flow, 'name' | 'queue'>,
): Promise<Cleaned> {
  const { db } = deps.database
  const now = deps.now().getTime()
  const doneBefore = new Date(now - queue.keepCompletedMs)
  const failedBefore = new Date(now - queue.keepFailedMs)
  const deliveries = await deleteFinished(deps.database, name, { doneBefore, failedBefore })
  const errors = await deleteFlowErrorsBefore(db, name, failedBefore)
  const historyBefore = new Date(now - queue.keepHistoryMs)
  const history = await trimItemHistory(deps.database, name, historyBefore)
  return { deliveries, errors, history }
}
