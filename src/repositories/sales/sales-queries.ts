import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { throughStatuses } from '../../domain/provider-states.ts'
import { wasPaid } from '../statistics/figure-conditions.ts'
import type { Span } from '../statistics/order-statistics.ts'

/** What a box sold in a span by both records, in cents. */
export type BoxSales = {
  client: ClientName
  storeId: string
  /** Null for a payment that names the store only. */
  boxId: string | null
  /** Orders of the span whose money came in, be it given back later or not. */
  paid: number
  paidCents: number | bigint
  refundedCents: number | bigint
  /** Those of them that were paid after the provider's list was read, and are not in it. */
  unread: number
  unreadCents: number | bigint
  /** Payments of the provider, each of the span of its order; one without an order by its own time. */
  payments: number
  paymentCents: number | bigint
  paymentRefundedCents: number | bigint
  /** Payments of the provider whose amount cannot be read; they count as 0. */
  withoutAmount: number
  /** Orders whose net is known, and what Mercado Pago keeps of them. */
  netOrders: number
  feeCents: number | bigint
}

/**
 * Sales of a span by box, from the orders and from the payments that the provider has shown. A payment belongs to the span of its
 * order, so that a sale at midnight is on one side of it in both.
 */
export async function listSalesByBox(db: Db, { client, from, to }: Span): Promise<BoxSales[]> {
  const ofClient = (table: 'orders' | 'payment') =>
    client === undefined ? sql`` : sql`and ${sql.table(table)}.client = ${client}`
  const { rows } = await sql<BoxSales>`
    with sold as (
      select orders.client, orders.sucursal_id, orders.caja_id, orders.id, orders.paid_cents, orders.refunded_cents,
        orders.last_updated_at, orders.net
      from orders
      where orders.created_at >= ${from}::timestamptz and orders.created_at < ${to}::timestamptz
        and ${wasPaid} ${ofClient('orders')}
    ), shown as (
      select payment.client, coalesce(payment.sucursal_id, orders.sucursal_id) as sucursal_id, payment.caja_id, payment.order_id,
        payment.amount_cents, payment.refunded_cents
      from provider_payments payment
      join orders on orders.id = payment.order_id
      where orders.created_at >= ${from}::timestamptz and orders.created_at < ${to}::timestamptz
        and payment.status = any(${throughStatuses}::text[]) ${ofClient('payment')}
      union all
      select payment.client, payment.sucursal_id, payment.caja_id, null, payment.amount_cents, payment.refunded_cents
      from provider_payments payment
      where payment.order_id is null and payment.sold_at >= ${from}::timestamptz and payment.sold_at < ${to}::timestamptz
        and payment.status = any(${throughStatuses}::text[]) ${ofClient('payment')}
    ), read_until as (
      select client, case when finished_at is null then begins_at else ends_at end as at
      from payment_reads where name = 'changes'
    ), ours as (
      select sold.client, sold.sucursal_id, sold.caja_id, count(*)::integer as paid, sum(sold.paid_cents)::bigint as cents,
        sum(sold.refunded_cents)::bigint as refunded,
        (count(*) filter (where is_unread))::integer as unread,
        coalesce(sum(sold.paid_cents) filter (where is_unread), 0)::bigint as unread_cents,
        count(sold.net)::integer as net_orders,
        coalesce(sum((sold.net->>'grossCents')::numeric - (sold.net->>'netCents')::numeric), 0)::bigint as fee_cents
      from sold
      left join read_until on read_until.client = sold.client
      cross join lateral (
        select not exists (select from provider_payments payment where payment.order_id = sold.id)
          and sold.last_updated_at >= coalesce(read_until.at, '-infinity') as is_unread
      ) as seen
      group by 1, 2, 3
    ), theirs as (
      select client, sucursal_id, caja_id, count(*)::integer as payments, coalesce(sum(amount_cents), 0)::bigint as cents,
        sum(refunded_cents)::bigint as refunded, (count(*) filter (where amount_cents is null))::integer as without_amount
      from shown
      group by 1, 2, 3
    )
    select client, sucursal_id as "storeId", caja_id as "boxId",
      coalesce(ours.paid, 0) as paid, coalesce(ours.cents, 0) as "paidCents", coalesce(ours.refunded, 0) as "refundedCents",
      coalesce(ours.unread, 0) as unread, coalesce(ours.unread_cents, 0) as "unreadCents",
      coalesce(theirs.payments, 0) as payments, coalesce(theirs.cents, 0) as "paymentCents",
      coalesce(theirs.refunded, 0) as "paymentRefundedCents", coalesce(theirs.without_amount, 0) as "withoutAmount",
      coalesce(ours.net_orders, 0) as "netOrders", coalesce(ours.fee_cents, 0) as "feeCents"
    from ours full join theirs using (client, sucursal_id, caja_id)
    order by 1, 2, 3`.execute(db)
  return rows
}

export type NamedBox = {
  client: ClientName
  storeId: string
  storeName: string
  boxId: string
  boxName: string
}

/** The boxes in use with their names, and those of their stores. */
export async function listNamedBoxes(
  db: Db,
  client: ClientName | undefined,
  limit: number,
): Promise<NamedBox[]> {
  return db
    .selectFrom('pos')
    .innerJoin('stores', 'stores.id', 'pos.store_id')
    .select([
      'pos.client',
      'stores.external_id as storeId',
      'stores.name as storeName',
      'pos.external_id as boxId',
      'pos.name as boxName',
    ])
    .where('pos.state', '=', 'active')
    .$if(client !== undefined, (query) => query.where('pos.client', '=', client as ClientName))
    .orderBy('pos.client')
    .orderBy('stores.external_id')
    .orderBy('pos.external_id')
    .limit(limit)
    .execute()
}

export type PaymentsRead = { client: ClientName; until: Date }

/** Until when the provider's payments of each client have been read. A client that was never read is missing. */
export async function listPaymentsRead(
  db: Db,
  client: ClientName | undefined,
): Promise<PaymentsRead[]> {
  const rows = await db
    .selectFrom('payment_reads')
    .select(['client', 'finished_at', 'begins_at', 'ends_at'])
    .where('name', '=', 'changes')
    .$if(client !== undefined, (query) => query.where('client', '=', client as ClientName))
    .execute()
  return rows.map((row) => ({
    client: row.client,
    until: row.finished_at === null ? row.begins_at : row.ends_at,
  }))
}

export type ClosedPlace = {
  client: ClientName
  storeId: string
  /** Null for a closing of the whole store. */
  boxId: string | null
  state: 'agreed' | 'differs' | 'unverified' | 'open'
}

/** The latest closing of each place that ends in a span. One that is signed has the result that was signed. */
export async function listClosedPlaces(db: Db, { client, from, to }: Span): Promise<ClosedPlace[]> {
  const { rows } = await sql<ClosedPlace>`
    select distinct on (client, sucursal_id, caja_id) client, sucursal_id as "storeId", caja_id as "boxId",
      case when state in ('agreed', 'differs', 'unverified') then state when state = 'signed' then coalesce(result, 'unverified')
        else 'open' end as state
    from closings
    where to_at > ${from}::timestamptz and to_at <= ${to}::timestamptz
      -- For the index: a closing is at most 32 days long.
      and business_day >= ${from}::timestamptz::date - 34
      ${client === undefined ? sql`` : sql`and client = ${client}`}
    order by client, sucursal_id, caja_id, to_at desc, created_at desc`.execute(db)
  return rows
}
