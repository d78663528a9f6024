import type { OrderStatus } from './order.ts'
import { isClosedUnpaid, isPaid } from './order-state.ts'

/**
 * Why a person must decide about the money of an order. `paid_late`: paid after it was closed, or after a person said that it
 * was not paid. `paid_twice`: there is a further payment. `paid_less`: the shop received less than was asked. `settled_unpaid`: a
 * person said that it was paid, and it ended without a payment.
 */
export const decisions = ['paid_late', 'paid_twice', 'paid_less', 'settled_unpaid'] as const
export type Decision = (typeof decisions)[number]

export type DecisionOrder = {
  status: OrderStatus
  amount_cents: number
  paid_cents: number
  refunded_cents: number
  paid_after_close: boolean
  settled_as: 'paid' | 'not_paid' | null
  surplus: 'open' | 'decided' | null
}

/** What a person must decide about this order; null for nothing. A refund of all decides too. */
export function decisionOf(order: DecisionOrder): Decision | null {
  const wasSaidPaid = order.settled_as === 'paid' && !order.paid_after_close
  if (wasSaidPaid && isClosedUnpaid(order.status)) return 'settled_unpaid'
  const isKept = order.refunded_cents < order.paid_cents && order.settled_as !== 'paid'
  if (isKept && order.paid_after_close) return 'paid_late'
  if (order.surplus === 'open') return 'paid_twice'
  const isLess = order.paid_cents > 0 && order.paid_cents < order.amount_cents
  return isKept && isLess && isPaid(order.status) ? 'paid_less' : null
}
