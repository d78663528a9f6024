import type { Insertable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { OrderEventsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'

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
