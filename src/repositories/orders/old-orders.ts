import { sql } from 'kysely'
import type { Trx } from '../../db/database.ts'
import { statesOf, unknownList } from './state-lists.ts'

/** Nothing may change the order any more, and no person must decide about it. */
const isDone = sql<boolean>`(status not in (${statesOf('open')})
  and next_check_at is null and conflict is null and not is_refund_unclear
  and not is_money_undecided and is_settled_unpaid is not true
  and not exists (select from order_operations as operation
    where operation.order_id = orders.id and operation.state in (${sql.raw(unknownList)}))
  and not exists (select from chargebacks as one
    where one.client = orders.client and one.next_read_at is not null and (one.order_id = orders.id
      or exists (select from jsonb_array_elements(orders.payments) as payment
        where jsonb_exists(one.payment_ids, payment ->> 'referenceId'))))
  and not exists (select from orphans as one where one.surplus_of = orders.id and one.state = 'open'))`

/**
 * Deletes at most `limit` orders made before a time, with all their rows. Returns how many. An order that may still
 * change, or that waits for a person's decision, is kept.
 */
export async function deleteOldOrders(trx: Trx, before: Date, limit: number): Promise<number> {
  const { rows: locked } = await sql<{ id: string }>`
    select id from orders
    where id in (select id from order_figures as orders where created_at < ${before} and ${isDone}
      order by created_at, id limit ${limit})
    for update skip locked`.execute(trx)
  // An order may have changed before it was locked.
  const { rows } = await sql<{ id: string }>`
    select id from order_figures as orders
    where id = any(${locked.map(({ id }) => id)}::uuid[]) and ${isDone}`.execute(trx)
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
