import type { Order, Payment } from './rows.ts'

/** Every payment of an order; the first is the one that the order was created with. */
export function paymentsOfOrder({ payment, furtherPayments = [] }: Order): Payment[] {
  return [payment, ...furtherPayments]
}

/** What the shop receives of a payment, in cents: with the tip, without the card issuer's interest. */
export function receivedCents({ paidCents, interestCents = 0 }: Payment): number {
  return (paidCents ?? 0) - interestCents
}

/** The most that can be refunded of a payment, in cents. */
export function returnableCents(payment: Payment): number {
  return payment.givesInterestBack ? (payment.paidCents ?? 0) : receivedCents(payment)
}

/** What is left to refund of a payment of an order, in cents, with the tip. */
export function refundableCents(order: Order, payment = order.payment): number {
  return payment.paidCents === null ? 0 : returnableCents(payment) - payment.refundedCents
}
