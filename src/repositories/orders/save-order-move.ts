import type { Db, Trx } from '../../db/database.ts'
import { fixedStatement } from '../../db/statements.ts'
import { insertEntries, type NewActivity } from '../audit/activity-queries.ts'
import {
  insertOrderEvents,
  insertRefundEvents,
  type OrderEventValues,
} from '../events/event-log.ts'
import type { OrderOperationRow } from './order-operations.ts'
import type { OrderRow } from './order-queries.ts'
import { unknownList } from './state-lists.ts'

/** After so many webhooks in time the webhooks of an account count as arriving. */
const enoughInTime = 3
/** A webhook that comes so long after the status check that found its change is in time. */
const inTimeMs = 10_000
/** After so long without a webhook the webhooks of an account no longer count as arriving. */
const arrivingForMs = 3600_000
/** How often a row records that the webhooks of its account still arrive. */
const recordedEveryMs = 60_000
/** How many orders without their webhook are stored for an account. */
const ordersAtMost = 50

/** What reported a change of an order first: a webhook or a status check. */
export type ReportedBy = 'webhook' | 'status_check'

type WebhookValues = Record<'reported_at' | 'heard_since' | 'noted_since' | 'in_time_since', Date>

/** The values of the parts below. A process ignores what was recorded before its start (`startedAt`). */
function webhookValues(now: Date, startedAt: Date): WebhookValues {
  const sinceStart = (ms: number) => new Date(Math.max(now.getTime() - ms, startedAt.getTime()))
  return {
    reported_at: now,
    heard_since: sinceStart(arrivingForMs),
    noted_since: sinceStart(recordedEveryMs),
    in_time_since: new Date(now.getTime() - inTimeMs),
  }
}

/** Part of a statement: whether the webhooks of the account of `orders` arrive. */
const webhooksArrive = `exists (select from account_webhooks w
  where w.mp_user_id = orders.mp_user_id and w.in_time >= ${enoughInTime} and w.untold = '{}'
    and w.heard_at >= :heard_since::timestamptz)`

/**
 * Parts of a statement that moves an order (`moved`), by the reporter of the change. While webhooks arrive as before
 * nothing is written or locked, so that moves of one account do not wait for each other.
 */
const recordReport: Record<ReportedBy, string> = {
  webhook: `received as (
    update account_webhooks w set heard_at = :reported_at::timestamptz,
      in_time = case when w.untold <> '{}' and w.untold_at < :in_time_since::timestamptz then 1
        else least(w.in_time, ${enoughInTime}) + 1 end,
      untold = case when w.untold_at < :in_time_since::timestamptz then '{}' else array_remove(w.untold, moved.id) end
    from moved where w.mp_user_id = moved.mp_user_id
      and (w.in_time < ${enoughInTime} or w.untold <> '{}' or w.heard_at < :noted_since::timestamptz)
  ), first_heard as (
    insert into account_webhooks (mp_user_id, in_time, heard_at)
    select moved.mp_user_id, 1, :reported_at::timestamptz from moved
    where not exists (select from account_webhooks w where w.mp_user_id = moved.mp_user_id)
    on conflict (mp_user_id) do nothing
  )`,
  status_check: `untold as (
    update account_webhooks w set untold = array_append(w.untold, moved.id), untold_at = :reported_at::timestamptz
    from moved where w.mp_user_id = moved.mp_user_id and cardinality(w.untold) < ${ordersAtMost}
  )`,
}

/** The same for a webhook that changed nothing: a status check may have been a little faster. */
const recordRepeatedReport = `received as (
  update account_webhooks w set untold = array_remove(w.untold, :id::uuid), heard_at = :reported_at::timestamptz
  where w.mp_user_id = :mp_user_id::bigint and :id::uuid = any(w.untold)
    and w.untold_at >= :in_time_since::timestamptz
)`

/** The columns that a move may change. */
const moved = [
  'creation',
  'mp_order_id',
  'status',
  'status_detail',
  'version',
  'payments',
  'refunds',
  'paid_cents',
  'refunded_cents',
  'paid_after_close',
  'surplus',
  'conflict',
  'unknown_status',
  'cancel_requested_at',
  'unanswered_at',
  'reopened_at',
  'expires_at',
  'last_updated_at',
  'refund_contradicted',
  'refund_settled',
  'settled_as',
  'settled_at',
  'settled_reason',
  'currency',
] as const satisfies (keyof OrderRow)[]

/** How a cancel or refund ends, with the move that its answer caused. */
export type OperationEnd = Pick<OrderOperationRow, 'id' | 'amount_cents' | 'mp_refund_id'> & {
  state: 'done' | 'refused'
  providerCode: string | null
  finishedAt: Date | null
}

/** What is written in the same statement as a move. */
export type Along = {
  /** Entries of the audit log. With `ends` they are written only if that operation was still open. */
  entries?: readonly NewActivity[] | undefined
  ends?: OperationEnd | undefined
  /** The lease on the order's key to release. */
  frees?: string | undefined
  /** The move is written only while this owner has the lease. */
  onlyOf?: string | undefined
  /** The webhook that is processed by a move of source `webhook`. */
  webhook?: { id: string; endedAt: Date; durationMs: number } | undefined
}

/** The time of the next status check. `whileWebhooksArrive` is a later time to use while the webhooks of the account arrive. */
export type NextCheck = { at: Date | null; whileWebhooksArrive: Date | null }

/** What reported a change; it shows whether the webhooks of the account arrive. `startedAt`: when this process started. */
type ChangeReport = { reportedBy: ReportedBy | null; now: Date; startedAt: Date }

type OrderMove = {
  before: OrderRow
  after: OrderRow
  source: string
  note: string | null
  next: NextCheck
  report: ChangeReport
  events: OrderEventValues
} & Along

const nextCheck = `next_check_at = case when :while_webhooks::timestamptz is not null and ${webhooksArrive}
  then :while_webhooks::timestamptz else :next_check_at::timestamptz end`

type CheckValues = { next_check_at: Date | null; while_webhooks: Date | null } & WebhookValues

function checkValues(
  { at, whileWebhooksArrive }: NextCheck,
  { now, startedAt }: Pick<ChangeReport, 'now' | 'startedAt'>,
): CheckValues {
  return {
    next_check_at: at,
    while_webhooks: whileWebhooksArrive,
    ...webhookValues(now, startedAt),
  }
}

type MovedRow = OrderRow & { has_ended: boolean }

/** The columns after the move, the order before it, and what is written along. Lists are JSON texts. */
type MoveValues = Omit<Pick<OrderRow, (typeof moved)[number]>, 'payments' | 'refunds'> &
  CheckValues &
  OrderEventValues & {
    payments: string
    refunds: string
    id: string
    known_version: number
    known_unanswered: Date | null
    from_status: string
    source: string
    note: string | null
    frees: string | undefined
    only_of: string | undefined
    ended_id: string | undefined
    ended_state: 'done' | 'refused' | undefined
    ended_refund: string | null | undefined
    ended_cents: number | null | undefined
    provider_code: string | null | undefined
    finished_at: Date | null | undefined
    entries: string
    webhook_id: string | undefined
    processed_at: Date | undefined
    duration_ms: number | undefined
  }

const writeWith = (report: string) =>
  fixedStatement<MoveValues, MovedRow>(`
  with moved as (
    update orders set ${moved.map((column) => `${column} = :${column}`).join(', ')}, ${nextCheck},
      sender = case when sender = :frees::uuid then null else sender end,
      sender_until = case when sender = :frees::uuid then null else sender_until end,
      refund_open = case when :ended_id::uuid is null then refund_open else exists (
        select from order_operations where order_id = :id and kind = 'refund'
          and state in (${unknownList}) and id <> :ended_id::uuid) end,
      refund_unclear = case when :ended_id::uuid is null then refund_unclear end
    where id = :id and version = :known_version
      and unanswered_at is not distinct from :known_unanswered::timestamptz
      and (:only_of::uuid is null or sender = :only_of::uuid)
    returning *
  ), ended as (
    update order_operations set state = :ended_state, finished_at = :finished_at, next_attempt_at = null,
      mp_refund_id = :ended_refund, amount_cents = :ended_cents, provider_code = :provider_code,
      sender = null, sender_until = null, unanswered_at = null
    from moved where order_operations.id = :ended_id::uuid
      and (order_operations.state in (${unknownList}) or order_operations.state = 'refused' and :ended_state = 'done')
    returning order_operations.*
  ), event as (
    insert into order_events (order_id, client, at, source, from_status, to_status, status_detail, version, note)
    select id, client, last_updated_at, :source, :from_status, status, status_detail, version, :note from moved
  ), ${insertOrderEvents}, ${insertRefundEvents('ended')}, ${report} ${insertEntries(
    'exists (select from moved) and (:ended_id::uuid is null or exists (select from ended))',
  )}
  select moved.*, exists (select from ended) as has_ended from moved`)

const write = {
  none: writeWith(''),
  webhook: writeWith(`${recordReport.webhook}, worked as (
    update webhook_log set status = 'processed', client = moved.client, order_id = moved.id, error_message = null,
      next_attempt_at = null, processed_at = :processed_at, duration_ms = :duration_ms, attempts = attempts + 1
    from moved where webhook_log.id = :webhook_id::uuid
  ),`),
  status_check: writeWith(`${recordReport.status_check},`),
}

/**
 * Writes a move with its history in one statement. Undefined when the order has changed since `before` was read: then
 * nothing is written, and the caller reads it again.
 */
export async function writeOrderMove(
  db: Db | Trx,
  { before, after, source, note, next, report, events, ...along }: OrderMove,
): Promise<{ order: OrderRow; hasEnded: boolean } | undefined> {
  const { entries, ends, frees, onlyOf, webhook } = along
  const [row] = await write[report.reportedBy ?? 'none'](db, {
    ...after,
    ...checkValues(next, report),
    ...events,
    payments: JSON.stringify(after.payments),
    refunds: JSON.stringify(after.refunds),
    id: before.id,
    known_version: before.version,
    known_unanswered: before.unanswered_at,
    from_status: before.status,
    source,
    note,
    frees,
    only_of: onlyOf,
    ended_id: ends?.id,
    ended_state: ends?.state,
    ended_refund: ends?.mp_refund_id,
    ended_cents: ends?.amount_cents,
    provider_code: ends?.providerCode,
    finished_at: ends?.finishedAt,
    entries: JSON.stringify(entries ?? []),
    webhook_id: webhook?.id,
    processed_at: webhook?.endedAt,
    duration_ms: webhook?.durationMs,
  })
  if (!row) return undefined
  const { has_ended: hasEnded, ...order } = row
  return { order, hasEnded }
}

type StatusCheck = { checkedAt: Date | null; next: NextCheck; report: ChangeReport }

const statusCheckWith = (report: string) =>
  fixedStatement<
    Pick<OrderRow, 'id' | 'version' | 'mp_user_id'> & CheckValues & { checked_at: Date | null },
    OrderRow
  >(`
  ${report} update orders set ${nextCheck}, checked_at = coalesce(:checked_at, checked_at),
    checks = checks + case when :checked_at::timestamptz is null then 0 else 1 end
  where id = :id and version = :version returning *`)

const writeCheck = {
  status_check: statusCheckWith(''),
  webhook: statusCheckWith(`with ${recordRepeatedReport}`),
}

/**
 * Records a status check that found nothing new and plans the next one. The version stays. Undefined when the order has
 * moved.
 */
export async function recordStatusCheck(
  db: Db | Trx,
  { id, version, mp_user_id }: Pick<OrderRow, 'id' | 'version' | 'mp_user_id'>,
  { checkedAt, next, report }: StatusCheck,
): Promise<OrderRow | undefined> {
  const [row] = await writeCheck[report.reportedBy ?? 'status_check'](db, {
    id,
    version,
    mp_user_id,
    checked_at: checkedAt,
    ...checkValues(next, report),
  })
  return row
}

/** Status checks of an order that found nothing new. */
export type StatusCheckNote = Pick<OrderRow, 'id' | 'version'> & {
  checkedAt: Date
  next: NextCheck
  /** The time of the next status check when the order was read. */
  knownNext: Date | null
  /** The number of status checks. */
  times: number
}

const noteAll = fixedStatement<WebhookValues & { checks: string }, never>(`
  with checked as (
    select * from jsonb_to_recordset(:checks::jsonb) as checked (id uuid, version integer, checked_at timestamptz, times integer,
      known_next timestamptz, next_check_at timestamptz, while_webhooks timestamptz)
  ), free as (
    select orders.id from orders join checked on checked.id = orders.id and checked.version = orders.version
    for update of orders skip locked
  )
  update orders set checked_at = checked.checked_at, checks = checks + checked.times,
    next_check_at = case when orders.next_check_at is distinct from checked.known_next then orders.next_check_at
      when checked.while_webhooks is not null and ${webhooksArrive} then checked.while_webhooks else checked.next_check_at end
  from checked where orders.id = checked.id and orders.id in (select id from free)`)

/**
 * Records earlier status checks of orders that have not moved since. Skips locked orders, and next checks that were
 * planned again meanwhile.
 */
export async function recordStatusChecks(
  db: Db,
  notes: readonly StatusCheckNote[],
  by: Pick<ChangeReport, 'now' | 'startedAt'>,
): Promise<void> {
  const checks = notes.map(({ id, version, checkedAt, next, knownNext, times }) => ({
    id,
    version,
    checked_at: checkedAt,
    times,
    known_next: knownNext,
    next_check_at: next.at,
    while_webhooks: next.whileWebhooksArrive,
  }))
  await noteAll(db, { checks: JSON.stringify(checks), ...webhookValues(by.now, by.startedAt) })
}
