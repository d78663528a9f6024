import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { deleteOldest, json } from '../../db/statements.ts'
import type { OrderCallsTable, OrderEventsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { isUuid } from '../../domain/uuid.ts'

/** Adds a move to the history of an order. */
export async function insertOrderEvent(
  trx: Trx,
  event: Omit<Insertable<OrderEventsTable>, 'id'>,
): Promise<void> {
  await trx.insertInto('order_events').values(event).execute()
}

/** The history of an order, oldest first. */
export async function listOrderEvents(db: Db, client: ClientName, orderId: string) {
  return db
    .selectFrom('order_events')
    .selectAll()
    .where('client', '=', client)
    .where('order_id', '=', orderId)
    .orderBy('id')
    .limit(500)
    .execute()
}

type OrderCallRow = Selectable<OrderCallsTable>

/** `order` is our id of the order or the provider's. */
export type NewOrderCall = Omit<OrderCallRow, 'id' | 'order_id'> & { order: string }

/** Inserts calls in one statement. Calls about an order that the client does not have are left out. */
export async function insertOrderCalls(db: Db, calls: readonly NewOrderCall[]): Promise<void> {
  const rows = calls.map(({ order, ...call }, place) => ({
    ...call,
    place,
    ...(isUuid(order) ? { order_id: order.toLowerCase() } : { mp_order_id: order }),
  }))
  await sql`
    insert into order_calls
      (order_id, client, kind, at, duration_ms, operation, caller, status, code, attempt, request_id)
    select orders.id, one.client, one.kind, one.at, one.duration_ms, one.operation, one.caller, one.status, one.code,
      one.attempt, one.request_id
    from jsonb_to_recordset(${json(rows)}::jsonb) as one
      (order_id uuid, mp_order_id text, client text, kind text, at timestamptz, duration_ms integer, operation text,
        caller text, status integer, code text, attempt integer, request_id text, place integer)
    join lateral (
      select id from orders where orders.id = one.order_id and orders.client = one.client
      union all
      select id from orders where orders.mp_order_id = one.mp_order_id and orders.client = one.client
    ) as orders on true
    order by one.place`.execute(db)
}

/** The newest calls about an order of this client, oldest first, and whether there are older ones. */
export async function listOrderCalls(
  db: Db,
  client: ClientName,
  orderId: string,
  limit: number,
): Promise<{ calls: OrderCallRow[]; hasOlder: boolean }> {
  const newest = await db
    .selectFrom('order_calls')
    .selectAll()
    .where('client', '=', client)
    .where('order_id', '=', orderId)
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  return { calls: newest.slice(0, limit).reverse(), hasOlder: newest.length > limit }
}

/** Deletes at most `limit` calls that began before a time. Returns how many. */
export async function deleteOrderCalls(db: Db, before: Date, limit: number): Promise<number> {
  return deleteOldest(db, 'order_calls', sql`at < ${before}`, limit)
}
