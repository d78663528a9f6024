import { isOpen, isPaid } from '../domain/order-state.ts'
import type { Outcome } from '../errors.ts'
import type { OrderRow } from '../repositories/orders.ts'

/**
 * Whether the customer is charged for this order. `not_charged` is a promise that no charge will ever show up, so an
 * order that a customer could still pay is `unknown`, however likely it is that nobody has touched a card yet.
 */
export function outcomeOf(
  order: Pick<
    OrderRow,
    'creation' | 'status' | 'paid_after_close' | 'paid_cents' | 'refunded_cents'
  >,
): Outcome {
  if (order.creation === 'intent' || order.creation === 'unknown') return 'unknown'
  if (order.paid_after_close) {
    return order.refunded_cents < order.paid_cents ? 'charged' : 'not_charged'
  }
  if (isPaid(order.status)) return 'charged'
  return isOpen(order.status) ? 'unknown' : 'not_charged'
}
