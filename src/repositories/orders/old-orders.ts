import { sql } from 'kysely'
import type { Trx } from '../../db/database.ts'
import {
  isRefundInDoubt,
  isSettledUnpaid,
  isUndecidedMoney,
} from '../statistics/figure-conditions.ts'

/**
 * Deletes at most `limit` orders made before a time, with all their rows. Returns how many. An order that may still
 * change, or that waits for a person's decision, is kept.
 */
export async function deleteOldOrders(trx: Trx, before: Date, limit: number): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    select id from orders
    where created_at < ${before}
      and status not in ('created', 'at_terminal', 'action_required')
      and next_check_at is null and conflict is null and not ${isRefundInDoubt}
      and not ${isUndecidedMoney} and not coalesce(${isSettledUnpaid}, false)
      and not exists (select from order_operations as operation
        where operation.order_id = orders.id and operation.state in ('intent', 'unknown'))
      and not exists (select from chargebacks as one
        where one.client = orders.client and one.next_read_at is not null and (one.order_id = orders.id
          or exists (select from jsonb_array_elements(orders.payments) as payment
            where jsonb_exists(one.payment_ids, payment ->> 'referenceId'))))
      and not exists (select from orphans as one where one.surplus_of = orders.id and one.state = 'open')
    order by created_at, id
    limit ${limit}
    for update skip locked`.execute(trx)
  if (rows.length === 0) return 0
  const ids = rows.map(({ id }) => id)
  const ofOrders = sql`order_id = any(${ids}::uuid[])`
  await sql`delete from orphans where ${ofOrders} or surplus_of = any(${ids}::uuid[])
    or (client, payment_id) in (select client, payment_id from provider_payments
      where ${ofOrders} or surplus_of = any(${ids}::uuid[]))`.execute(trx)
  await sql`delete from provider_payments where ${ofOrders} or surplus_of = any(${ids}::uuid[])`.execute(
    trx,
  )
  for (const table of [
    'chargebacks',
    'settlement_rows',
    'order_calls',
    'order_events',
    'order_operations',
  ]) {
    await sql`delete from ${sql.table(table)} where ${ofOrders}`.execute(trx)
  }
  await sql`delete from orders where id = any(${ids}::uuid[])`.execute(trx)
  return ids.length
}
