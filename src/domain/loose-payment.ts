const prefix = 'PAYMENT-'

/**
 * A charge that no order of the provider stands behind, such as one typed into the terminal, has this in place of the
 * provider's id of an order. So whatever is done with orders can be done with it, refunds above all.
 */
export function looseOrderId(paymentId: string): string {
  return prefix + paymentId
}

/** The number of the payment that such an id means; undefined for an order's own id. */
export function paymentOfLoose(mpOrderId: string): string | undefined {
  return mpOrderId.startsWith(prefix) ? mpOrderId.slice(prefix.length) : undefined
}
