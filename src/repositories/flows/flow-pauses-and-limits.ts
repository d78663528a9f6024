import { type Expression, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { type Reason, type ReasonCode, type StoredReason, sentenceOf } from '../../texts/reason.ts'
import { notifyFlow } from './flow-events.ts'

/** Pause and limit of a flow. `why`: the reason of a pause that the service set. */
export type SwitchState = {
  paused: boolean
  pausedAt: Date | null
  pausedBy: string | null
  reason: string | null
  why: StoredReason | null
  runLimit: number | null
  runCount: number
}

/** The state of each of these flows. */
export async function readSwitches(
  db: Db,
  flows: readonly string[],
): Promise<Map<string, SwitchState>> {
  const { rows } = await sql<SwitchState & { flow: string }>`
    select wanted.flow, pause.flow is not null as paused, paused_at as "pausedAt", paused_by as "pausedBy",
      reason, why, run_limit as "runLimit", coalesce(run_count, 0) as "runCount"
    from unnest(${flows}::text[]) as wanted (flow)
    left join flow_pause as pause on pause.flow = wanted.flow
    left join flow_limits on flow_limits.flow = wanted.flow`.execute(db)
  return new Map(rows.map(({ flow, ...state }) => [flow, state]))
}

/** Who pauses a flow: an operator, with an optional text, or the service, with a reason code. */
type PausedBy = { at: Date } & (
  | { by: string; reason: string | null }
  | { by: 'service'; why: Reason }
)

export async function listPausedFlows(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('flow_pause').select('flow').execute()
  return rows.map(({ flow }) => flow)
}

export async function isPaused(db: Db | Trx, flow: string): Promise<boolean> {
  const row = await db
    .selectFrom('flow_pause')
    .select('flow')
    .where('flow', '=', flow)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Pauses the flows. A paused flow keeps its first author and reason. Returns the flows that were not paused before.
 */
export async function insertPauses(
  trx: Trx,
  flows: readonly string[],
  pause: PausedBy,
): Promise<string[]> {
  if (flows.length === 0) return []
  const rows = await trx
    .insertInto('flow_pause')
    .values(flows.map((flow) => ({ flow, ...pauseColumns(pause) })))
    .onConflict((conflict) => conflict.column('flow').doNothing())
    .returning('flow')
    .execute()
  return rows.map(({ flow }) => flow)
}

function pauseColumns(pause: PausedBy) {
  const { at, by } = pause
  const own = 'why' in pause ? pause.why : undefined
  return {
    paused_at: at,
    paused_by: by,
    reason: 'why' in pause ? sentenceOf(pause.why, 'en') : pause.reason,
    why: own ? json(own) : null,
  }
}

/** Replaces author and reason of pauses that the service set for one of these reasons. Returns their flows. */
export async function takeOverPauses(
  trx: Trx,
  flows: readonly string[],
  codes: readonly ReasonCode[],
  pause: PausedBy,
): Promise<string[]> {
  if (flows.length === 0) return []
  const rows = await trx
    .updateTable('flow_pause')
    .set(pauseColumns(pause))
    .where('flow', 'in', [...flows])
    .where(isFor(codes))
    .returning('flow')
    .execute()
  return rows.map(({ flow }) => flow)
}

export async function deletePauses(trx: Trx, flows: readonly string[]): Promise<void> {
  if (flows.length === 0) return
  await trx
    .deleteFrom('flow_pause')
    .where('flow', 'in', [...flows])
    .execute()
}

/** Deletes a pause that the service set for this reason, and no other. Returns whether it existed. */
export async function deletePauseFor(trx: Trx, flow: string, code: ReasonCode): Promise<boolean> {
  const result = await trx
    .deleteFrom('flow_pause')
    .where('flow', '=', flow)
    .where(isFor([code]))
    .executeTakeFirst()
  return result.numDeletedRows === 1n
}

function isFor(codes: readonly ReasonCode[]): Expression<boolean> {
  return sql<boolean>`paused_by = 'service' and why->>'code' = any(${codes}::text[])`
}

/** Sets the limit and starts counting at 0. */
export async function upsertLimit(trx: Trx, flow: string, limit: number, now: Date): Promise<void> {
  const fields = { run_limit: limit, run_count: 0, set_at: now }
  await trx
    .insertInto('flow_limits')
    .values({ flow, ...fields })
    .onConflict((conflict) => conflict.column('flow').doUpdateSet(fields))
    .execute()
}

/** Of all flows, if none is named. */
export async function deleteLimits(
  trx: Trx,
  flows?: readonly string[],
  { areSpent = false }: { areSpent?: boolean } = {},
): Promise<void> {
  await trx
    .deleteFrom('flow_limits')
    .$if(flows !== undefined, (query) => query.where(sql<boolean>`flow = any(${flows}::text[])`))
    .$if(areSpent, (query) => query.where((eb) => eb('run_count', '>=', eb.ref('run_limit'))))
    .execute()
}

export type FlowActivity = {
  id: number
  at: Date
  flow: string | null
  action: string
  actor: string
  detail: string | null
  /** The reason of an action of the service itself. */
  why: StoredReason | null
}

export async function insertFlowActivity(
  trx: Trx,
  { why, ...entry }: Omit<FlowActivity, 'id' | 'why'> & { why?: Reason },
): Promise<void> {
  await trx
    .insertInto('flow_activity')
    .values({ ...entry, why: why ? json(why) : null })
    .returning(notifyFlow('state').as('notified'))
    .execute()
}

export async function listFlowActivity(
  db: Db,
  filter: { flow?: string | undefined },
  limit: number,
): Promise<FlowActivity[]> {
  let query = db.selectFrom('flow_activity').selectAll()
  if (filter.flow !== undefined) query = query.where('flow', '=', filter.flow)
  return query.orderBy('id', 'desc').limit(limit).execute()
}

/** Keeps the newest `keep` entries. */
export async function trimFlowActivity(db: Db, keep: number): Promise<void> {
  await db
    .deleteFrom('flow_activity')
    .where('id', '<=', (eb) =>
      eb
        .selectFrom('flow_activity')
        .select((inner) => sql<number>`${inner.fn.max('id')} - ${keep}`.as('oldest')),
    )
    .execute()
}
