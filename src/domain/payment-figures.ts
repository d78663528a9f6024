import type { Payment, ProviderRefund } from './order.ts'
import { isFailedRefund, wentThrough } from './provider-states.ts'

/*
 * The three figures of a payment (see docs/reference/amounts.md): what was asked (`amountCents`), what the buyer paid
 * (`paidCents`) and what the shop receives. Whole cents.
 */

/** What the shop receives of a payment that went through: with the tip, without the interest of the card issuer. */
export function receivedCents(payment: Payment): number {
  return payment.receivedCents ?? payment.paidCents ?? payment.amountCents
}

/**
 * What the shop receives, if that is not what the buyer paid. In instalments, what is above the amount and the tip is
 * interest. Without instalments the provider documents only a tip as a reason for more (provider file 2.2).
 */
export function receivedApart(payment: Payment): number | undefined {
  const { amountCents, paidCents, tipCents = 0, installments } = payment
  const ofShop = amountCents + tipCents
  const hasInterest = (installments ?? 1) > 1 && paidCents !== null && paidCents > ofShop
  return hasInterest ? ofShop : undefined
}

/**
 * Marks the payments that went through and exceed the amount of their order, in the provider's order. The first one is
 * always the order's own. Parts of one amount are no surplus.
 */
export function markSurplus(payments: readonly Payment[], orderCents: number | null): Payment[] {
  let sumCents = 0
  let isFirst = true
  return payments.map((payment) => {
    if (!wentThrough(payment.status)) return payment
    const isSurplus =
      !isFirst && (orderCents === null || sumCents + payment.amountCents > orderCents)
    isFirst = false
    if (isSurplus) return { ...payment, isSurplus: true as const }
    sumCents += payment.amountCents
    return payment
  })
}

export function isOwn(payment: Payment): boolean {
  return payment.isSurplus !== true
}

/** Whether the shop still has money of a surplus payment. */
export function isKeptSurplus(payment: Payment): boolean {
  return !isOwn(payment) && payment.refundedCents < receivedCents(payment)
}

/**
 * Refunds by what the shop returns. For a payment with interest the provider may name what the buyer gets, which is
 * more: that goes into `buyerCents`.
 */
export function asShopRefunds(
  payments: readonly Payment[],
  refunds: readonly ProviderRefund[],
): ProviderRefund[] {
  const left = new Map<string, number>()
  return refunds.map((refund) => {
    const { transactionId: id, amountCents } = refund
    const payment = payments.find((one) => one.id === id) ?? onlyOf(payments, id)
    if (!payment || amountCents === null || isFailedRefund(refund.status)) return refund
    const received = receivedCents(payment)
    const leftCents = left.get(payment.id) ?? received
    const isMore = received < (payment.paidCents ?? received) && amountCents > leftCents
    const isNamed = isMore && leftCents > 0 && refund.buyerCents === undefined
    const givenCents = isNamed ? leftCents : amountCents
    left.set(payment.id, leftCents - givenCents)
    return isNamed ? { ...refund, amountCents: givenCents, buyerCents: amountCents } : refund
  })
}

function onlyOf(payments: readonly Payment[], id: string | null): Payment | undefined {
  return id === null && payments.length === 1 ? payments[0] : undefined
}

/** What the buyer paid for an order in cents, with the interest of the card issuer, without further payments. */
export function buyerPaidCents({
  payments,
  paid_cents: receivedCents,
}: {
  payments: readonly Payment[]
  paid_cents: number
}): number {
  const paid = payments.filter((payment) => isOwn(payment) && wentThrough(payment.status))
  if (paid.length === 0) return receivedCents
  return paid.reduce((sum, { paidCents, amountCents }) => sum + (paidCents ?? amountCents), 0)
}

const prefix = 'PAYMENT-'

/**
 * The order id of a payment without a provider's order, such as one typed into the terminal. With it, such a payment is
 * handled like an order, above all refunded.
 */
export function orderIdOfPayment(paymentId: string): string {
  return prefix + paymentId
}

/** The payment number in such an id; undefined for an order's own id. */
export function paymentOfOrderId(mpOrderId: string): string | undefined {
  return mpOrderId.startsWith(prefix) ? mpOrderId.slice(prefix.length) : undefined
}
