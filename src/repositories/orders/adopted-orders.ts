import type { Db, Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { PosWithStore } from '../stores/store-queries.ts'
import type { OrderRow } from './order-queries.ts'

/** The order that was sent with this reference and is not known to be at the provider. */
export async function findUnconfirmedByReference(
  db: Db | Trx,
  mpUserId: number,
  mpExternalReference: string,
): Promise<OrderRow | undefined> {
  return db
    .selectFrom('orders')
    .selectAll()
    .where('mp_user_id', '=', mpUserId)
    .where('mp_external_reference', '=', mpExternalReference)
    .where('creation', '<>', 'confirmed')
    .executeTakeFirst()
}

/** The ERP's text of a reference that an order of this account was sent with. */
export async function findTextOfReference(
  trx: Trx,
  mpUserId: number,
  mpExternalReference: string,
): Promise<string | undefined> {
  const row = await trx
    .selectFrom('orders')
    .select('external_reference')
    .where('mp_user_id', '=', mpUserId)
    .where('mp_external_reference', '=', mpExternalReference)
    .orderBy('created_at')
    .limit(1)
    .executeTakeFirst()
  return row?.external_reference
}

/** The boxes of these clients that are this box of the provider. */
export async function findBoxesOfProvider(
  db: Db,
  clients: readonly ClientName[],
  mpPosId: string,
): Promise<PosWithStore[]> {
  if (clients.length === 0) return []
  return db
    .selectFrom('pos')
    .innerJoin('stores', 'stores.id', 'pos.store_id')
    .selectAll('pos')
    .select(['stores.external_id as store_external_id', 'stores.mp_store_id'])
    .where('pos.client', 'in', [...clients])
    .where('pos.mp_pos_id', '=', mpPosId)
    .execute()
}

/** Whether a client belongs to this account of the provider, connected or not. */
export async function isAccountOfClient(db: Db, mpUserId: number): Promise<boolean> {
  const row = await db
    .selectFrom('clients')
    .select('name')
    .where('mp_user_id', '=', mpUserId)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Adopted orders of a box and amount, oldest first. With `unlinked` only those adopted since then that have no
 * Idempotency-Key of that route.
 */
export async function findAdoptedOrders(
  db: Db | Trx,
  client: ClientName,
  equal: { cajaId: string; amountCents: number },
  unlinked?: { route: string; adoptedSince: Date },
): Promise<OrderRow[]> {
  let query = db
    .selectFrom('orders')
    .selectAll()
    .where('client', '=', client)
    .where('caja_id', '=', equal.cajaId)
    .where('amount_cents', '=', equal.amountCents)
    .where('adopted_at', 'is not', null)
  if (unlinked) {
    const { route, adoptedSince } = unlinked
    query = query
      .where('adopted_at', '>=', adoptedSince)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('idempotency_keys')
              .select('idempotency_keys.key')
              .where('idempotency_keys.client', '=', client)
              .where('idempotency_keys.route', '=', route)
              .whereRef('idempotency_keys.order_id', '=', 'orders.id'),
          ),
        ),
      )
  }
  return query.orderBy('created_at').execute()
}
