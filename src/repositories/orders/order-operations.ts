import { type Insertable, type RawBuilder, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { fixedStatement } from '../../db/statements.ts'
import type { OrderOperationsTable } from '../../db/tables.ts'
import type { ProviderRefund } from '../../domain/order.ts'
import { unknownResults } from '../../domain/order-state.ts'
import { insertEntries, type NewActivity } from '../audit/activity-queries.ts'
import { columnHasCome, furthestMs, type LeaseLimits, limitOfAccount } from '../due-work.ts'
import { insertDoubtEvents, insertRefundEvents } from '../events/event-log.ts'
import type { OrderRow } from './order-queries.ts'
import { listOf, unknownList } from './state-lists.ts'

export type OrderOperationRow = Selectable<OrderOperationsTable>

type NewCancel = Pick<
  Required<Insertable<OrderOperationsTable>>,
  'id' | 'next_attempt_at' | 'sender' | 'sender_until' | 'unanswered_at' | 'created_at' | 'asked_by'
>

const cancel = fixedStatement<NewCancel & { order_id: string }, OrderOperationRow>(`
  with locked as (
    select id, client from orders where id = :order_id and status in (${listOf('holdsTerminal')}) for update
  )
  insert into order_operations (id, order_id, client, kind, state, next_attempt_at, sender, sender_until, unanswered_at,
    created_at, asked_by)
  select :id::uuid, id, client, 'cancel', 'intent', :next_attempt_at::timestamptz, :sender::uuid,
    :sender_until::timestamptz, :unanswered_at::timestamptz, :created_at::timestamptz, :asked_by::jsonb from locked
  on conflict (order_id, kind) where state in (${unknownList}) do nothing
  returning *`)

/** Inserts the intent of a cancel. Undefined when one is open, or the order can no longer be canceled. */
export async function insertCancel(
  db: Db,
  orderId: string,
  intent: NewCancel,
): Promise<OrderOperationRow | undefined> {
  const [row] = await cancel(db, { ...intent, order_id: orderId })
  return row
}

/** The open cancel or refund of this order. */
export async function findOpenOperation(
  db: Db | Trx,
  orderId: string,
  kind: 'cancel' | 'refund',
): Promise<OrderOperationRow | undefined> {
  return db
    .selectFrom('order_operations')
    .selectAll()
    .where('order_id', '=', orderId)
    .where('kind', '=', kind)
    .where('state', 'in', unknownResults)
    .executeTakeFirst()
}

export async function findOperation(
  db: Db | Trx,
  id: string,
): Promise<OrderOperationRow | undefined> {
  return db.selectFrom('order_operations').selectAll().where('id', '=', id).executeTakeFirst()
}

const list = fixedStatement<{ order_ids: readonly string[] }, OrderOperationRow>(
  'select * from order_operations where order_id = any(:order_ids::uuid[]) order by created_at',
)

export async function listOperations(
  db: Db | Trx,
  orderIds: readonly string[],
): Promise<OrderOperationRow[]> {
  return orderIds.length === 0 ? [] : list(db, { order_ids: orderIds })
}

/** The operations of an order, locked until the transaction ends. */
export async function lockOperations(trx: Trx, orderId: string): Promise<OrderOperationRow[]> {
  return trx
    .selectFrom('order_operations')
    .selectAll()
    .where('order_id', '=', orderId)
    .orderBy('created_at')
    .forUpdate()
    .execute()
}

/** Stores a person's decision on a refund, with the provider's refunds that the person saw, and its effect on the operation. */
export async function keepRefundDecision(
  trx: Trx,
  { id, order_id }: Pick<OrderOperationRow, 'id' | 'order_id'>,
  decision: {
    as: 'refunded' | 'not_refunded'
    at: Date
    reason: string
    possible: readonly ProviderRefund[]
    mpRefundId: string | null
    amountCents: number
  },
): Promise<void> {
  const isMade = decision.as === 'refunded'
  await trx
    .updateTable('order_operations')
    .set({
      state: isMade ? 'done' : 'refused',
      mp_refund_id: decision.mpRefundId,
      amount_cents: decision.amountCents,
      provider_code: isMade ? null : 'said_not_made',
      finished_at: decision.at,
      next_attempt_at: null,
      sender: null,
      sender_until: null,
      settled_as: decision.as,
      settled_at: decision.at,
      settled_reason: decision.reason,
      possible_refunds: JSON.stringify(decision.possible),
    })
    .where('id', '=', id)
    .execute()
  await writeRefundEvent(trx, { id })
  // At most one refund of an order is open.
  await trx
    .updateTable('orders')
    .set({ refund_open: false, refund_unclear: null })
    .where('id', '=', order_id)
    .execute()
}

const writeRefundEvent = fixedStatement<{ id: string }, never>(`
  with ended as (select * from order_operations where id = :id), ${insertRefundEvents('ended')} select`)

/** Ends a refund that the provider had accepted: done, or failed, which counts as refused. */
export async function finishRefund(
  trx: Trx,
  id: string,
  { hasFailed, at }: { hasFailed: boolean; at: Date },
): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('order_operations')
    .set({
      finished_at: at,
      ...(hasFailed && { state: 'refused' as const, provider_code: 'refund_failed' }),
    })
    .where('id', '=', id)
    .where('state', '=', 'done')
    .executeTakeFirst()
  if (numUpdatedRows > 0n) await writeRefundEvent(trx, { id })
}

/** Plans the next attempt of an operation that is still open. */
export async function planAttempt(db: Db | Trx, id: string, at: Date): Promise<void> {
  await db
    .updateTable('order_operations')
    .set({ next_attempt_at: at })
    .where('id', '=', id)
    .where('state', 'in', unknownResults)
    .execute()
}

type SettleValues = {
  id: string
  state: 'unknown' | 'done' | 'refused'
  finished_at: Date | null
  next_attempt_at: Date | null | undefined
  has_refund: boolean
  mp_refund_id: string | null | undefined
  has_code: boolean
  provider_code: string | null | undefined
  amount_cents: number | undefined
  sender: string | undefined
  unclear: string | undefined
  possible_refunds: string | undefined
  entries: string
}

const settle = fixedStatement<SettleValues, { id: string }>(`
  with settled as (
    update order_operations set state = :state, finished_at = :finished_at, next_attempt_at = :next_attempt_at,
      mp_refund_id = case when :has_refund::boolean then :mp_refund_id else mp_refund_id end,
      provider_code = case when :has_code::boolean then :provider_code else provider_code end,
      possible_refunds = coalesce(:possible_refunds::jsonb, possible_refunds),
      amount_cents = coalesce(:amount_cents::bigint, amount_cents)
    where id = :id and (state in (${unknownList}) or state = 'refused' and :state = 'done')
      and (:sender::uuid is null or sender = :sender::uuid)
    returning *
  ), noted as (
    update orders set refund_open = :state = 'unknown' or exists (
      select from order_operations open where open.order_id = orders.id and open.kind = 'refund'
        and open.state in (${unknownList}) and open.id <> :id),
      refund_unclear = case when :state = 'unknown' then coalesce(:unclear::text, orders.refund_unclear) end
    from settled, orders as before
    where orders.id = settled.order_id and settled.kind = 'refund' and before.id = orders.id
    returning orders.*, before.standing as standing_before
  ), ${insertDoubtEvents('noted')}, ${insertRefundEvents('settled')}, ${insertEntries('exists (select from settled)')}
  select id from settled`)

/**
 * Ends an open operation, with its audit entries. Returns whether it was open. `done` also ends one that another
 * process recorded as refused. With `sender` only while that owner has the lease.
 */
export async function settleOperation(
  db: Db | Trx,
  id: string,
  outcome: {
    state: 'unknown' | 'done' | 'refused'
    mpRefundId?: string | null
    /** The refunded amount in cents, when it differs from the requested one. */
    amountCents?: number | undefined
    providerCode?: string | null
    finishedAt: Date | null
    nextAttemptAt?: Date | null
    sender?: string | undefined
    entries?: readonly NewActivity[]
    /** Why a person must decide how the refund ended. Kept until the refund has ended. */
    unclear?: { why: string; possible: readonly ProviderRefund[] }
  },
): Promise<boolean> {
  const settled = await settle(db, {
    id,
    state: outcome.state,
    finished_at: outcome.finishedAt,
    next_attempt_at: outcome.nextAttemptAt,
    has_refund: outcome.mpRefundId !== undefined,
    mp_refund_id: outcome.mpRefundId,
    has_code: outcome.providerCode !== undefined,
    provider_code: outcome.providerCode,
    amount_cents: outcome.amountCents,
    sender: outcome.sender,
    unclear: outcome.unclear?.why,
    possible_refunds: outcome.unclear && JSON.stringify(outcome.unclear.possible),
    entries: JSON.stringify(outcome.entries ?? []),
  })
  return settled.length > 0
}

/** An operation with the provider account of its order. */
type DueOperation = OrderOperationRow & { mp_user_id: number }

/**
 * Takes due open operations by moving their next attempt into the future. The longest due of each provider account come
 * first.
 */
export async function leaseDueOperations(
  db: Db | Trx,
  now: Date,
  leaseUntil: Date,
  limits: LeaseLimits,
): Promise<DueOperation[]> {
  const isDue = (column: string) => columnHasCome(column, now, furthestMs.operation)
  return db
    .updateTable('order_operations')
    .from('orders')
    .whereRef('orders.id', '=', 'order_operations.order_id')
    .set((eb) => ({
      next_attempt_at: leaseUntil,
      attempts: eb('order_operations.attempts', '+', 1),
    }))
    .where('order_operations.id', 'in', (eb) =>
      eb
        .selectFrom('order_operations')
        .select('id')
        .where('id', 'in', (ranked) =>
          ranked
            .selectFrom((due) =>
              due
                .selectFrom('order_operations as open')
                .innerJoin('orders as own', 'own.id', 'open.order_id')
                .select((row) => [
                  'open.id',
                  'own.mp_user_id',
                  row.fn
                    .agg<number>('row_number')
                    .over((over) =>
                      over.partitionBy('own.mp_user_id').orderBy('open.next_attempt_at'),
                    )
                    .as('place'),
                ])
                .where('open.state', 'in', unknownResults)
                .where(isDue('open.next_attempt_at'))
                .as('due'),
            )
            .select('due.id')
            .where('due.place', '<=', limitOfAccount('due.mp_user_id', limits)),
        )
        .orderBy('next_attempt_at')
        .limit(limits.limit)
        .forUpdate()
        .skipLocked(),
    )
    .where(isDue('order_operations.next_attempt_at'))
    .returningAll('order_operations')
    .returning('orders.mp_user_id')
    .execute()
}

/** The charge that was made instead of an order that counted as not paid. */
export type ChargedInstead = Pick<
  OrderRow,
  'id' | 'external_reference' | 'amount_cents' | 'created_at' | 'status'
>

/** An equal amount later than this is a separate sale. */
const sameAmountWithin = sql.lit('24 hours')

/**
 * From `order_figures as instead`: the paid charge of the same client and box after the order `late`. It has the same
 * reference, or the same amount soon after a person settled `late`. The same reference comes first, then the earliest
 * charge.
 */
export const chargedInstead: RawBuilder<unknown> = sql`
  from order_figures as instead
  where instead.client = late.client and instead.caja_id = late.caja_id and instead.id <> late.id
    and instead.created_at > late.created_at
    and instead.is_charged
    and (normalize(instead.external_reference) = normalize(late.external_reference)
      or (instead.amount_cents = late.amount_cents
        and instead.created_at > coalesce(late.settled_at, late.created_at)
        and instead.created_at < coalesce(late.settled_at, late.created_at) + interval ${sameAmountWithin}))
  order by normalize(instead.external_reference) = normalize(late.external_reference) desc, instead.created_at
  limit 1`

/** The charge that was made instead of each of these orders, by the id of the order. */
export async function findChargedInstead(
  db: Db,
  orderIds: readonly string[],
): Promise<Map<string, ChargedInstead>> {
  if (orderIds.length === 0) return new Map()
  const { rows } = await sql<ChargedInstead & { late_id: string }>`
    select late.id as late_id, found.* from orders as late
    cross join lateral (
      select instead.id, instead.external_reference, instead.amount_cents, instead.created_at, instead.status
      ${chargedInstead}
    ) as found
    where late.id = any(${[...orderIds]}::uuid[])`.execute(db)
  return new Map(rows.map(({ late_id: id, ...instead }) => [id, instead]))
}
