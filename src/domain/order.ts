/** States of an order as the ERP sees them. `partially_refunded` is derived: the provider has no such status. */
export const orderStatuses = [
  'created',
  'at_terminal',
  'processed',
  'canceled',
  'failed',
  'expired',
  'action_required',
  'refunded',
  'partially_refunded',
] as const

export type OrderStatus = (typeof orderStatuses)[number]

export const paymentMethods = ['all', 'debit_card', 'credit_card', 'qr'] as const
export type PaymentMethod = (typeof paymentMethods)[number]

export const operatingModes = ['PDV', 'STANDALONE'] as const
export type OperatingMode = (typeof operatingModes)[number]

/** One payment inside an order. Amounts are integer cents. */
export type Payment = {
  id: string
  amountCents: number
  paidCents: number | null
  refundedCents: number
  /** `approved` for the provider's processed, `rejected` for failed, else the provider's word. */
  status: string
  statusDetail: string | null
  methodType: string | null
  methodId: string | null
  installments: number | null
  referenceId: string | null
}

/** One refund as the provider reports it. Amount in integer cents; null when the provider does not say. */
export type ProviderRefund = {
  id: string
  transactionId: string | null
  referenceId: string | null
  amountCents: number | null
  status: string
}

/** What the provider says of an order, in our words: the only thing that moves an order's state. */
export type OrderEvidence = {
  mpOrderId: string
  mpUserId: string | null
  externalReference: string | null
  terminalId: string | null
  /** null when the provider used a status we do not know: it then moves nothing. */
  status: OrderStatus | null
  providerStatus: string
  statusDetail: string | null
  amountCents: number | null
  /** As the provider writes it (`ARS`); absent where the body does not say. */
  currency?: string | null
  /** Paid sum over the payments that went through, tips included. */
  paidCents: number
  refundedCents: number
  payments: Payment[]
  refunds: ProviderRefund[]
  updatedAt: string | null
  /** The order counts as paid or refunded, and of the payments that are listed none took money. */
  hasNoPayment?: true
  /** Numbers of the charge-back cases that the order names. */
  caseIds?: string[]
}
