import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { type ClosingResult, closingResults } from '../../domain/closing.ts'
import { throughStatuses } from '../../domain/order-state.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import type { Span } from '../statistics/order-statistics.ts'
import { inStores } from '../stores/store-filter.ts'

/** Sales of a part of a span by both records, in cents. */
export type RecordedSales = {
  /** Orders of the span whose money came in, even if it was refunded later. */
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

export type BoxSales = RecordedSales & {
  client: ClientName
  storeId: string
  /** Null for a payment that names the store only. */
  boxId: string | null
}

/** Sales of a span by box. */
export async function listSalesByBox(db: Db, span: Span): Promise<BoxSales[]> {
  const parts: Parts = {
    names: sql`client, sucursal_id, caja_id`,
    shown: sql`client, sucursal_id as "storeId", caja_id as "boxId"`,
    ofOrder: sql`orders.client, orders.sucursal_id, orders.caja_id`,
    ofOrderPayment: sql`payment.client, coalesce(payment.sucursal_id, made.store) as sucursal_id, payment.caja_id`,
    ofPayment: sql`payment.client, payment.sucursal_id, payment.caja_id`,
  }
  return listRecordedSales<BoxSales>(db, span, parts)
}

/** How sales are grouped: by day or week (its Monday) in a time zone, or by the method of payment. */
export type SalesGroup = 'day' | 'week' | 'method'
type GroupedSales = RecordedSales & { key: string }

/** Sales of a span by day, week or method of payment. */
export async function listSalesByGroup(
  db: Db,
  span: Span,
  group: SalesGroup,
  timeZone: string,
): Promise<GroupedSales[]> {
  const { ofOrder, ofPayment, ofOrderPayment } = groupKeys(group, timeZone)
  return listRecordedSales<GroupedSales>(db, span, {
    names: sql`key`,
    shown: sql`key`,
    ofOrder: sql`${ofOrder} as key`,
    ofOrderPayment: sql`${ofOrderPayment} as key`,
    ofPayment: sql`${ofPayment} as key`,
  })
}

/** Orders, and those that ended without money after a payment was tried. Paid and declined orders are the finished attempts. */
type Tries = { orders: number; declined: number }
type Attempts = { key: string } & Tries
type StoreAttempts = { client: ClientName; storeId: string } & Tries

/** Orders of a span by day, week or method of payment, and how many of them were declined. */
export async function listAttemptsByGroup(
  db: Db,
  span: Span,
  group: SalesGroup,
  timeZone: string,
): Promise<Attempts[]> {
  const key = groupKeys(group, timeZone).ofOrder
  return listAttempts<Attempts>(db, span, { shown: sql`${key} as key`, groupedBy: sql`1` })
}

/** Orders of a span by store, and how many of them were declined. */
export async function listAttemptsByStore(db: Db, span: Span): Promise<StoreAttempts[]> {
  return listAttempts<StoreAttempts>(db, span, {
    shown: sql`client, sucursal_id as "storeId"`,
    groupedBy: sql`client, sucursal_id`,
  })
}

async function listAttempts<Row>(
  db: Db,
  { client, stores, from, to }: Span,
  { shown, groupedBy }: Record<'shown' | 'groupedBy', RawBuilder<unknown>>,
): Promise<Row[]> {
  const { rows } = await sql<Row>`
    select ${shown}, count(*)::integer as orders, (count(*) filter (where is_declined))::integer as declined
    from order_figures as orders
    where created_at >= ${from}::timestamptz and created_at < ${to}::timestamptz
      ${client === undefined ? sql`` : sql`and client = ${client}`} and ${inStores(stores)}
    group by ${groupedBy}
    order by ${groupedBy}`.execute(db)
  return rows
}

function groupKeys(group: SalesGroup, timeZone: string) {
  if (group === 'method') {
    const ofPayment = sql`coalesce(payment.method_type, 'unknown')`
    // The payment that a closing names, too: the order's own one that was paid, or else the last of its own.
    const ofOrder = sql`coalesce(case when jsonb_array_length(orders.payments) > 1 then (
        select one ->> 'methodType' from jsonb_array_elements(orders.payments) with ordinality as own (one, place)
        where one -> 'isSurplus' is null
        order by one ->> 'paidCents' is null, case when one ->> 'paidCents' is null then -place else place end
        limit 1
      ) else orders.payments->0->>'methodType' end, 'unknown')`
    return { ofOrder, ofOrderPayment: ofPayment, ofPayment }
  }
  const dayOf = (at: string) => {
    const wall = sql`(${sql.ref(at)} at time zone ${timeZone}::text)`
    return sql`to_char(${group === 'week' ? sql`date_trunc('week', ${wall})` : wall}, 'YYYY-MM-DD')`
  }
  const ofOrder = dayOf('orders.created_at')
  return { ofOrder, ofOrderPayment: sql`made.key`, ofPayment: dayOf('payment.sold_at') }
}

/** The columns of a row of sales: their names, how they are shown, and their source in each kind of record. */
type Parts = Record<
  'names' | 'shown' | 'ofOrder' | 'ofOrderPayment' | 'ofPayment',
  RawBuilder<unknown>
>

/**
 * Sales of a span from the orders and from the provider's payments. A payment belongs to the span and the part of its
 * order, so that a sale at midnight is on the same side in both.
 */
async function listRecordedSales<Row>(
  db: Db,
  { client, stores, from, to }: Span,
  { names, shown, ofOrder, ofOrderPayment, ofPayment }: Parts,
): Promise<Row[]> {
  const ofClient = (table: 'orders' | 'payment') =>
    client === undefined ? sql`` : sql`and ${sql.table(table)}.client = ${client}`
  const { rows } = await sql<Row>`
    with read_until as (
      select client as reader, case when finished_at is null then begins_at else ends_at end as at
      from payment_reads where name = 'changes'
    ), made as materialized (
      -- Read once, for both records: a chain has thousands of orders a day.
      select ${ofOrder}, orders.id, orders.sucursal_id as store, was_paid, orders.paid_cents, orders.refunded_cents,
        case when was_paid then has_net end as has_net, case when was_paid then fee_cents end as fee_cents,
        orders.last_updated_at >= coalesce(read_until.at, '-infinity') as is_new
      from order_figures as orders
      left join read_until on reader = orders.client
      where orders.created_at >= ${from}::timestamptz and orders.created_at < ${to}::timestamptz ${ofClient('orders')}
    ), sold as (
      select made.*, is_new and not exists (select from provider_payments payment where payment.order_id = made.id) as is_unread
      from made
      where was_paid and ${inStores(stores, 'made.store')}
    ), shown as (
      select ${ofOrderPayment}, payment.amount_cents, payment.refunded_cents
      from provider_payments payment
      join made on made.id = payment.order_id
      where payment.status = any(${throughStatuses}::text[]) ${ofClient('payment')}
        and (${inStores(stores, 'payment.sucursal_id')} or payment.sucursal_id is null and ${inStores(stores, 'made.store')})
      union all
      select ${ofPayment}, payment.amount_cents, payment.refunded_cents
      from provider_payments payment
      where payment.order_id is null and payment.sold_at >= ${from}::timestamptz and payment.sold_at < ${to}::timestamptz
        and payment.status = any(${throughStatuses}::text[]) ${ofClient('payment')}
        and ${inStores(stores, 'payment.sucursal_id')}
    ), ours as (
      select ${names}, count(*)::integer as paid, sum(paid_cents)::bigint as cents, sum(refunded_cents)::bigint as refunded,
        (count(*) filter (where is_unread))::integer as unread,
        coalesce(sum(paid_cents) filter (where is_unread), 0)::bigint as unread_cents,
        (count(*) filter (where has_net))::integer as net_orders, coalesce(sum(fee_cents), 0)::bigint as fee_cents
      from sold
      group by ${names}
    ), theirs as (
      select ${names}, count(*)::integer as payments, coalesce(sum(amount_cents), 0)::bigint as cents,
        sum(refunded_cents)::bigint as refunded, (count(*) filter (where amount_cents is null))::integer as without_amount
      from shown
      group by ${names}
    )
    select ${shown},
      coalesce(ours.paid, 0) as paid, coalesce(ours.cents, 0) as "paidCents", coalesce(ours.refunded, 0) as "refundedCents",
      coalesce(ours.unread, 0) as unread, coalesce(ours.unread_cents, 0) as "unreadCents",
      coalesce(theirs.payments, 0) as payments, coalesce(theirs.cents, 0) as "paymentCents",
      coalesce(theirs.refunded, 0) as "paymentRefundedCents", coalesce(theirs.without_amount, 0) as "withoutAmount",
      coalesce(ours.net_orders, 0) as "netOrders", coalesce(ours.fee_cents, 0) as "feeCents"
    from ours full join theirs using (${names})
    order by ${names}`.execute(db)
  return rows
}

type NamedBox = {
  client: ClientName
  storeId: string
  storeName: string
  boxId: string
  boxName: string
}

/** The boxes in use with their names, and those of their stores. */
export async function listNamedBoxes(
  db: Db,
  { client, stores }: { client: ClientName | undefined; stores?: StoresSeen },
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
    .where(inStores(stores, 'stores.external_id'))
    .orderBy('pos.client')
    .orderBy('stores.external_id')
    .orderBy('pos.external_id')
    .limit(limit)
    .execute()
}

type PaymentsRead = { client: ClientName; until: Date }

/** Until when the provider's payments of each client were read. A client that was never read is absent. */
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
  state: ClosingResult | 'open'
}

/** The latest closing of each place that ends in a span. A signed closing has its signed result. */
export async function listClosedPlaces(
  db: Db,
  { client, stores, from, to }: Span,
): Promise<ClosedPlace[]> {
  const { rows } = await sql<ClosedPlace>`
    select distinct on (client, sucursal_id, caja_id) client, sucursal_id as "storeId", caja_id as "boxId",
      case when state = any(${closingResults}::text[]) then state when state = 'signed' then coalesce(result, 'unverified')
        else 'open' end as state
    from closings
    where to_at > ${from}::timestamptz and to_at <= ${to}::timestamptz
      -- For the index: a closing is at most 32 days long.
      and business_day >= ${from}::timestamptz::date - 34
      ${client === undefined ? sql`` : sql`and client = ${client}`} and ${inStores(stores)}
    order by client, sucursal_id, caja_id, to_at desc, created_at desc`.execute(db)
  return rows
}
