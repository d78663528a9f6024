import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { FlowTotalsTable } from '../../db/tables.ts'
import { camelCased } from '../../domain/field-names.ts'
import { type Reason, type StoredReason, sentenceOf } from '../../texts/reason.ts'
import { notifyFlow } from './flow-events.ts'
import { columnsOfEnd, type PollEnd } from './flow-state.ts'

/** Durations are computed over this many latest polls of a flow. */
const kept = 1_000
/** Changes of today are summed over the polls of the day. The longest day has 25 hours. */
const dayMs = 25 * 3_600_000

type PollRecord = {
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
type PollItems = { new: number; changed: number; deleted: number; refused: number }

/**
 * Records the end of a poll in one statement: the poll, the lifetime totals, the flow's state without its progress, and
 * for a completed poll the count of the flow's limit. Deletes polls beyond what is kept. Returns whether the limit is
 * reached now.
 */
export async function insertPoll(trx: Trx, poll: PollRecord, state: PollEnd): Promise<boolean> {
  const { flow } = poll
  const isFailed = poll.why !== null
  const failed = isFailed ? 1 : 0
  const { polls, isLimitReached } = await trx
    .with('recorded', (one) =>
      one
        .insertInto('flow_polls')
        .values({
          flow,
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
        .returning(notifyFlow('poll').as('notified')),
    )
    .with('cleared', (one) => one.deleteFrom('flow_progress').where('flow', '=', flow))
    .with('ended', (one) =>
      one.updateTable('flow_state').set(columnsOfEnd(state)).where('flow', '=', flow),
    )
    .with('limited', (one) =>
      one
        .updateTable('flow_limits')
        .set((eb) => ({ run_count: eb('run_count', '+', 1) }))
        .where('flow', '=', isFailed ? null : flow)
        .returning(sql<boolean>`run_count >= run_limit`.as('is_reached')),
    )
    .insertInto('flow_totals')
    .values({ flow, runs: 1 - failed, poll_errors: failed })
    .onConflict((conflict) =>
      conflict.column('flow').doUpdateSet((eb) => ({
        runs: eb('flow_totals.runs', '+', 1 - failed),
        poll_errors: eb('flow_totals.poll_errors', '+', failed),
      })),
    )
    .returning((eb) => [
      eb('runs', '+', eb.ref('poll_errors')).as('polls'),
      eb.exists(eb.selectFrom('limited').where('is_reached', '=', true)).as('isLimitReached'),
      eb.selectFrom('recorded').select('notified').as('notified'),
    ])
    .executeTakeFirstOrThrow()
  // Every 100th poll is enough, because reports read only the newest. The flow's own count decides: with alternating
  // flows one might never get a round id.
  if (polls % 100 === 0) await trimPolls(trx, poll)
  return isLimitReached === true
}

async function trimPolls(trx: Trx, { flow, startedAt }: PollRecord): Promise<void> {
  await trx
    .deleteFrom('flow_polls')
    .where('flow', '=', flow)
    .where((eb) =>
      eb.or([eb('changes', '=', 0), eb('started_at', '<', new Date(startedAt.getTime() - dayMs))]),
    )
    .where('id', 'not in', (eb) =>
      eb
        .selectFrom('flow_polls')
        .select('id')
        .where('flow', '=', flow)
        .orderBy('id', 'desc')
        .limit(kept),
    )
    .execute()
}

type PollFigures = {
  flow: string
  lastRun: Date | null
  avgDurationMs: number
  p95DurationMs: number
}

/** Durations of the last 1,000 completed polls of each flow. The percentile is the nearest rank. */
export async function readPollFigures(db: Db): Promise<PollFigures[]> {
  const { rows } = await sql<PollFigures>`
    select flow, max(started_at) as "lastRun", round(avg(duration_ms))::float8 as "avgDurationMs",
      percentile_disc(0.95) within group (order by duration_ms) as "p95DurationMs"
    from (
      select flow, started_at, duration_ms,
        row_number() over (partition by flow order by id desc) as age
      from flow_polls where error is null
    ) as newest
    where age <= ${kept}
    group by flow`.execute(db)
  return rows
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
    ...camelCased(row),
    items:
      row.items_new === null
        ? null
        : {
            new: row.items_new,
            changed: row.items_changed ?? 0,
            deleted: row.items_deleted ?? 0,
            refused: row.items_refused ?? 0,
          },
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

type FlowTotals = Selectable<FlowTotalsTable>

/** A flow that never ran has no row. */
export async function listTotals(db: Db): Promise<FlowTotals[]> {
  return db.selectFrom('flow_totals').selectAll().orderBy('flow').execute()
}
