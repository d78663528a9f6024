import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { OrphansTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { Dismissal } from '../../domain/closing.ts'
import { receivedStatuses, statesThat } from '../../domain/order-state.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { isUuid } from '../../domain/uuid.ts'
import type { OrderRow } from '../orders/order-queries.ts'
import type { ProviderPaymentRow } from '../provider-payments/provider-payments.ts'
import { inStores } from '../stores/store-filter.ts'

export type OrphanRow = Selectable<OrphansTable>

/** No person has decided about the unclaimed payment. */
export const isOpenUnclaimed = sql<boolean>`(state = 'open')`

/** Payments with money at a client's boxes that have no order and are not stored as unclaimed yet, oldest first. */
export async function listPaymentsWithoutOrder(
  db: Db,
  client: ClientName,
  since: Date,
): Promise<ProviderPaymentRow[]> {
  return db
    .selectFrom('provider_payments')
    .selectAll()
    .where('client', '=', client)
    .where('order_id', 'is', null)
    .where('sold_at', '>=', since)
    .where('status', 'in', receivedStatuses)
    .where('amount_cents', '>', 0)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('orphans')
            .select('orphans.id')
            .whereRef('orphans.client', '=', 'provider_payments.client')
            .whereRef('orphans.payment_id', '=', 'provider_payments.payment_id'),
        ),
      ),
    )
    .orderBy('sold_at')
    .limit(200)
    .execute()
}

/** Orders of a client that a payment of this amount and time may belong to. */
export async function listUnsettledOrders(
  db: Db,
  client: ClientName,
  { amountCents, from, to }: { amountCents: number; from: Date; to: Date },
): Promise<OrderRow[]> {
  return (
    db
      .selectFrom('orders')
      .selectAll()
      .where('client', '=', client)
      .where('amount_cents', '=', amountCents)
      .where('created_at', '>=', from)
      .where('created_at', '<=', to)
      .where('paid_cents', '=', 0)
      // A person has settled the order, so a person must decide about the payment too.
      .where('settled_as', 'is', null)
      .where((eb) =>
        eb.or([eb('status', 'in', statesThat('open')), eb('creation', '=', 'unknown')]),
      )
      .orderBy('created_at')
      .limit(20)
      .execute()
  )
}

/** Whether an order of this time names the payment as its own. */
export async function isNamedByOrder(
  trx: Trx,
  { client, payment_id: paymentId }: Pick<OrphanRow, 'client' | 'payment_id'>,
  { from, to }: { from: Date; to: Date },
): Promise<boolean> {
  const { rows } = await sql`
    select from orders, jsonb_array_elements(payments) named
    where client = ${client} and created_at >= ${from}::timestamptz and created_at <= ${to}::timestamptz
      and named ->> 'referenceId' = ${paymentId} and named -> 'isSurplus' is null
    limit 1`.execute(trx)
  return rows.length > 0
}

/** The number of open unclaimed payments, of a client or of all. */
export async function countOpenOrphans(
  db: Db,
  client: ClientName | undefined,
  stores: StoresSeen,
): Promise<number> {
  let query = db.selectFrom('orphans').where(isOpenUnclaimed).where(inStores(stores))
  if (client !== undefined) query = query.where('client', '=', client)
  const { count } = await query
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

/** Stores an unclaimed payment. Returns whether it is new. */
export async function insertOrphan(trx: Trx, row: OrphanRow): Promise<boolean> {
  const result = await trx
    .insertInto('orphans')
    .values({ ...row, settled_by: null })
    .onConflict((conflict) => conflict.columns(['client', 'payment_id']).doNothing())
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

export async function findOrphan(
  db: Db | Trx,
  client: ClientName,
  id: string,
): Promise<OrphanRow | undefined> {
  if (!isUuid(id)) return undefined
  return orphan(db, client, id).executeTakeFirst()
}

function orphan(db: Db | Trx, client: ClientName, id: string) {
  return db.selectFrom('orphans').selectAll().where('client', '=', client).where('id', '=', id)
}

/** Adopted payments whose own refund is done: the one with the key of `refundOrphan`. */
export async function listRefundedOrphans(db: Db, client: ClientName): Promise<OrphanRow[]> {
  return db
    .selectFrom('orphans')
    .innerJoin('idempotency_keys as link', (join) =>
      join
        .onRef('link.client', '=', 'orphans.client')
        .on('link.route', '=', 'POST /orders/refund')
        .on('link.key', '=', sql<string>`'orphan-' || orphans.id`),
    )
    .innerJoin('order_operations as refund', 'refund.id', 'link.operation_id')
    .selectAll('orphans')
    .where('orphans.client', '=', client)
    .where('orphans.state', '=', 'adopted')
    .where('refund.state', '=', 'done')
    .where('refund.finished_at', 'is not', null)
    .execute()
}

/** Locks an unclaimed payment, so that two people never act on it at once. */
export async function lockOrphan(
  trx: Trx,
  client: ClientName,
  id: string,
): Promise<OrphanRow | undefined> {
  return orphan(trx, client, id).forUpdate().executeTakeFirst()
}

/**
 * The order that a person adopted one of these payments as. Their unclaimed payments are locked, so that none is adopted meanwhile.
 */
export async function findAdoptedAs(
  trx: Trx,
  client: ClientName,
  paymentIds: readonly string[],
): Promise<OrderRow | undefined> {
  if (paymentIds.length === 0) return undefined
  const orphans = await trx
    .selectFrom('orphans')
    .select('order_id')
    .where('client', '=', client)
    .where('payment_id', 'in', [...paymentIds])
    .orderBy('id')
    .forUpdate()
    .execute()
  const orderId = orphans.find(({ order_id }) => order_id !== null)?.order_id
  if (orderId == null) return undefined
  return trx.selectFrom('orders').selectAll().where('id', '=', orderId).executeTakeFirst()
}

export async function settleOrphan(
  trx: Trx,
  { client, id }: Pick<OrphanRow, 'client' | 'id'>,
  {
    settled_by,
    ...end
  }: Pick<OrphanRow, 'state' | 'reason' | 'order_id' | 'settled_at' | 'settled_by'> &
    Partial<Pick<OrphanRow, 'refund_asked'>>,
): Promise<void> {
  await trx
    .updateTable('orphans')
    .set({ ...end, settled_by: settled_by && json(settled_by) })
    .where('client', '=', client)
    .where('id', '=', id)
    .execute()
}

/** The dismissed ones of these payments, by the number of the payment. */
export async function listDismissals(
  db: Db,
  client: ClientName,
  paymentIds: readonly string[],
): Promise<Map<string, Dismissal>> {
  if (paymentIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('orphans')
    .select(['payment_id', 'reason', 'settled_at', 'found_at', 'settled_by'])
    .where('client', '=', client)
    .where('state', '=', 'dismissed')
    .where(sql<boolean>`payment_id = any(${[...paymentIds]}::text[])`)
    .execute()
  return new Map(
    rows.map((row) => [
      row.payment_id,
      {
        by: row.settled_by,
        reason: row.reason ?? '',
        at: (row.settled_at ?? row.found_at).toISOString(),
      },
    ]),
  )
}

export async function listOrphans(
  db: Db,
  client: ClientName,
  filter: {
    state?: OrphanRow['state'] | undefined
    cajaId?: string | undefined
    stores?: StoresSeen
    limit: number
    offset: number
  },
): Promise<{ rows: OrphanRow[]; total: number }> {
  let query = db.selectFrom('orphans').where('client', '=', client).where(inStores(filter.stores))
  if (filter.state !== undefined) query = query.where('state', '=', filter.state)
  if (filter.cajaId !== undefined) query = query.where('caja_id', '=', filter.cajaId)
  const { total } = await query.select(sql<number>`count(*)`.as('total')).executeTakeFirstOrThrow()
  const rows = await query
    .selectAll()
    .orderBy('sold_at', 'desc')
    .orderBy('id')
    .limit(filter.limit)
    .offset(filter.offset)
    .execute()
  return { rows, total }
}

/** The provider's data of an unclaimed payment, and our orders with its reference. */
export type OrphanPayment = {
  payment_id: string
  external_reference: string | null
  mp_order_id: string | null
  similar_order_ids: string[]
}

export async function listOrphanPayments(
  db: Db | Trx,
  client: ClientName,
  paymentIds: readonly string[],
): Promise<Map<string, OrphanPayment>> {
  if (paymentIds.length === 0) return new Map()
  const { rows } = await sql<OrphanPayment>`
    select payment_id, external_reference, mp_order_id, coalesce((
      select array_agg(orders.id::text order by orders.created_at) from orders
      where orders.client = payment.client and orders.mp_user_id = payment.mp_user_id
        and orders.mp_external_reference = payment.external_reference
        and orders.id is distinct from payment.order_id), '{}') as similar_order_ids
    from provider_payments payment
    where client = ${client} and payment_id = any(${[...paymentIds]}::text[])`.execute(db)
  return new Map(rows.map((row) => [row.payment_id, row]))
}

/**
 * Takes the unclaimed payments without a notification, once the first has waited until `before`. Each is taken once.
 * One that was settled before gets no notification.
 */
export async function takeFoundOrphans(trx: Trx, now: Date, before: Date): Promise<OrphanRow[]> {
  await trx
    .updateTable('orphans')
    .set({ told_at: now, end_told_at: now })
    .where('told_at', 'is', null)
    .where('state', '<>', 'open')
    .execute()
  return trx
    .updateTable('orphans')
    .set({ told_at: now })
    .where('told_at', 'is', null)
    .where('state', '=', 'open')
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('orphans as first')
          .select('first.id')
          .where('first.told_at', 'is', null)
          .where('first.found_at', '<=', before),
      ),
    )
    .returningAll()
    .execute()
}

/** Takes the notified payments that a person settled at `before` or earlier. */
export async function takeSettledOrphans(trx: Trx, now: Date, before: Date): Promise<OrphanRow[]> {
  return trx
    .updateTable('orphans')
    .set({ end_told_at: now })
    .where('end_told_at', 'is', null)
    .where('state', '<>', 'open')
    .where('settled_at', '<=', before)
    .returningAll()
    .execute()
}

/** Links the payment of an unclaimed payment to its order, with its movements of reports and its charge-back. */
export async function linkPayment(
  trx: Trx,
  { client, payment_id }: Pick<OrphanRow, 'client' | 'payment_id'>,
  orderId: string,
  now: Date,
): Promise<void> {
  await trx
    .updateTable('settlement_rows')
    .set({ order_id: orderId, last_updated_at: now })
    .where('client', '=', client)
    .where('source_id', '=', payment_id)
    .where('order_id', 'is', null)
    .execute()
  await trx
    .updateTable('provider_payments')
    .set({ order_id: orderId })
    .where('client', '=', client)
    .where('payment_id', '=', payment_id)
    .execute()
  await trx
    .updateTable('chargebacks')
    .set({ order_id: orderId })
    .where('client', '=', client)
    .where('payment_id', '=', payment_id)
    .execute()
}
