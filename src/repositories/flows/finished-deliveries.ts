import { type RawBuilder, sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'
import { atOnce, type Step } from '../../db/steps.ts'
import { deleteRows } from './deliveries.ts'
import { type DeliveryPlace, deliveryPages } from './key-order.ts'
import { isPending } from './pending-deletes.ts'

/** The times before which finished deliveries may be deleted. */
type FinishedBefore = { doneBefore: Date; failedBefore: Date }

/** A page of rows of one destination: the last key, the number of rows, and the keys that may be deleted. */
type FinishedRows = { destination: string; lastPk: string; scanned: number; pks: string[] }

/** Rows per statement. It takes 20 ms on the embedded database, which answers no other request meanwhile. */
const rowsAtOnce = 5_000

/**
 * Reads the next rows after a place, and which of them are finished and need not be kept. Each row looks up its item:
 * an anti-join reads all items of the flow for every page. Run it through inKeyOrder.
 */
export function finishedRows(
  flow: string,
  before: FinishedBefore,
  page: { after: DeliveryPlace; limit: number },
): RawBuilder<FinishedRows> {
  return sql<FinishedRows>`
    with page as materialized (
      select destination, pk, state, finished_at, remembered,
        may_have_arrived or (delivered_hash is not null and delivered_hash <> 'deleted') as is_sent,
        coalesce(${isPending}, false) as is_pending
      from deliveries
      where flow = ${flow} and (destination, pk) > (${page.after.destination}, ${page.after.pk})
      order by destination, pk
      limit ${page.limit}
    )
    select page.destination, max(page.pk) as "lastPk", count(*) as scanned,
      coalesce(array_agg(page.pk order by page.pk) filter (where
        (page.state = 'done' and page.finished_at < ${before.doneBefore} and known.is_there is null
          and page.remembered is null
          and (not page.is_pending or page.finished_at < ${before.failedBefore}))
        or (page.state = 'failed' and page.finished_at < ${before.failedBefore}
          and (known.is_there is null or not page.is_sent))), '{}') as pks
    from page left join lateral (
      select true as is_there from flow_items
      where flow_items.flow = ${flow} and flow_items.pk = page.pk and page.state in ('done', 'failed')
      limit 1
    ) as known on true
    group by page.destination
    order by page.destination`
}

/**
 * Deletes rows that finished before the given times, `limit` per statement. A row stays while its item is known and
 * may be at the destination: the delete needs it. Its `delivered_hash` also proves that the destination has the
 * latest content. It stays while something is remembered of the item. A delete that a removed destination has not got stays
 * as long as a failed delivery. Returns how many rows were deleted.
 */
export async function deleteFinished(
  database: Database,
  flow: string,
  before: FinishedBefore,
  { limit = rowsAtOnce, step = atOnce }: { limit?: number; step?: Step } = {},
): Promise<number> {
  let deleted = 0
  const pages = deliveryPages(database, limit, (page) => finishedRows(flow, before, page), step)
  for await (const rows of pages) {
    for (const { destination, pks } of rows.filter((one) => one.pks.length > 0)) {
      deleted += await step(() =>
        database.transaction((trx) => deleteIfFinished(trx, { flow, destination, pks }, before)),
      )
    }
  }
  return deleted
}

/** Deletes the rows that were not queued again meanwhile and that no worker is sending. */
async function deleteIfFinished(
  trx: Trx,
  { flow, destination, pks }: { flow: string; destination: string; pks: readonly string[] },
  { doneBefore, failedBefore }: FinishedBefore,
): Promise<number> {
  const { numAffectedRows } = await deleteRows(
    sql<boolean>`ctid = any(array(
      select ctid from deliveries
      where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])
        and ((state = 'done' and finished_at < ${doneBefore})
          or (state = 'failed' and finished_at < ${failedBefore}))
      for update skip locked))`,
  ).execute(trx)
  return Number(numAffectedRows ?? 0)
}
