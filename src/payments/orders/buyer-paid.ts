import { isOwn } from '../../domain/payment-figures.ts'
import { wentThrough } from '../../domain/provider-states.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

/** What the buyer paid for an order in cents, the interest of the card issuer included, without further payments. */
export function buyerPaidCents({
  payments,
  paid_cents: receivedCents,
}: Pick<OrderRow, 'payments' | 'paid_cents'>): number {
  const paid = payments.filter((payment) => isOwn(payment) && wentThrough(payment.status))
  if (paid.length === 0) return receivedCents
  return paid.reduce((sum, { paidCents, amountCents }) => sum + (paidCents ?? amountCents), 0)
}
