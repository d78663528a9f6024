import type { Db } from '../../db/database.ts'
import { changePositionOf, positionBehind } from '../../domain/change-feed.ts'
import { asClientName } from '../../domain/client-name.ts'
import { buyerPaidCents, pointFromCents } from '../../domain/money.ts'
import { decisionOf } from '../../domain/order-state.ts'
import { outcomeOf } from '../../errors/money-outcome.ts'
import { listChangedOrders, type OrderRow } from '../../repositories/orders/order-queries.ts'

type OrderChange = Record<string, unknown>

type OrderFeed = (query: {
  client?: string | undefined
  /** `next` of a page, or a plain time; null begins at the oldest order. */
  after: string | null
  limit: number
}) => Promise<{ rows: OrderChange[]; next: string | null }>

/**
 * Orders in the sequence of their last changes, for a flow that sends them to the ERP. `next` is the position of the last row,
 * and `after` itself when there is none. A reader goes back a little at each poll, since two changes of one moment may become
 * visible in the other order.
 */
export function createOrderFeed(db: Db): OrderFeed {
  return async ({ client, after, limit }) => {
    const orders = await listChangedOrders(db, {
      client: client === undefined ? undefined : asClientName(client),
      after: after === null ? null : changePositionOf(after),
      limit,
    })
    const last = orders.at(-1)
    return { rows: orders.map(describe), next: last ? positionBehind(last) : after }
  }
}

function describe(order: OrderRow): OrderChange {
  return {
    order_id: order.id,
    client: order.client,
    external_reference: order.external_reference,
    caja_id: order.caja_id,
    sucursal_id: order.sucursal_id,
    terminal_id: order.terminal_id,
    amount: pointFromCents(order.amount_cents),
    paid_amount: pointFromCents(buyerPaidCents(order)),
    received_amount: pointFromCents(order.paid_cents),
    refunded_amount: pointFromCents(order.refunded_cents),
    status: order.status,
    status_detail: order.status_detail,
    outcome: outcomeOf(order),
    paid_after_close: order.paid_after_close,
    needs_decision: decisionOf(order),
    ticket_number: order.ticket_number,
    mp_order_id: order.mp_order_id,
    created_at: order.created_at.toISOString(),
    last_updated_at: order.last_updated_at.toISOString(),
    version: order.version,
  }
}
