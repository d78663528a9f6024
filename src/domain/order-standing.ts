import type { OrderStatus } from './order.ts'
import { isClosedUnpaid, isOpen } from './order-state.ts'

/**
 * How people ask for orders: each order stands in exactly one of these. `in_doubt`: whether the customer has paid, or whether a
 * refund was made, is not known, and time alone will not tell. `refunded`: in part or whole.
 */
export const standings = ['under_way', 'paid', 'not_paid', 'refunded', 'in_doubt'] as const
export type Standing = (typeof standings)[number]

/** What decides where an order stands. `src/repositories/orders/order-list.ts` has the same in SQL, and a test compares them. */
export type StandingOrder = {
  creation: 'intent' | 'unknown' | 'confirmed' | 'refused'
  status: OrderStatus
  conflict: string | null
  paid_after_close: boolean
  paid_cents: number
  refunded_cents: number
  cancel_requested_at: Date | null
  expires_at: Date
  settled_as: 'paid' | 'not_paid' | null
  refund_unclear: string | null
  refund_contradicted: string | null
}

export function standingOf(order: StandingOrder, now: Date): Standing {
  const { status } = order
  if (order.conflict !== null && order.settled_as === null) return 'in_doubt'
  if (isRefundInDoubt(order)) return 'in_doubt'
  if (order.paid_after_close) return order.refunded_cents < order.paid_cents ? 'paid' : 'refunded'
  if (isOpen(status)) return order.settled_as ?? (isDoubtful(order, now) ? 'in_doubt' : 'under_way')
  if (isClosedUnpaid(status)) return 'not_paid'
  return status === 'processed' ? 'paid' : 'refunded'
}

/** A person must say how a refund of the order ended. */
export function isRefundInDoubt(
  order: Pick<StandingOrder, 'refund_unclear' | 'refund_contradicted'>,
): boolean {
  return order.refund_unclear !== null || order.refund_contradicted !== null
}

/** What was sent without an answer, or given up before it had one, waits for no customer any more. */
function isDoubtful(order: StandingOrder, now: Date): boolean {
  if (order.creation === 'unknown' || order.status === 'action_required') return true
  const isGivenUp = order.creation === 'intent' && order.cancel_requested_at !== null
  return isGivenUp || order.expires_at < now
}
