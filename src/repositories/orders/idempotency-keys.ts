import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { deleteOldest } from '../../db/statements.ts'
import type { IdempotencyKeysTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'

type IdempotencyKeyRow = Selectable<IdempotencyKeysTable>

export type IdempotencyScope = { client: ClientName; route: string; key: string }

export async function findIdempotencyKey(
  db: Db | Trx,
  scope: IdempotencyScope,
): Promise<IdempotencyKeyRow | undefined> {
  return db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('client', '=', scope.client)
    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .executeTakeFirst()
}

/**
 * Links the key to its order or operation. Returns whether it did: an existing link stays, unless the provider refused
 * what it points to. Waits for a transaction that links the same key.
 */
export async function linkIdempotencyKey(
  trx: Trx,
  scope: IdempotencyScope,
  link: { fingerprint: string; orderId: string; operationId: string | null; createdAt: Date },
): Promise<boolean> {
  const fields = {
    fingerprint: link.fingerprint,
    order_id: link.orderId,
    operation_id: link.operationId,
    created_at: link.createdAt,
  }
  const result = await trx
    .insertInto('idempotency_keys')
    .values({ ...scope, ...fields })
    .onConflict((conflict) =>
      conflict
        .columns(['client', 'route', 'key'])
        .doUpdateSet(fields)
        .where((eb) =>
          eb.or([
            eb.exists(
              eb
                .selectFrom('orders')
                .select('orders.id')
                .whereRef('orders.id', '=', 'idempotency_keys.order_id')
                .where('orders.creation', '=', 'refused'),
            ),
            eb.exists(
              eb
                .selectFrom('order_operations')
                .select('order_operations.id')
                .whereRef('order_operations.id', '=', 'idempotency_keys.operation_id')
                .where('order_operations.state', '=', 'refused'),
            ),
            eb('idempotency_keys.operation_id', '=', link.operationId),
          ]),
        ),
    )
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

/** Links keys to the order that was found to be theirs. */
export async function relinkIdempotencyKeys(
  trx: Trx,
  { from, to }: { from: string; to: string },
): Promise<void> {
  await trx
    .updateTable('idempotency_keys')
    .set({ order_id: to })
    .where('order_id', '=', from)
    .execute()
}

/** Deletes at most `limit` keys that were made before a time. Returns how many. */
export async function deleteIdempotencyKeys(db: Db, before: Date, limit: number): Promise<number> {
  return deleteOldest(
    db,
    'idempotency_keys',
    sql`created_at < ${before} order by created_at`,
    limit,
  )
}
