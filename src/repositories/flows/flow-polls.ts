import { type Selectable, sql } from 'kysely'
import { type Db, json, type Trx } from '../../db/database.ts'
import type { FlowTotalsTable } from '../../db/tables.ts'
import { type Reason, type StoredReason, sentenceOf } from '../../domain/flow-reasons.ts'
import { notifyFlow } from './flow-events.ts'

/** Durations are computed over this many latest polls of a flow. */
const kept = 1_000
/** Changes of today are summed over the polls of the day. The longest day has 25 hours. */
const dayMs = 25 * 3_600_000

export type PollRecord = {
  flow: string
  kind: 'full' | 'incremental'
  startedAt: Date
  durationMs: number
  rowsRead: number
  changes: number
  /** Counts of the items; null for polls recorded before these were counted. */
  items: PollItems | null
  /** Why it failed. */
  why: Reason | null
}

/** Items of a poll. `refused`: invalid or duplicate records. */
export type PollItems = { new: number; changed: number; deleted: number; refused: number }

/** Records a poll, adds it to the lifetime totals, and deletes polls beyond the limit. */
export async function insertPoll(trx: Trx, poll: PollRecord): Promise<void> {
  await trx
    .insertInto('flow_polls')
    .values({
      flow: poll.flow,
      kind: poll.kind,
      started_at: poll.startedAt,
      duration_ms: poll.durationMs,
      rows_read: poll.rowsRead,
      changes: poll.changes,
      error: poll.why && sentenceOf(poll.why, 'en'),
      why: poll.why && json(poll.why),
      items_new: poll.items?.new ?? null,
      items_changed: poll.items?.changed ?? null,
      items_deleted: poll.items?.deleted ?? null,
      items_refused: poll.items?.refused ?? null,
    })
    .returning(notifyFlow('poll').as('notified'))
    .execute()
  const failed = poll.why === null ? 0 : 1
  const { runs, poll_errors } = await trx
    .insertInto('flow_totals')
    .values({ flow: poll.flow, runs: 1 - failed, poll_errors: failed })
    .onConflict((conflict) =>
      conflict.column('flow').doUpdateSet((eb) => ({
        runs: eb('flow_totals.runs', '+', 1 - failed),
        poll_errors: eb('flow_totals.poll_errors', '+', failed),
      })),
    )
    .returning(['runs', 'poll_errors'])
    .executeTakeFirstOrThrow()
  // Every 100th poll is enough, because reports read only the newest. The flow's own count decides: with alternating
  // flows one might never get a round id.
  if ((runs + poll_errors) % 100 === 0) {
    await trx
      .deleteFrom('flow_polls')
      .where('flow', '=', poll.flow)
      .where((eb) =>
        eb.or([
          eb('changes', '=', 0),
          eb('started_at', '<', new Date(poll.startedAt.getTime() - dayMs)),
        ]),
      )
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
  return rows.map((row) => ({
    flow: row.flow,
    lastRun: row.last_run,
    avgDurationMs: Math.round(row.average ?? 0),
    p95DurationMs: row.p95 ?? 0,
  }))
}

export type LatestPolls = {
  /** Milliseconds of the completed ones, oldest first. */
  durations: number[]
  /** The error of the latest poll. */
  error: string | null
  why: StoredReason | null
}

type LatestPoll = Pick<LatestPolls, 'error' | 'why'> & { flow: string; duration_ms: number }

/** The last `limit` polls of each of these flows; a flow that never polled is absent. */
export async function readLatestPolls(
  db: Db,
  flows: readonly string[],
  limit: number,
): Promise<Map<string, LatestPolls>> {
  const { rows } = await sql<LatestPoll>`
    select wanted.flow, latest.duration_ms, latest.error, latest.why
    from unnest(${flows}::text[]) as wanted (flow)
    cross join lateral (
      select id, duration_ms, error, why from flow_polls
      where flow = wanted.flow order by id desc limit ${limit}
    ) as latest
    order by latest.id`.execute(db)
  return new Map(
    [...Map.groupBy(rows, ({ flow }) => flow)].map(([flow, polls]) => [
      flow,
      {
        durations: polls.filter(({ error }) => error === null).map((poll) => poll.duration_ms),
        error: polls.at(-1)?.error ?? null,
        why: polls.at(-1)?.why ?? null,
      },
    ]),
  )
}

export type Poll = Omit<PollRecord, 'flow' | 'why'> & {
  id: number
  error: string | null
  why: StoredReason | null
}

/** The last polls of a flow, newest first. */
export async function listPolls(db: Db, flow: string, limit: number): Promise<Poll[]> {
  const rows = await db
    .selectFrom('flow_polls')
    .selectAll()
    .where('flow', '=', flow)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    startedAt: row.started_at,
    durationMs: row.duration_ms,
    rowsRead: row.rows_read,
    changes: row.changes,
    items:
      row.items_new === null
        ? null
        : {
            new: row.items_new,
            changed: row.items_changed ?? 0,
            deleted: row.items_deleted ?? 0,
            refused: row.items_refused ?? 0,
          },
    error: row.error,
    why: row.why,
  }))
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

export type FlowTotals = Selectable<FlowTotalsTable>

/** A flow that never ran has no row. */
export async function listTotals(db: Db): Promise<FlowTotals[]> {
  return db.selectFrom('flow_totals').selectAll().orderBy('flow').execute()
}
