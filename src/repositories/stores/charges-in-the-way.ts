import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { receivedStatuses } from '../../domain/order-state.ts'

/** What a deletion would take away: boxes, and the store if it goes with them. */
export type PlacesToDelete = { boxes: readonly string[]; storeId: string | null }

type OrderInTheWay = {
  id: string
  external_reference: string
  caja_id: string
  status: string
  total: number
}

/** A signed closing of the box or its store covers this time. */
const isClosed = (table: 'orders' | 'provider_payments', at: ReturnType<typeof sql<Date>>) =>
  sql<boolean>`exists (select from closings where closings.client = ${sql.ref(`${table}.client`)}
    and closings.place in ('caja:' || ${sql.ref(`${table}.caja_id`)}, 'sucursal:' || ${sql.ref(`${table}.sucursal_id`)})
    and closings.state = 'signed' and closings.from_at <= ${at} and closings.to_at > ${at})`

/** Orders of these places that may still bring money, or brought some that no signed closing has; the first of them. */
export async function listOrdersInTheWay(
  db: Db,
  client: ClientName,
  { boxes, storeId }: PlacesToDelete,
  limit: number,
): Promise<OrderInTheWay[]> {
  const soldAt = sql<Date>`coalesce((select min(sold_at) from provider_payments payment
    where payment.client = orders.client and payment.order_id = orders.id), orders.created_at)`
  return db
    .selectFrom('order_figures as orders')
    .select(['id', 'external_reference', 'caja_id', 'status'])
    .select(sql<number>`(count(*) over ())::int`.as('total'))
    .where('client', '=', client)
    .where((eb) =>
      eb.or([
        sql<boolean>`caja_id = any(${[...boxes]}::text[])`,
        ...(storeId === null ? [] : [eb('sucursal_id', '=', storeId)]),
      ]),
    )
    .where('creation', '<>', 'refused')
    .where(
      sql<boolean>`(is_open or is_charge_unclear or is_contradicted or refund_open or is_refund_unclear or is_money_undecided
        or ((was_paid or settled_as = 'paid') and not ${isClosed('orders', soldAt)}))`,
    )
    .orderBy('created_at')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Payments without an order at these places that no signed closing has; the first of them. */
export async function listPaymentsInTheWay(
  db: Db,
  client: ClientName,
  { boxes, storeId }: PlacesToDelete,
  limit: number,
): Promise<{ payment_id: string; total: number }[]> {
  return db
    .selectFrom('provider_payments')
    .select('payment_id')
    .select(sql<number>`(count(*) over ())::int`.as('total'))
    .where('client', '=', client)
    .where('order_id', 'is', null)
    .where((eb) =>
      eb.or([
        sql<boolean>`caja_id = any(${[...boxes]}::text[])`,
        ...(storeId === null ? [] : [eb('sucursal_id', '=', storeId)]),
      ]),
    )
    .where('status', 'in', receivedStatuses)
    .where(sql<boolean>`not ${isClosed('provider_payments', sql<Date>`provider_payments.sold_at`)}`)
    .orderBy('sold_at')
    .orderBy('payment_id')
    .limit(limit)
    .execute()
}
