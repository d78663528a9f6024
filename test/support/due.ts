import { randomUUID } from 'node:crypto'
import { orderRow } from './money.ts'
import type { TestService } from './service.ts'

/** Rows that are all due now, copied from one real order. The provider has none of them. */
export type DueRows = {
  orders(count: number, creation?: 'confirmed' | 'unknown'): Promise<string[]>
  /** Refunds of unknown outcome, each of another order. */
  refunds(count: number): Promise<void>
  /** Signed webhooks that are not processed yet, one for each provider id. */
  webhooks(mpOrderIds: readonly string[]): Promise<void>
}

/** A minute ago: before everything that a test does. */
const dueForMs = 60_000

export async function insertDueRows(service: TestService, orderId: string): Promise<DueRows> {
  const { db } = service.database
  const { standing: _, ...row } = await orderRow(service, orderId)
  const dueAt = () => new Date(service.clock.now().getTime() - dueForMs)

  const insertOrders = async (count: number, fields: object) => {
    const rows = Array.from({ length: count }, () => ({
      ...row,
      id: randomUUID(),
      mp_order_id: `ORDTST01${randomUUID().replaceAll('-', '').slice(0, 24).toUpperCase()}`,
      mp_external_reference: randomUUID(),
      payments: JSON.stringify([]),
      refunds: JSON.stringify([]),
      net: null,
      next_check_at: null,
      ...fields,
    }))
    await db.insertInto('orders').values(rows).execute()
    return rows
  }

  return {
    async orders(count, creation = 'confirmed') {
      const isKnown = creation === 'confirmed'
      const rows = await insertOrders(count, {
        next_check_at: dueAt(),
        creation,
        ...(!isKnown && { mp_order_id: null }),
      })
      return isKnown ? rows.map((order) => order.mp_order_id) : []
    },
    async refunds(count) {
      const paid = { status: 'processed', paid_cents: row.amount_cents }
      const rows = await insertOrders(count, paid)
      await db
        .insertInto('order_operations')
        .values(
          rows.map((order) => ({
            id: randomUUID(),
            order_id: order.id,
            client: order.client,
            kind: 'refund' as const,
            refund_type: 'partial' as const,
            amount_cents: 100,
            state: 'unknown' as const,
            mp_refund_id: null,
            provider_code: null,
            sender: null,
            sender_until: null,
            finished_at: null,
            created_at: dueAt(),
            next_attempt_at: dueAt(),
          })),
        )
        .execute()
    },
    async webhooks(mpOrderIds) {
      await db
        .insertInto('webhook_log')
        .values(
          mpOrderIds.map((resource_id, at) => ({
            id: randomUUID(),
            client: null,
            mp_user_id: null,
            request_id: randomUUID(),
            topic: 'order',
            action: 'order.processed',
            resource_id,
            order_id: null,
            live_mode: false,
            signature_valid: true,
            signature_form: 'lower',
            signed_at: dueAt(),
            status: 'received' as const,
            error_message: null,
            payload: null,
            next_attempt_at: dueAt(),
            received_at: new Date(dueAt().getTime() + at),
            processed_at: null,
            duration_ms: null,
          })),
        )
        .execute()
    },
  }
}
