import type { Order, Payment } from './rows.ts'

/** Every payment of an order; the first is the one that the order was made with. */
export function paymentsOfOrder({ payment, furtherPayments = [] }: Order): Payment[] {
  return [payment, ...furtherPayments]
}

/** What the shop receives of a payment, in cents: a tip belongs to it, the interest of the card issuer does not. */
export function receivedCents({ paidCents, interestCents = 0 }: Payment): number {
  return (paidCents ?? 0) - interestCents
}

/** What can be given back of a payment at most, in cents. */
export function returnableCents(payment: Payment): number {
  return payment.givesInterestBack ? (payment.paidCents ?? 0) : receivedCents(payment)
}

/** What is left to give back of a payment of an order, in cents. A tip belongs to it. */
export function refundableCents(order: Order, payment = order.payment): number {
  return payment.paidCents === null ? 0 : returnableCents(payment) - payment.refundedCents
}
