import type { Trx } from '../../db/database.ts'
import { changesBetween, type EventType } from '../../domain/event-types.ts'
import { pointFromCents } from '../../domain/money.ts'
import { insertEvent } from '../events/event-log.ts'
import type { OrphanRow } from './unclaimed-queries.ts'

/** Writes an event of an unclaimed payment, whose row is locked. `before` is null when it is new. */
export async function insertUnclaimedEvent(
  trx: Trx,
  type: EventType,
  before: OrphanRow['state'] | null,
  orphan: OrphanRow,
  at: Date,
): Promise<void> {
  const { amount_cents: cents } = orphan
  await insertEvent(trx, {
    client: orphan.client,
    sucursalId: orphan.sucursal_id,
    cajaId: orphan.caja_id,
    type,
    at,
    resource: { type: 'payment', id: orphan.id, version: null },
    orderId: orphan.order_id ?? orphan.surplus_of,
    changes: changesBetween(
      { state: before, ...(before !== null && { amount_cents: cents }) },
      { state: orphan.state, amount_cents: cents },
    ),
    data: {
      id: orphan.id,
      payment_id: orphan.payment_id,
      caja_id: orphan.caja_id,
      sucursal_id: orphan.sucursal_id,
      amount: pointFromCents(cents),
      at: orphan.sold_at.toISOString(),
      state: orphan.state,
      reason: orphan.reason,
      order_id: orphan.order_id,
      surplus_of: orphan.surplus_of,
    },
  })
}
