import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'

// The few questions that pg-boss's own calls cannot answer, or only by reading a whole queue. Names as of its schema
// version in 12.35; `policy` and `coalesce` are written so that its index of exclusive jobs serves.

/** Wake-ups that are due later become due now. */
export async function bringForward(trx: Trx, queue: string, pks: readonly string[]): Promise<void> {
  const { rows } = await laterJobs(queue, pks).execute(trx)
  if (rows.length === 0) return
  const ids = rows.map(({ id }) => id)
  await sql`
    update pgboss.job set start_after = now()
    where name = ${queue} and id = any(${ids}::uuid[])
      and state < 'active' and start_after > now()`.execute(trx)
}

/** Asks which jobs of these keys are due later. Each key looks its job up by itself: together they read all jobs. */
export function laterJobs(queue: string, pks: readonly string[]): RawBuilder<{ id: string }> {
  return sql<{ id: string }>`
    select found.id from unnest(${pks}::text[]) as wanted (pk) cross join lateral (
      select id, start_after from pgboss.job
      where name = ${queue} and policy = 'exclusive' and state <= 'active'
        and coalesce(singleton_key, '') = wanted.pk
      limit 1
    ) as found
    where found.start_after > now()`
}

/** The jobs that some process has claimed and not ended. */
export async function listActiveJobs(db: Db, queue: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from pgboss.job where name = ${queue} and state = 'active'`.execute(db)
  return rows.map(({ id }) => id)
}

/** How many deliveries are in hand, over all processes and destinations. */
export async function countActiveJobs(db: Db): Promise<number> {
  const { rows } = await sql<{ active: number }>`
    select count(*) as active from pgboss.job where state = 'active'`.execute(db)
  return rows[0]?.active ?? 0
}

/** A place in the rows that wait, in the order of their time and key. */
export type WaitingPlace = { queuedAt: string; pk: string }

export const beforeAllWaiting: WaitingPlace = { queuedAt: '-infinity', pk: '' }

export type WaitingRow = WaitingPlace & { isLost: boolean }

/**
 * Asks for the next rows after a place that wait since before `since`, and which of them no job stands for: their wake-up
 * got lost.
 *
 * Each row looks its job up by itself. As an anti-join a planner that knows nothing yet of the two tables, as after a first
 * import, compares every row with every job: 20 s for 10,000 rows, in which the embedded database answers nobody.
 */
export function waitingRows(
  target: { queue: string; flow: string; destination: string },
  options: { since: Date; after: WaitingPlace; limit: number },
): RawBuilder<WaitingRow> {
  const { after } = options
  return sql<WaitingRow>`
    with page as materialized (
      select queued_at, pk from deliveries
      where flow = ${target.flow} and destination = ${target.destination} and state = 'waiting'
        and queued_at < ${options.since}
        and (queued_at, pk) > (${after.queuedAt}::timestamptz, ${after.pk})
      order by queued_at, pk
      limit ${options.limit}
    )
    select page.queued_at::text as "queuedAt", page.pk, job.is_there is null as "isLost"
    from page left join lateral (
      select true as is_there from pgboss.job
      where name = ${target.queue} and policy = 'exclusive' and state <= 'active'
        and coalesce(singleton_key, '') = page.pk
      limit 1
    ) as job on true
    order by page.queued_at, page.pk`
}
