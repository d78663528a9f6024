import { type RawBuilder, sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'
import { inKeyOrder } from './key-order.ts'

/** Before when something was finished that need not be kept. */
export type FinishedBefore = { doneBefore: Date; failedBefore: Date }

/** A row of a flow's deliveries, in the order of their keys. */
type Place = { destination: string; pk: string }

export const beforeAllDeliveries: Place = { destination: '', pk: '' }

/** A look at some rows of one destination: the last of them, how many they were, and which may go. */
export type FinishedRows = { destination: string; lastPk: string; looked: number; pks: string[] }

/** As many rows as one statement looks at: 20 ms of the embedded database, in which it answers nobody else. */
const rowsAtOnce = 5_000

/**
 * Asks for the next rows after a place, and which of them are finished and need not be kept. Each row looks its item up by
 * itself: an anti-join reads all items of the flow for every page. To be run in key order.
 */
export function finishedRows(
  flow: string,
  before: FinishedBefore,
  page: { after: Place; limit: number },
): RawBuilder<FinishedRows> {
  return sql<FinishedRows>`
    with page as materialized (
      select destination, pk, state, finished_at,
        may_have_arrived or (delivered_hash is not null and delivered_hash <> 'deleted') as is_sent
      from deliveries
      where flow = ${flow} and (destination, pk) > (${page.after.destination}, ${page.after.pk})
      order by destination, pk
      limit ${page.limit}
    )
    select page.destination, max(page.pk) as "lastPk", count(*) as looked,
      coalesce(array_agg(page.pk order by page.pk) filter (where
        (page.state = 'done' and page.finished_at < ${before.doneBefore} and known.is_there is null)
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
 * Forgets rows that were finished before the given times, but none whose item is still known and may be at the destination: its
 * delete needs the row, and its
 * `delivered_hash` is what tells that the destination has what the source showed last. An item without a row is not known
 * to be in step: it never was sent there, or its failure is older than failures are kept. Walks over all deliveries of the
 * flow, `limit` in each statement. Answers how many are gone.
 */
export async function deleteFinished(
  database: Database,
  flow: string,
  before: FinishedBefore,
  limit = rowsAtOnce,
): Promise<number> {
  let gone = 0
  let after: Place | undefined = beforeAllDeliveries
  while (after) {
    const page = finishedRows(flow, before, { after, limit })
    const { rows } = await inKeyOrder(database, (trx) => page.execute(trx))
    for (const { destination, pks } of rows.filter((one) => one.pks.length > 0)) {
      gone += await database.transaction((trx) =>
        deleteIfFinished(trx, { flow, destination, pks }, before),
      )
    }
    const last = rows.at(-1)
    const looked = rows.reduce((sum, one) => sum + one.looked, 0)
    after =
      last && looked === limit ? { destination: last.destination, pk: last.lastPk } : undefined
  }
  return gone
}

/** Deletes those that nobody has woken since, or has in hand. */
async function deleteIfFinished(
  trx: Trx,
  { flow, destination, pks }: { flow: string; destination: string; pks: readonly string[] },
  { doneBefore, failedBefore }: FinishedBefore,
): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from deliveries where ctid = any(array(
      select ctid from deliveries
      where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])
        and ((state = 'done' and finished_at < ${doneBefore})
          or (state = 'failed' and finished_at < ${failedBefore}))
      for update skip locked))`.execute(trx)
  return Number(numAffectedRows ?? 0)
}
