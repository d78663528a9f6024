import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Tables } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { OrderStatus } from '../../domain/order.ts'
import { received, type Standing } from '../../domain/order-state.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import {
  countSparingly,
  directionsOf,
  estimatedRows,
  type ListPage,
  type PageRequest,
  partByTime,
  type TimeCursor,
  toListPage,
} from '../list-page.ts'
import { inStores } from '../stores/store-filter.ts'
import { isReference, type OrderRow, placeOfId } from './order-queries.ts'
import { statesOf } from './state-lists.ts'

export type OrderFilter = {
  /** Our id or the provider's. */
  id?: string | undefined
  client?: ClientName | undefined
  stores?: StoresSeen
  status?: OrderStatus | undefined
  standing?: Standing | typeof received | undefined
  cajaId?: string | undefined
  externalReference?: string | undefined
  /** Part of the reference, ticket number, description or id. */
  text?: string | undefined
  /** The amounts that this text may mean, in cents, both ends included. */
  amounts?: { from: number; to: number } | undefined
  from?: Date | undefined
  to?: Date | undefined
  /** The current time: the standing of an order depends on it. */
  at: Date
}

/** A page of orders, newest first, with the number of all that match the filter. */
export async function listOrders(
  db: Db,
  filter: OrderFilter,
  pageRequest: PageRequest<TimeCursor>,
): Promise<ListPage<OrderRow>> {
  const query = ordersOf(db, filter)
  const { newest, byId } = directionsOf(pageRequest)
  const rows = await db
    .selectFrom('orders')
    .selectAll()
    .where('id', 'in', partByTime(query, 'created_at', pageRequest).select('id'))
    .orderBy('created_at', newest)
    .orderBy('id', byId)
    .execute()
  return toListPage(
    db,
    'orders',
    query,
    rows,
    pageRequest,
    ordersOf(db, { ...filter, at: anyMoment }),
  )
}

export type StandingTotal = {
  standing: Standing
  orders: number
  /** Those whose money came in. */
  receivedOrders: number
  receivedCents: number | bigint
  amountCents: number | bigint
  paidCents: number | bigint
  refundedCents: number | bigint
}

/** The number and sums of the orders that match the filter, by standing. Ignores the standing of the filter. */
export async function totalOrders(db: Db, filter: OrderFilter): Promise<StandingTotal[]> {
  const query = totalsOf(db, filter)
  return countSparingly(db, totalsOf(db, { ...filter, at: anyMoment }).compile(), async () => {
    const value = await query.execute()
    const { rows } = await sql<{
      estimate: number | null
    }>`select ${estimatedRows('orders')} as estimate`.execute(db)
    const found = value.reduce((sum, { orders }) => sum + orders, 0)
    return { value, rows: Math.max(found, rows[0]?.estimate ?? 0) }
  })
}

function totalsOf(db: Db, filter: OrderFilter) {
  return (
    ordersOf(db, { ...filter, standing: undefined })
      .select(({ fn }) => [
        standingAt(filter.at).as('standing'),
        fn.countAll<number>().as('orders'),
        fn.countAll<number>().filterWhere('was_paid', '=', true).as('receivedOrders'),
        sql<number | bigint>`coalesce(sum(amount_cents) filter (where was_paid), 0)::bigint`.as(
          'receivedCents',
        ),
        sql<number | bigint>`coalesce(sum(amount_cents), 0)::bigint`.as('amountCents'),
        sql<number | bigint>`coalesce(sum(paid_cents) filter (where was_paid), 0)::bigint`.as(
          'paidCents',
        ),
        sql<number | bigint>`coalesce(sum(refunded_cents) filter (where was_paid), 0)::bigint`.as(
          'refundedCents',
        ),
      ])
      // By the selected standing: the name alone means the column.
      .groupBy(sql`1`)
  )
}

function ordersOf(
  db: Db,
  filter: OrderFilter,
): SelectQueryBuilder<Tables, 'order_figures', object> {
  let query = db.selectFrom('order_figures')
  if (filter.id !== undefined) {
    const { column, value } = placeOfId(filter.id)
    query = query.where(column, '=', value)
  }
  if (filter.client !== undefined) query = query.where('client', '=', filter.client)
  if (filter.stores !== undefined) query = query.where(inStores(filter.stores))
  if (filter.status !== undefined) query = query.where('status', '=', filter.status)
  if (filter.standing === received) query = query.where('was_paid', '=', true)
  else if (filter.standing !== undefined) {
    // The first condition is implied by the second; it is the one that an index has.
    query = query
      .where(where[filter.standing] ?? sql<boolean>`true`)
      .where(standingAt(filter.at), '=', sql.lit(filter.standing))
  }
  if (filter.cajaId !== undefined) query = query.where('caja_id', '=', filter.cajaId)
  if (filter.externalReference !== undefined) {
    query = query.where(isReference(filter.externalReference))
  }
  if (filter.text !== undefined) {
    const { amounts } = filter
    const pattern = `%${filter.text.replace(/[\\%_]/g, '\\$&')}%`
    query = query.where((eb) =>
      eb.or([
        eb('external_reference', 'ilike', pattern),
        eb('ticket_number', 'ilike', pattern),
        eb('description', 'ilike', pattern),
        eb('mp_order_id', 'ilike', pattern),
        eb(eb.cast<string>('id', 'text'), 'ilike', pattern),
        ...(amounts ? [eb.between('amount_cents', amounts.from, amounts.to)] : []),
      ]),
    )
  }
  if (filter.from !== undefined) query = query.where('created_at', '>=', filter.from)
  if (filter.to !== undefined) query = query.where('created_at', '<', filter.to)
  return query
}

/** A constant time for the identity of a count, which must not change with each moment. */
const anyMoment = new Date(0)

const mayEnd = sql<boolean>`(status in (${statesOf('open')}) or conflict is not null)`
/** Of a standing with an index a condition that includes its orders and that the index has. */
const where: Partial<Record<Standing, RawBuilder<boolean>>> = {
  under_way: mayEnd,
  in_doubt: sql<boolean>`(${mayEnd} or is_refund_unclear)`,
}

/** `standingAt` of order-state.ts. */
function standingAt(at: Date) {
  return sql<Standing>`case when standing = 'under_way' and expires_at < ${at}::timestamptz then 'in_doubt' else standing end`
}
