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
