import { type Selectable, sql } from 'kysely'
import { type Db, json } from '../../db/database.ts'
import type { OrderCallsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { uuidShape } from './order-queries.ts'

export type OrderCallRow = Selectable<OrderCallsTable>

/** `order` is our id of the order or the provider's. */
export type NewOrderCall = Omit<OrderCallRow, 'id' | 'order_id' | 'is_look'> & { order: string }

const looking = new Set(['readOrder', 'followOrder', 'order.read'])

/** Writes calls down in one statement; those about an order that their client does not have are left out. */
export async function insertOrderCalls(db: Db, calls: readonly NewOrderCall[]): Promise<void> {
  const rows = calls.map(({ order, ...call }, place) => ({
    ...call,
    is_look: looking.has(call.operation) && call.status !== null && call.status < 400,
    place,
    ...(uuidShape.test(order) ? { order_id: order.toLowerCase() } : { mp_order_id: order }),
  }))
  await sql`
    insert into order_calls
      (order_id, client, kind, is_look, at, duration_ms, operation, caller, status, code, attempt, request_id)
    select orders.id, one.client, one.kind, one.is_look, one.at, one.duration_ms, one.operation, one.caller, one.status, one.code,
      one.attempt, one.request_id
    from jsonb_to_recordset(${json(rows)}::jsonb) as one
      (order_id uuid, mp_order_id text, client text, kind text, is_look boolean, at timestamptz, duration_ms integer, operation text,
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

const rowsAtOnce = 10_000

/** Forgets calls that began before a time, and looks that began before a later one, some at a time. */
export async function deleteOrderCalls(
  db: Db,
  before: { calls: Date; looks: Date },
): Promise<void> {
  for (const old of [sql`at < ${before.calls}`, sql`is_look and at < ${before.looks}`]) {
    for (let found = rowsAtOnce; found === rowsAtOnce; ) {
      const { numAffectedRows } = await sql`
        delete from order_calls where ctid = any(array(
          select ctid from order_calls where ${old} limit ${rowsAtOnce}))`.execute(db)
      found = Number(numAffectedRows ?? 0)
    }
  }
}
