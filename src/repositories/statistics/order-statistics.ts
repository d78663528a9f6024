import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { OrderStatus } from '../../domain/order.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { inStores } from '../stores/store-filter.ts'

export type Span = { client?: ClientName | undefined; stores?: StoresSeen; from: Date; to: Date }

type HourRow = {
  /** Whole hours since the start of the span. */
  hour: number
  orders: number
  /** Orders whose money came in, refunded or not. */
  paid: number
  /** Failed orders with a payment attempt. */
  declined: number
  paidCents: number | bigint
  refundedCents: number | bigint
}

/** Orders created in a span, counted by the hour of their creation; hours without any are left out. */
export async function countOrdersByHour(db: Db, span: Span): Promise<HourRow[]> {
  const { rows } = await sql<HourRow>`
    select
      floor(date_part('epoch', created_at - ${span.from}::timestamptz) / 3600)::integer as hour,
      count(*)::integer as orders,
      (count(*) filter (where was_paid))::integer as paid,
      (count(*) filter (where is_declined))::integer as declined,
      coalesce(sum(paid_cents) filter (where was_paid), 0)::bigint as "paidCents",
      coalesce(sum(refunded_cents) filter (where was_paid), 0)::bigint as "refundedCents"
    from order_figures as orders
    where ${within(span)}
    group by 1
    order by 1`.execute(db)
  return rows
}

/** The median time from the ERP's request to the payment, in milliseconds; null when nothing was paid. */
export async function medianChargeMs(db: Db, span: Span): Promise<number | null> {
  const { rows } = await sql<{ ms: number | null }>`
    select (percentile_cont(0.5) within group (
      order by date_part('epoch', paid.at - orders.created_at) * 1000
    ))::double precision as ms
    from orders
    join (
      select order_id, min(at) as at from order_events
      where to_status = 'processed' and at >= ${span.from}::timestamptz
      group by order_id
    ) as paid on paid.order_id = orders.id
    where ${within(span)}`.execute(db)
  const ms = rows[0]?.ms ?? null
  return ms === null ? null : Math.round(ms)
}

export type BoxRow = {
  client: ClientName
  storeId: string
  boxId: string
  boxName: string
  storeName: string
  lastStatus: OrderStatus | null
  lastDetail: string | null
  lastAt: Date | null
  open: number
  /** The newest open order; null for none. */
  openId: string | null
  openReference: string | null
  openStatus: OrderStatus | null
  openCents: number | null
  openAt: Date | null
  /** Orders of the span whose money came in, refunded or not. */
  paid: number
  paidCents: number | bigint
}

/** Every active box with its sales of a span, its open orders and its newest order since `since`. */
export async function listBoxStates(
  db: Db,
  { span, since, limit }: { span: Span; since: Date; limit: number },
): Promise<BoxRow[]> {
  const { client, stores } = span
  const { rows } = await sql<BoxRow>`
    select pos.client, stores.external_id as "storeId", pos.external_id as "boxId",
      pos.name as "boxName", stores.name as "storeName", last.status as "lastStatus", last.status_detail as "lastDetail",
      last.created_at as "lastAt",
      coalesce(waiting.count, 0)::integer as open, newest.id as "openId",
      newest.external_reference as "openReference", newest.status as "openStatus",
      newest.amount_cents as "openCents", newest.created_at as "openAt",
      coalesce(sold.paid, 0)::integer as paid, coalesce(sold.cents, 0)::bigint as "paidCents"
    from pos
    join stores on stores.id = pos.store_id
    left join lateral (
      select status, status_detail, created_at from orders
      where orders.client = pos.client and orders.caja_id = pos.external_id
        and orders.created_at >= ${since}::timestamptz
      order by created_at desc
      limit 1
    ) as last on true
    left join (
      select client, caja_id, count(*) as count, (array_agg(id order by created_at desc))[1] as newest
      from order_figures
      where is_open
      group by client, caja_id
    ) as waiting on waiting.client = pos.client and waiting.caja_id = pos.external_id
    left join orders as newest on newest.id = waiting.newest
    left join (
      select client, caja_id, count(*) as paid, sum(paid_cents) as cents
      from order_figures as orders
      where ${within(span)} and was_paid
      group by client, caja_id
    ) as sold on sold.client = pos.client and sold.caja_id = pos.external_id
    where pos.state = 'active' ${client === undefined ? sql`` : sql`and pos.client = ${client}`}
      and ${inStores(stores, 'stores.external_id')}
    order by pos.client, stores.external_id, pos.external_id
    limit ${limit}`.execute(db)
  return rows
}

type LateRow = { id: string; client: ClientName; externalReference: string }

/** Orders of a span that were paid after they were closed and wait for a decision, newest first. */
export async function listPaidAfterClose(db: Db, span: Span, limit: number): Promise<LateRow[]> {
  let query = db
    .selectFrom('order_figures')
    .select(['id', 'client', 'external_reference as externalReference'])
    .where('paid_after_close', '=', true)
    .where('is_money_undecided', '=', true)
    .where('created_at', '>=', span.from)
    .where('created_at', '<', span.to)
    .where(inStores(span.stores))
  if (span.client !== undefined) query = query.where('client', '=', span.client)
  return query.orderBy('created_at', 'desc').limit(limit).execute()
}

type DoubtRow = LateRow & { cajaId: string; createdAt: Date }

/** Orders with a charge or a refund in doubt that is not settled, newest first. A charge begun after `before` is too young. */
export async function listInDoubt(
  db: Db,
  {
    client,
    stores,
    before,
    limit,
  }: { client: ClientName | undefined; stores?: StoresSeen; before: Date; limit: number },
): Promise<DoubtRow[]> {
  const orders = db
    .selectFrom('order_figures')
    .select([
      'id',
      'client',
      'external_reference as externalReference',
      'caja_id as cajaId',
      'created_at as createdAt',
    ])
    .$if(client !== undefined, (query) => query.where('client', '=', client as ClientName))
    .where(inStores(stores))
  // Each part has an index of its own.
  const charges = orders.where(isChargeInDoubt(before))
  const refunds = orders.where('is_refund_unclear', '=', true)
  return charges.union(refunds).orderBy('createdAt', 'desc').limit(limit).execute()
}

/** A charge that was begun after `before` is too young to be in doubt, unless the provider contradicts it. */
const isChargeInDoubt = (before: Date) =>
  sql<boolean>`(is_charge_unclear and created_at <= ${before}::timestamptz or is_contradicted)`

/** The number of open orders, and of those that need a person at the terminal. */
export async function countOpenOrders(
  db: Db,
  client: ClientName | undefined,
  stores: StoresSeen,
): Promise<{ open: number; actionRequired: number }> {
  let query = db.selectFrom('order_figures').where('is_open', '=', true).where(inStores(stores))
  if (client !== undefined) query = query.where('client', '=', client)
  return query
    .select((eb) => [
      eb.fn.countAll<number>().as('open'),
      eb.fn.countAll<number>().filterWhere('status', '=', 'action_required').as('actionRequired'),
    ])
    .executeTakeFirstOrThrow()
}

function within({ client, stores, from, to }: Span) {
  return sql`orders.created_at >= ${from}::timestamptz and orders.created_at < ${to}::timestamptz
    ${client === undefined ? sql`` : sql`and orders.client = ${client}`}
    and ${inStores(stores, 'orders.sucursal_id')}`
}
