import { sql } from 'kysely'
import type { Db, Trx } from '../db/database.ts'

/** Durations are judged over this many last polls of a flow. */
const kept = 1_000

export type PollRecord = {
  flow: string
  kind: 'full' | 'incremental'
  startedAt: Date
  durationMs: number
  rowsRead: number
  changes: number
  error: string | null
}

/** Records a poll, counts it for ever, and forgets the ones too old to be judged. */
export async function insertPoll(trx: Trx, poll: PollRecord): Promise<void> {
  const { id } = await trx
    .insertInto('flow_polls')
    .values({
      flow: poll.flow,
      kind: poll.kind,
      started_at: poll.startedAt,
      duration_ms: poll.durationMs,
      rows_read: poll.rowsRead,
      changes: poll.changes,
      error: poll.error,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  const failed = poll.error === null ? 0 : 1
  await trx
    .insertInto('flow_totals')
    .values({ flow: poll.flow, runs: 1 - failed, poll_errors: failed })
    .onConflict((conflict) =>
      conflict.column('flow').doUpdateSet((eb) => ({
        runs: eb('flow_totals.runs', '+', 1 - failed),
        poll_errors: eb('flow_totals.poll_errors', '+', failed),
      })),
    )
    .execute()
  // Now and then is enough: the figures read only the newest.
  if (id % 100 === 0) {
    await trx
      .deleteFrom('flow_polls')
      .where('flow', '=', poll.flow)
      .where('id', 'not in', (eb) =>
        eb
          .selectFrom('flow_polls')
          .select('id')
          .where('flow', '=', poll.flow)
          .orderBy('id', 'desc')
          .limit(kept),
      )
      .execute()
  }
}

export type PollFigures = {
  flow: string
  lastRun: Date | null
  avgDurationMs: number
  p95DurationMs: number
  lastChanges: number
  lastError: string | null
}

/** Durations of the last 1,000 completed polls of each flow. The percentile is the nearest rank. */
export async function readPollFigures(db: Db): Promise<PollFigures[]> {
  const { rows } = await sql<{
    flow: string
    last_run: Date | null
    average: number | null
    p95: number | null
  }>`
    select flow, max(started_at) as last_run, avg(duration_ms)::float8 as average,
      percentile_disc(0.95) within group (order by duration_ms) as p95
    from (
      select flow, started_at, duration_ms,
        row_number() over (partition by flow order by id desc) as age
      from flow_polls where error is null
    ) as newest
    where age <= ${kept}
    group by flow`.execute(db)
  const { rows: last } = await sql<{ flow: string; changes: number; error: string | null }>`
    select distinct on (flow) flow, changes, error from flow_polls order by flow, id desc`.execute(
    db,
  )
  const newest = new Map(last.map((row) => [row.flow, row]))
  const figures = new Map(rows.map((row) => [row.flow, row]))
  return [...new Set([...newest.keys(), ...figures.keys()])].map((flow) => ({
    flow,
    lastRun: figures.get(flow)?.last_run ?? null,
    avgDurationMs: Math.round(figures.get(flow)?.average ?? 0),
    p95DurationMs: figures.get(flow)?.p95 ?? 0,
    lastChanges: newest.get(flow)?.changes ?? 0,
    lastError: newest.get(flow)?.error ?? null,
  }))
}

/** Durations of the last polls, oldest first, for a small chart. */
export async function listDurations(db: Db, flow: string, limit: number): Promise<number[]> {
  const rows = await db
    .selectFrom('flow_polls')
    .select('duration_ms')
    .where('flow', '=', flow)
    .where('error', 'is', null)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return rows.map((row) => row.duration_ms).reverse()
}

/** Changes found since `since`, by flow. */
export async function sumChangesSince(db: Db, since: Date): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('flow_polls')
    .select((eb) => ['flow', sql<number>`${eb.fn.sum('changes')}::bigint`.as('changes')])
    .where('started_at', '>=', since)
    .groupBy('flow')
    .execute()
  return new Map(rows.map((row) => [row.flow, row.changes]))
}
