import type { Insertable, Selectable } from 'kysely'
import type { Db, Trx } from '../db/database.ts'
import type { OrderOperationsTable } from '../db/tables.ts'
import { columnHasCome, furthestMs } from './due.ts'

export type OrderOperationRow = Selectable<OrderOperationsTable>

export async function insertOperation(
  trx: Trx,
  operation: Insertable<OrderOperationsTable>,
): Promise<OrderOperationRow> {
  return trx
    .insertInto('order_operations')
    .values(operation)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The cancel or refund of this order that has no settled outcome yet. */
export async function findOpenOperation(
  db: Db | Trx,
  orderId: string,
  kind: 'cancel' | 'refund',
): Promise<OrderOperationRow | undefined> {
  return db
    .selectFrom('order_operations')
    .selectAll()
    .where('order_id', '=', orderId)
    .where('kind', '=', kind)
    .where('state', 'in', ['intent', 'unknown'])
    .executeTakeFirst()
}

export async function findOperation(
  db: Db | Trx,
  id: string,
): Promise<OrderOperationRow | undefined> {
  return db.selectFrom('order_operations').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function listOperations(
  db: Db | Trx,
  orderIds: readonly string[],
): Promise<OrderOperationRow[]> {
  if (orderIds.length === 0) return []
  return db
    .selectFrom('order_operations')
    .selectAll()
    .where('order_id', 'in', [...orderIds])
    .orderBy('created_at')
    .execute()
}

/** Plans the next attempt of an operation that is still open. */
export async function planAttempt(db: Db | Trx, id: string, at: Date): Promise<void> {
  await db
    .updateTable('order_operations')
    .set({ next_attempt_at: at })
    .where('id', '=', id)
    .where('state', 'in', ['intent', 'unknown'])
    .execute()
}

/**
 * Settles an operation that is still open. Returns whether it was. One that another process has called refused is still
 * open for the provider's word that it is done. With `sender` only while that one has the right to send.
 */
export async function settleOperation(
  trx: Trx,
  id: string,
  outcome: {
    state: 'unknown' | 'done' | 'refused'
    mpRefundId?: string | null
    providerCode?: string | null
    finishedAt: Date | null
    nextAttemptAt?: Date | null
    sender?: string
  },
): Promise<boolean> {
  const result = await trx
    .updateTable('order_operations')
    .set({
      state: outcome.state,
      finished_at: outcome.finishedAt,
      next_attempt_at: outcome.nextAttemptAt ?? null,
      ...(outcome.mpRefundId !== undefined && { mp_refund_id: outcome.mpRefundId }),
      ...(outcome.providerCode !== undefined && { provider_code: outcome.providerCode }),
    })
    .where('id', '=', id)
    .where(
      'state',
      'in',
      outcome.state === 'done' ? ['intent', 'unknown', 'refused'] : ['intent', 'unknown'],
    )
    .$if(outcome.sender !== undefined, (query) =>
      query.where('sender', '=', outcome.sender as string),
    )
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Takes open operations whose time has come, by moving their next attempt into the future; none of accounts `except`. */
export async function claimDueOperations(
  trx: Trx,
  now: Date,
  claimUntil: Date,
  bounds: { limit: number; except: readonly number[] },
): Promise<OrderOperationRow[]> {
  const isDue = columnHasCome('next_attempt_at', now, furthestMs.operation)
  return trx
    .updateTable('order_operations')
    .set((eb) => ({ next_attempt_at: claimUntil, attempts: eb('attempts', '+', 1) }))
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('order_operations')
        .select('id')
        .where('state', 'in', ['intent', 'unknown'])
        .where(isDue)
        .$if(bounds.except.length > 0, (some) =>
          some.where('order_id', 'not in', (paused) =>
            paused
              .selectFrom('orders')
              .select('orders.id')
              .where('orders.mp_user_id', 'in', [...bounds.except]),
          ),
        )
        .orderBy('next_attempt_at')
        .limit(bounds.limit)
        .forUpdate()
        .skipLocked(),
    )
    .where(isDue)
    .returningAll()
    .execute()
}
