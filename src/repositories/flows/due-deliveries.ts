import { type RawBuilder, sql } from 'kysely'
import type { KeptBody, RememberedNames } from '../../db/column-types.ts'
import type { Database, Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { type LeaseToken, leaseCondition } from '../leases.ts'
import { type FollowedUpserts, firstUpsert, type ItemClaim } from './claims.ts'
import {
  type DeliveryRow,
  needsApproval,
  type PendingDelivery,
  type SendTarget,
} from './deliveries.ts'
import type { DeliveryTarget, OutcomeTarget } from './delivery-target.ts'
import { contentOfDone } from './item-versions.ts'
import { inKeyOrder } from './key-order.ts'

/** A place in the order in which a destination gets its deliveries. */
type Place = { dueAt: string; queuedAt: string; pk: string }

/** How far a walk has come: among deliveries due at once, and among those that had to wait. */
type DuePlaces = { fresh: Place; late: Place }

/** `needsApproval`: nothing may be sent to the destination now. */
type DueRow = PendingDelivery & Place & { isLate: boolean; needsApproval: boolean }

export const beforeAllDue: DuePlaces = {
  fresh: { dueAt: '-infinity', queuedAt: '-infinity', pk: '' },
  late: { dueAt: '-infinity', queuedAt: 'infinity', pk: '' },
}

/**
 * Reads deliveries that are due by the database's clock, after `after`: `limit` rows whose time has come, and `limit`
 * due at once, oldest first; with `deletesFollow` no deletes that follow waiting upserts. A time more than `furthestMs` ahead
 * was written before the clock was set back, and counts as due.
 * Bounds over the index columns lead every planner to that index, once the table has statistics. Before, walkDue does.
 */
export function dueDeliveries(
  target: SendTarget,
  page: {
    after: DuePlaces
    furthestMs: number
    limit: number
    deletesFollow?: FollowedUpserts | undefined
  },
): RawBuilder<DueRow> {
  const { flow, destination } = target
  // In the same statement: where a delete is seen, the upserts of its read are. Planning takes longer than reading a page,
  // so what all parts need stands there once. The first upsert is looked for only where there is a delete.
  const { deletesFollow } = page
  const first =
    deletesFollow &&
    sql`, first as materialized (select (${firstUpsert(target, deletesFollow)}) as change)`
  const mayGo = deletesFollow
    ? sql`and (kind = 'upsert' or change_number < coalesce((select change from first), 'infinity'::float8))`
    : sql``
  const rowsOf = (after: Place, last: RawBuilder<boolean>, isLate: boolean) => sql`
    (select pk, version, change_number, kind, hash, payload, state, attempts,
        delivered_hash, delivered_digest, delivered_body, may_have_arrived, asked, remembered,
        claim_exact, queued_at,
        due_at::text as "dueAt", queued_at::text as "queuedAt", ${sql.lit(isLate)} as "isLate",
        (select is_needed from approval) as "needsApproval"
      from deliveries
      where state = 'waiting'
        and (flow, destination, due_at, queued_at, pk) > (${flow}::text, ${destination}::text,
          ${after.dueAt}::timestamptz, ${after.queuedAt}::timestamptz, ${after.pk}::text)
        and ${last} ${mayGo}
      order by flow, destination, due_at, queued_at, pk
      limit ${page.limit})`
  const until = (time: RawBuilder<unknown>) =>
    sql<boolean>`(flow, destination, due_at) <= (${flow}::text, ${destination}::text, ${time})`
  const furthest = sql`now() + ${page.furthestMs} * interval '1 millisecond'`
  const farAhead = sql<boolean>`(flow, destination, due_at) > (${flow}::text, ${destination}::text, ${furthest})
        and (flow, destination) <= (${flow}::text, ${destination}::text)`
  const { fresh, late } = page.after
  return sql<DueRow>`
    with approval as materialized (select ${needsApproval(target)} as is_needed) ${first ?? sql``}
    ${rowsOf(late, until(sql`now()`), true)}
    union all ${rowsOf(late, farAhead, true)}
    union all ${rowsOf(fresh, until(sql`'-infinity'::timestamptz`), false)}`
}

/** Which of these destinations have a waiting delivery whose time has come. One statement, however many they are. */
export async function listDueTargets(
  db: Db,
  targets: readonly DeliveryTarget[],
): Promise<DeliveryTarget[]> {
  const { rows } = await sql<DeliveryTarget>`
    select flow, destination
    from unnest(${targets.map(({ flow }) => flow)}::text[], ${targets.map(({ destination }) => destination)}::text[])
      as target (flow, destination)
    where (select min(due_at) from deliveries
      where state = 'waiting' and flow = target.flow and destination = target.destination) <= now()`.execute(
    db,
  )
  return rows
}

type DueWalk = {
  /** The next rows, at most `limit`. Fewer rows mean the end; a further call continues after it. */
  next(limit: number): Promise<DueRow[]>
}

/**
 * Walks once over the due deliveries of a destination. A row that is queued meanwhile may lie before the current
 * place. With `deletesFollow` it leaves out deletes that follow waiting upserts (claims.ts).
 */
export function walkDue(
  database: Database,
  target: SendTarget,
  furthestMs: number,
  { deletesFollow }: { deletesFollow?: FollowedUpserts | undefined } = {},
): DueWalk {
  let after = beforeAllDue
  return {
    next: async (limit) => {
      const page = { after, furthestMs, limit, deletesFollow }
      const rows = await readPage(database, dueDeliveries(target, page))
      const isLate = (row: DueRow) => row.isLate
      const taken = [...rows.filter(isLate), ...rows.filter((row) => !row.isLate)].slice(0, limit)
      after = {
        late: taken.findLast(isLate) ?? after.late,
        fresh: taken.findLast((row) => !row.isLate) ?? after.fresh,
      }
      return taken
    },
  }
}

/** Databases whose table of deliveries has statistics. It never loses them. */
const counted = new WeakSet<Database>()

/** In a first import, before the table has statistics, the planner would read and sort all that wait for each page. */
async function readPage(database: Database, page: RawBuilder<DueRow>): Promise<DueRow[]> {
  if (counted.has(database)) return (await page.execute(database.db)).rows
  const { rows } = await sql<{ isCounted: boolean }>`
    select reltuples >= 0 as "isCounted" from pg_class where oid = 'deliveries'::regclass`.execute(
    database.db,
  )
  if (rows[0]?.isCounted) counted.add(database)
  return await inKeyOrder(database, async (trx) => (await page.execute(trx)).rows)
}

/** An attempt at an item. `delivered` says which version arrived, and how. `digest` and `body`: see deliver/item-body.ts. */
type AttemptedRow = {
  pk: string
  delivered?: {
    version: number
    attempts: number
    status: number | null
    digest?: string
    body?: KeptBody | undefined
    claim?: ItemClaim | undefined
    remember?: RememberedNames | undefined
    /** What is remembered of the item is no longer valid. */
    forget?: boolean
  }
}

type CompletedRow = Pick<DeliveryRow, 'pk' | 'version' | 'state' | 'may_have_arrived'> & {
  isDone: boolean
}

/** The destination whose rows are completed. `keepsHistory` also records deliveries for the operator. */

/**
 * Like completeDelivered, as a single statement, so that rows are not locked during a round trip. It checks the lease
 * first and writes nothing without it (null: no check), and adds to the totals. Returns the keys that are done; other
 * rows stay unchanged.
 */
export async function completeArrived(
  db: Db,
  target: OutcomeTarget,
  arrived: readonly Required<AttemptedRow>[],
  at: Date,
  lease: LeaseToken | null,
): Promise<Set<string>> {
  const rows = await completeDelivered(db, target, arrived, at, { lease })
  return new Set(rows.filter(({ isDone }) => isDone).map(({ pk }) => pk))
}

/**
 * Locks the rows in key order until the transaction ends. A waiting row whose current version arrived is done, and
 * its payload is removed unless nothing else has it. Returns the rows as they were, and whether they are done.
 */
export async function completeDelivered(
  db: Db | Trx,
  target: OutcomeTarget,
  tried: readonly AttemptedRow[],
  at: Date,
  alone?: { lease: LeaseToken | null },
): Promise<CompletedRow[]> {
  const { flow, destination, keepsHistory } = target
  const given = tried.map(({ pk, delivered: arrived }) => ({
    pk,
    version: arrived?.version,
    attempts: arrived?.attempts,
    status: arrived?.status,
    digest: arrived?.digest,
    body: arrived?.body,
    claim: arrived?.claim?.folded,
    claim_exact: arrived?.claim?.exact,
    remember: arrived?.remember,
    forgets: arrived?.forget === true,
  }))
  const leased = alone?.lease && sql`leased as materialized (${leaseCondition(alone.lease)}),`
  const history = sql`, recorded as (
      insert into item_attempts
        (flow, destination, at, pk, kind, hash, attempt, outcome, status, reason)
      select ${flow}, ${destination}, ${at}::timestamptz, pk, done.kind, done.hash,
        locked.attempts, 'delivered', locked.status, null
      from done join locked using (pk)
    )`
  const counted = sql`, counted as (${addsCompleted(flow, sql`(select count(*) from done)`)})`
  // One statement, because each more is a round trip for every group. JSON instead of arrays: the planner makes a new
  // plan for each array length, which doubles the time for a group of one.
  const { rows } = await sql<CompletedRow>`
    with ${leased || sql``} locked as materialized (
      select row.*, wanted.attempts, wanted.status, wanted.digest, wanted.body, wanted.claim, wanted.claim_exact,
        wanted.remember, wanted.forgets,
        row.state = 'waiting' and row.version is not distinct from wanted.version as "isCurrent"
      from (
        select * from jsonb_to_recordset(${json(given)}::jsonb)
          as given (pk text, version bigint, attempts integer, status integer, digest text, body jsonb, claim text,
            claim_exact text, remember jsonb, forgets boolean)
        ${leased ? sql`where exists (select from leased)` : sql``}
        order by pk
      ) as wanted cross join lateral (
        select pk, version, state, may_have_arrived, ctid as place from deliveries
        where (flow, destination, pk) = (${flow}, ${destination}, wanted.pk)
        limit 1
        for update
      ) as row
    ), done as (
      update deliveries set
        state = 'done', delivered_hash = hash, delivered_at = ${at}, finished_at = ${at},
        payload = ${contentOfDone(target)}, last_error = null, last_status = null, why = null, not_before = null,
        may_have_arrived = false, delivered_digest = locked.digest, delivered_body = locked.body,
        claim = locked.claim, claim_exact = locked.claim_exact, asked = null,
        remembered = case when not forgets then coalesce(locked.remember, deliveries.remembered) end
      from locked
      where deliveries.ctid = locked.place and "isCurrent"
      returning deliveries.pk, kind, hash
    )${keepsHistory ? history : sql``}${alone ? counted : sql``}
    select locked.pk, locked.version, locked.state, locked.may_have_arrived, done.pk is not null as "isDone"
    from locked left join done using (pk)`.execute(db)
  return rows
}

/**
 * Adds to the lifetime counts. The row stays locked until the transaction ends, so call it last. `alongside` is a
 * statement that writes other rows in the same round trip.
 */
export async function addJobTotals(
  trx: Trx,
  flow: string,
  jobs: { completed: number; failed: number },
  alongside?: RawBuilder<object>,
): Promise<void> {
  const query = alongside ? trx.with('alongside', () => sql<object>`(${alongside})`) : trx
  await query
    .insertInto('flow_totals')
    .values({ flow, jobs_completed: jobs.completed, jobs_failed: jobs.failed })
    .onConflict((conflict) =>
      conflict.column('flow').doUpdateSet((eb) => ({
        jobs_completed: eb('flow_totals.jobs_completed', '+', jobs.completed),
        jobs_failed: eb('flow_totals.jobs_failed', '+', jobs.failed),
      })),
    )
    .execute()
}

/** The part of a statement that adds to the lifetime count of deliveries. It takes its lock last. */
function addsCompleted(flow: string, completed: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    insert into flow_totals (flow, jobs_completed, jobs_failed) values (${flow}, ${completed}, 0)
    on conflict (flow) do update set
      jobs_completed = flow_totals.jobs_completed + excluded.jobs_completed`
}
