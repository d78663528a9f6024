import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../db/database.ts'
import type { OrderOperationsTable } from '../db/tables.ts'
import { type ClaimRoom, roomOfAccount } from './claim-room.ts'
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

/** Ends a refund that the provider had taken: it is through, or it has failed and counts as refused. */
export async function finishRefund(
  trx: Trx,
  id: string,
  { hasFailed, at }: { hasFailed: boolean; at: Date },
): Promise<void> {
  await trx
    .updateTable('order_operations')
    .set({
      finished_at: at,
      ...(hasFailed && { state: 'refused' as const, provider_code: 'refund_failed' }),
    })
    .where('id', '=', id)
    .where('state', '=', 'done')
    .execute()
}

/** How many operations of this order repeat the same request. */
export async function countOperations(
  trx: Trx,
  orderId: string,
  requestKey: string,
): Promise<number> {
  const row = await trx
    .selectFrom('order_operations')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('order_id', '=', orderId)
    .where('request_key', '=', requestKey)
    .executeTakeFirstOrThrow()
  return row.count
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
    /** What the provider gave back, in cents, when that is not what was meant. */
    amountCents?: number | undefined
    providerCode?: string | null
    finishedAt: Date | null
    nextAttemptAt?: Date | null
    sender?: string
  },
): Promise<boolean> {
  const settled = await trx
    .updateTable('order_operations')
    .set({
      state: outcome.state,
      finished_at: outcome.finishedAt,
      next_attempt_at: outcome.nextAttemptAt ?? null,
      ...(outcome.mpRefundId !== undefined && { mp_refund_id: outcome.mpRefundId }),
      ...(outcome.amountCents !== undefined && { amount_cents: outcome.amountCents }),
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
    .returning(['order_id', 'kind'])
    .executeTakeFirst()
  if (settled?.kind === 'refund') await noteOpenRefund(trx, settled.order_id)
  return settled !== undefined
}

/** Keeps with the order whether a refund of it is without an outcome. */
export async function noteOpenRefund(trx: Trx, orderId: string): Promise<void> {
  await trx
    .updateTable('orders')
    .set({
      refund_open: sql<boolean>`exists (select 1 from order_operations
        where order_id = ${orderId} and kind = 'refund' and state in ('intent', 'unknown'))`,
    })
    .where('id', '=', orderId)
    .execute()
}

/** An operation, and the provider account that its order was made on. */
export type DueOperation = OrderOperationRow & { mp_user_id: number }

/**
 * Takes open operations whose time has come, by moving their next attempt into the future. The longest due of each provider
 * account come first.
 */
export async function claimDueOperations(
  db: Db | Trx,
  now: Date,
  claimUntil: Date,
  room: ClaimRoom,
): Promise<DueOperation[]> {
  const isDue = (column: string) => columnHasCome(column, now, furthestMs.operation)
  return db
    .updateTable('order_operations')
    .from('orders')
    .whereRef('orders.id', '=', 'order_operations.order_id')
    .set((eb) => ({
      next_attempt_at: claimUntil,
      attempts: eb('order_operations.attempts', '+', 1),
    }))
    .where('order_operations.id', 'in', (eb) =>
      eb
        .selectFrom('order_operations')
        .select('id')
        .where('id', 'in', (ranked) =>
          ranked
            .selectFrom((due) =>
              due
                .selectFrom('order_operations as open')
                .innerJoin('orders as own', 'own.id', 'open.order_id')
                .select((row) => [
                  'open.id',
                  'own.mp_user_id',
                  row.fn
                    .agg<number>('row_number')
                    .over((over) =>
                      over.partitionBy('own.mp_user_id').orderBy('open.next_attempt_at'),
                    )
                    .as('place'),
                ])
                .where('open.state', 'in', ['intent', 'unknown'])
                .where(isDue('open.next_attempt_at'))
                .as('due'),
            )
            .select('due.id')
            .where('due.place', '<=', roomOfAccount('due.mp_user_id', room)),
        )
        .orderBy('next_attempt_at')
        .limit(room.limit)
        .forUpdate()
        .skipLocked(),
    )
    .where(isDue('order_operations.next_attempt_at'))
    .returningAll('order_operations')
    .returning('orders.mp_user_id')
    .execute()
}
