import { isPendingRefund } from '../domain/order.ts'
import { isOpen, isPaid } from '../domain/order-state.ts'
import type { Outcome } from '../errors.ts'
import type { OrderRow } from '../repositories/orders.ts'

/**
 * Whether the customer is charged for this order. `not_charged` is a promise that no charge will ever show up, so an
 * order that a customer could still pay is `unknown`, however likely it is that nobody has touched a card yet. So is one
 * whose refund is under way, and one of which the provider says what contradicts our record.
 */
export function outcomeOf(
  order: Pick<
    OrderRow,
    | 'creation'
    | 'status'
    | 'conflict'
    | 'paid_after_close'
    | 'paid_cents'
    | 'refunded_cents'
    | 'refund_open'
    | 'refunds'
  >,
): Outcome {
  if (order.creation === 'intent' || order.creation === 'unknown') return 'unknown'
  if (order.conflict !== null || isRefundUnderWay(order)) return 'unknown'
  if (order.paid_after_close) {
    return order.refunded_cents < order.paid_cents ? 'charged' : 'not_charged'
  }
  if (isPaid(order.status)) return 'charged'
  return isOpen(order.status) ? 'unknown' : 'not_charged'
}

/** Whether a refund was sent of which nobody knows the end: no answer of the provider, or its word that it works on it. */
export function isRefundUnderWay(order: Pick<OrderRow, 'refund_open' | 'refunds'>): boolean {
  return order.refund_open || order.refunds.some(({ status }) => isPendingRefund(status))
}
