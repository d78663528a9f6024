import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'

// The few questions that pg-boss's own calls cannot answer, or only by reading a whole queue. Names as of its schema
// version in 12.35; `policy` and `coalesce` are written so that its index of exclusive jobs serves.

/** Wake-ups that are due later become due now. */
export async function bringForward(trx: Trx, queue: string, pks: readonly string[]): Promise<void> {
  await sql`
    update pgboss.job set start_after = now()
    where name = ${queue} and policy = 'exclusive' and state < 'active'
      and coalesce(singleton_key, '') = any(${pks}::text[]) and start_after > now()`.execute(trx)
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

/** Rows that wait since before `since` and that no job stands for: their wake-up got lost. */
export async function listUnqueued(
  trx: Trx,
  target: { queue: string; flow: string; destination: string },
  options: { since: Date; limit: number },
): Promise<string[]> {
  const { rows } = await sql<{ pk: string }>`
    select pk from deliveries
    where flow = ${target.flow} and destination = ${target.destination} and state = 'waiting'
      and queued_at < ${options.since}
      and not exists (
        select from pgboss.job
        where name = ${target.queue} and policy = 'exclusive' and state <= 'active'
          and coalesce(singleton_key, '') = deliveries.pk)
    limit ${options.limit}`.execute(trx)
  return rows.map(({ pk }) => pk)
}
