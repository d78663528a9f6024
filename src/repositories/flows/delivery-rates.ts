import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { deletedHash } from './deliveries.ts'
import type { DeliveryTarget } from './delivery-target.ts'

/** What happened to the deliveries of a destination in one minute; `minute` counts from 1970. */
export type MinuteCounts = { minute: number; queued: number; delivered: number; failed: number }

/**
 * Of all rows: how many have arrived, how many wait, and how many are left out now although the destination has them.
 */
type TargetShare = { done: number; waiting: number; stillThere: number }

type Page = {
  rows: number
  last: string | null
  done: number
  waiting: number
  stillThere: number
  minutes: MinuteCounts[] | null
}

/** A filter or mapping leaves the item out, and the destination has what was delivered before. */
export const isStillThere = sql<boolean>`(state = 'done' and kind = 'upsert' and skipped is not null
  and (may_have_arrived or (delivered_hash is not null and delivered_hash <> ${sql.lit(deletedHash)})))`

/** Rows per statement. The embedded database answers no other request during a statement. */
const rowsAtOnce = 10_000

/** Counts per minute since `since`, and the total that arrived. An item counts with its latest change only. */
export async function readRates(
  db: Db,
  { flow, destination }: DeliveryTarget,
  since: Date,
): Promise<TargetShare & { minutes: Map<number, MinuteCounts>; rows: number }> {
  const minutes = new Map<number, MinuteCounts>()
  const sum = { done: 0, waiting: 0, stillThere: 0, rows: 0 }
  let after: string | null = ''
  while (after !== null) {
    const found: { rows: Page[] } = await sql<Page>`
      with page as materialized (
        select pk, state, queued_at, delivered_at, finished_at, ${isStillThere} as is_still_there from deliveries
        where (flow, destination) = (${flow}, ${destination}) and pk > ${after}
        order by pk limit ${rowsAtOnce}
      ), events as (
        select queued_at as at, 1 as queued, 0 as delivered, 0 as failed from page
        union all select delivered_at, 0, 1, 0 from page
        union all select finished_at, 0, 0, 1 from page where state = 'failed'
      ), counted as (
        select floor(extract(epoch from at) / 60)::float8 as minute, sum(queued)::float8 as queued,
          sum(delivered)::float8 as delivered, sum(failed)::float8 as failed
        from events where at >= ${since}::timestamptz group by 1
      )
      select count(*)::float8 as rows, max(pk) as last,
        count(*) filter (where state = 'done')::float8 as done,
        count(*) filter (where state = 'waiting')::float8 as waiting,
        count(*) filter (where is_still_there)::float8 as "stillThere",
        (select json_agg(counted) from counted) as minutes
      from page`.execute(db)
    const page: Page | undefined = found.rows[0]
    if (!page) break
    sum.rows += page.rows
    sum.done += page.done
    sum.waiting += page.waiting
    sum.stillThere += page.stillThere
    for (const one of page.minutes ?? []) {
      const known = minutes.get(one.minute) ?? { ...one, queued: 0, delivered: 0, failed: 0 }
      minutes.set(one.minute, {
        minute: one.minute,
        queued: known.queued + one.queued,
        delivered: known.delivered + one.delivered,
        failed: known.failed + one.failed,
      })
    }
    after = page.rows < rowsAtOnce ? null : page.last
  }
  return { ...sum, minutes }
}
