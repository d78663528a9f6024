import type { Db } from '../db/database.ts'
import { asClientName } from '../domain/client-name.ts'
import { pointFromCents } from '../domain/money.ts'
import { listChangedOrders, type OrderRow } from '../repositories/orders.ts'
import { outcomeOf } from './outcome.ts'

export type OrderChange = Record<string, unknown>

export type OrderFeed = (query: {
  client?: string | undefined
  /** `next` of a page, or a bare time; null begins at the oldest order. */
  after: string | null
  limit: number
}) => Promise<{ rows: OrderChange[]; next: string | null }>

/**
 * Orders in the sequence of their last changes, for a flow that tells the ERP about them. `next` is the position of the
 * last row, and `after` itself when there is none. A reader goes back a little on each visit, since two changes of one
 * moment may become visible in the other order.
 */
export function createOrderFeed(db: Db): OrderFeed {
  return async ({ client, after, limit }) => {
    const orders = await listChangedOrders(db, {
      client: client === undefined ? undefined : asClientName(client),
      after: after === null ? null : positionOf(after),
      limit,
    })
    const last = orders.at(-1)
    return { rows: orders.map(describe), next: last ? positionAfter(last) : after }
  }
}

const nil = '00000000-0000-0000-0000-000000000000'

/** A position, or a bare time, from which everything of that moment is read again. */
function positionOf(text: string): { at: Date; id: string } | null {
  const [at = '', id = nil] = text.split('|')
  return Number.isNaN(Date.parse(at)) ? null : { at: new Date(at), id }
}

function positionAfter(order: OrderRow): string {
  return `${order.last_updated_at.toISOString()}|${order.id}`
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
    paid_amount: pointFromCents(order.paid_cents),
    refunded_amount: pointFromCents(order.refunded_cents),
    status: order.status,
    status_detail: order.status_detail,
    outcome: outcomeOf(order),
    paid_after_close: order.paid_after_close,
    ticket_number: order.ticket_number,
    mp_order_id: order.mp_order_id,
    created_at: order.created_at.toISOString(),
    last_updated_at: order.last_updated_at.toISOString(),
    version: order.version,
  }
}
