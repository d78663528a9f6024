import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { isOwn } from '../../domain/money.ts'
import type { Payment } from '../../domain/order.ts'
import { statesThat, throughStatuses } from '../../domain/order-state.ts'
import type { OrderRow } from '../orders/order-queries.ts'
import { statesOf } from '../orders/state-lists.ts'
import { insertUnclaimedEvent } from './unclaimed-events.ts'

/** The reason of an unclaimed payment that this service has ended, not a person. */
const namedReason = 'the order names this payment as its own'

/**
 * Paid orders that changed since, with a payment that they do not name, or that name a further payment of theirs or a payment
 * without an order.
 */
export async function listOrdersToSeparate(
  db: Db,
  client: ClientName,
  since: Date,
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with changed as materialized (
      select id, payments from orders
      where client = ${client} and last_updated_at >= ${since}::timestamptz and paid_cents > 0
    )
    select changed.id from changed join provider_payments payment on payment.order_id = changed.id
    where payment.status = any(${throughStatuses}::text[])
      and not exists (select from jsonb_array_elements(changed.payments) named
        where named ->> 'referenceId' = payment.payment_id and named -> 'isSurplus' is null)
    union
    select changed.id from changed, jsonb_array_elements(changed.payments) named
      join provider_payments payment on payment.client = ${client} and payment.payment_id = named ->> 'referenceId'
    where payment.order_id is null and (payment.surplus_of = changed.id or payment.surplus_of is null)
      and payment.status = any(${throughStatuses}::text[]) and named -> 'isSurplus' is null
    limit 200`.execute(db)
  return rows.map(({ id }) => id)
}

/** Orders that ended without a payment and have an approved payment that changed since, and after their last read. */
export async function listUnpaidWithPayment(
  db: Db,
  client: ClientName,
  since: Date,
): Promise<OrderRow[]> {
  const { rows } = await sql<{ id: string }>`
    with changed as materialized (
      select order_id, changed_at from provider_payments
      where client = ${client} and changed_at >= ${since}::timestamptz and status = 'approved' and order_id is not null
    )
    select distinct orders.id from changed join orders on orders.id = changed.order_id
    where orders.paid_cents = 0 and orders.status in (${statesOf('closedUnpaid')})
      and (orders.checked_at is null or orders.checked_at < changed.changed_at)
    limit 50`.execute(db)
  if (rows.length === 0) return []
  return db
    .selectFrom('orders')
    .selectAll()
    .where('client', '=', client)
    .where(
      'id',
      'in',
      rows.map(({ id }) => id),
    )
    .execute()
}

/**
 * Separates further payments from their orders. An order's own payment is the one it names, or the first if it names
 * none. Nothing is separated while an order is open, or before the named payment was read. A payment that its order
 * names later is linked to it, as is one that was read before its order was known: the ids of these orders are returned,
 * and those of further payments that were taken for the order's own before, and wait for a decision again.
 */
export async function separateSurplus(
  trx: Trx,
  client: ClientName,
  orderIds: readonly string[],
  now: Date,
): Promise<{ linkedAgain: string[]; openAgain: string[] }> {
  const linkedAgain: string[] = []
  const openAgain: string[] = []
  const changed = { linkedAgain, openAgain }
  if (orderIds.length === 0) return changed
  const orders = await trx
    .selectFrom('orders')
    .select(['id', 'payments', 'paid_cents'])
    .where('client', '=', client)
    .where('id', 'in', [...orderIds])
    .where('creation', '=', 'confirmed')
    .where('status', 'not in', statesThat('open'))
    .orderBy('id')
    .execute()
  if (orders.length === 0) return changed
  const ids = orders.map(({ id }) => id)
  const ownOf = ({ payments }: { payments: Payment[] }) =>
    payments.filter(isOwn).flatMap(({ referenceId }) => referenceId ?? [])
  const named = orders.flatMap(ownOf)
  const rows = await trx
    .selectFrom('provider_payments')
    .select(['payment_id', 'order_id', 'surplus_of'])
    .where('client', '=', client)
    .where('status', 'in', throughStatuses)
    .where((eb) =>
      eb.or([
        eb('order_id', 'in', ids),
        eb.and([eb('surplus_of', 'in', ids), eb('order_id', 'is', null)]),
        eb.and([
          sql<boolean>`payment_id = any(${named}::text[])`,
          eb('order_id', 'is', null),
          eb('surplus_of', 'is', null),
        ]),
      ]),
    )
    .orderBy('sold_at')
    .orderBy('payment_id')
    .execute()
  for (const { id, payments, paid_cents: paidCents } of orders) {
    const own = new Set(ownOf({ payments }))
    const isNamed = ({ payment_id }: { payment_id: string }) => own.has(payment_id)
    const ofOrder = rows.filter(
      (row) => (row.order_id ?? row.surplus_of) === id || (isAlone(row) && isNamed(row)),
    )
    const hasNamed = ofOrder.some(isNamed)
    // The payment that the order names is not read yet, so the further ones are not known.
    if (!hasNamed && paidCents > 0 && own.size > 0) continue
    const linked = ofOrder.filter(({ order_id }) => order_id === id)
    const surplus = hasNamed ? linked.filter((row) => !isNamed(row)) : linked.slice(1)
    if (await separate(trx, client, id, idsOf(surplus), now)) openAgain.push(id)
    const returned = idsOf(ofOrder.filter((row) => row.order_id === null && isNamed(row)))
    if (returned.length === 0) continue
    await relinkToOrder(trx, client, id, returned, now)
    linkedAgain.push(id)
  }
  return changed
}

function isAlone(row: { order_id: string | null; surplus_of: string | null }): boolean {
  return row.order_id === null && row.surplus_of === null
}

function idsOf(rows: readonly { payment_id: string }[]): string[] {
  return rows.map(({ payment_id }) => payment_id)
}

/** Returns whether one of them waits for a decision again. */
async function separate(
  trx: Trx,
  client: ClientName,
  orderId: string,
  paymentIds: string[],
  now: Date,
): Promise<boolean> {
  if (paymentIds.length === 0) return false
  await trx
    .updateTable('provider_payments')
    .set({ order_id: null, surplus_of: orderId })
    .where('client', '=', client)
    .where('payment_id', 'in', paymentIds)
    .execute()
  await trx
    .updateTable('settlement_rows')
    .set({ order_id: null, last_updated_at: now })
    .where('client', '=', client)
    .where('source_id', 'in', paymentIds)
    .where('order_id', '=', orderId)
    .execute()
  const opened = await trx
    .updateTable('orphans')
    .set({
      state: 'open',
      reason: null,
      settled_at: null,
      surplus_of: orderId,
      told_at: null,
      end_told_at: null,
    })
    .where('client', '=', client)
    .where('payment_id', 'in', paymentIds)
    .where('state', '=', 'dismissed')
    .where('reason', '=', namedReason)
    .returningAll()
    .execute()
  for (const orphan of opened) {
    await insertUnclaimedEvent(trx, 'payment.unclaimed', 'dismissed', orphan, now)
  }
  return opened.length > 0
}

async function relinkToOrder(
  trx: Trx,
  client: ClientName,
  orderId: string,
  paymentIds: string[],
  now: Date,
): Promise<void> {
  await trx
    .updateTable('provider_payments')
    .set({ order_id: orderId, surplus_of: null })
    .where('client', '=', client)
    .where('payment_id', 'in', paymentIds)
    .execute()
  await followLinks(trx, client, paymentIds, now)
}

/**
 * For payments that belong to an order by now: ends their unclaimed payments, since the decision about the order is the only one
 * about their money, and links their movements of reports and their charge-backs to the order.
 */
export async function followLinks(
  trx: Trx,
  client: ClientName,
  paymentIds: readonly string[],
  now: Date,
): Promise<void> {
  if (paymentIds.length === 0) return
  const named = await trx
    .updateTable('orphans')
    .set({ state: 'dismissed', reason: namedReason, settled_at: now })
    .where('client', '=', client)
    .where('payment_id', 'in', [...paymentIds])
    .where('state', '=', 'open')
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('provider_payments')
          .select('provider_payments.payment_id')
          .whereRef('provider_payments.client', '=', 'orphans.client')
          .whereRef('provider_payments.payment_id', '=', 'orphans.payment_id')
          .where('provider_payments.order_id', 'is not', null),
      ),
    )
    .returningAll()
    .execute()
  for (const orphan of named)
    await insertUnclaimedEvent(trx, 'payment.matched', 'open', orphan, now)
  const linked = sql`from provider_payments payment
    where payment.client = ${client} and payment.payment_id = any(${[...paymentIds]}::text[]) and payment.order_id is not null`
  await sql`update settlement_rows as row set order_id = payment.order_id, last_updated_at = ${now} ${linked}
    and row.client = payment.client and row.source_id = payment.payment_id and row.order_id is null`.execute(
    trx,
  )
  await sql`update chargebacks as row set order_id = payment.order_id ${linked}
    and row.client = payment.client and row.payment_id = payment.payment_id and row.order_id is null`.execute(
    trx,
  )
}

/** Whether a further payment of this order waits for a decision. */
export async function hasOpenSurplus(trx: Trx, orderId: string): Promise<boolean> {
  const row = await trx
    .selectFrom('orphans')
    .select('id')
    .where('surplus_of', '=', orderId)
    .where('state', '=', 'open')
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
