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

/** An order waits for its buyer three hours at most, and a little longer when it was sent late. */
export const longestOrderMs = 4 * 3_600_000

export const paymentMethods = ['all', 'debit_card', 'credit_card', 'qr'] as const
export type PaymentMethod = (typeof paymentMethods)[number]

export const operatingModes = ['PDV', 'STANDALONE'] as const
export type OperatingMode = (typeof operatingModes)[number]

/** One payment of an order. Amounts are integer cents. */
export type Payment = {
  id: string
  amountCents: number
  /** What the buyer paid; null until the provider names it. */
  paidCents: number | null
  /** A part of `paidCents`; absent without a tip. */
  tipCents?: number
  /** What the shop receives, if that is not what the buyer paid. */
  receivedCents?: number
  /** Approved in addition to the order's own payment. */
  isSurplus?: true
  refundedCents: number
  /** `approved` for the provider's processed, `rejected` for failed, else the provider's status. */
  status: string
  statusDetail: string | null
  methodType: string | null
  methodId: string | null
  installments: number | null
  referenceId: string | null
}

/** A refund as the provider reports it. Amounts are integer cents, null when they are missing. */
export type ProviderRefund = {
  id: string
  transactionId: string | null
  referenceId: string | null
  /** What the shop returns. */
  amountCents: number | null
  /** What the buyer gets, if the provider names more than the shop returns. */
  buyerCents?: number
  status: string
}

/** The provider's report of an order, in our terms: only this moves an order's state. */
export type OrderEvidence = {
  mpOrderId: string
  mpUserId: string | null
  externalReference: string | null
  terminalId: string | null
  /** Null for an unknown status of the provider: the order does not move. */
  status: OrderStatus | null
  providerStatus: string
  statusDetail: string | null
  amountCents: number | null
  /** As the provider writes it (`ARS`); absent if the body has none. */
  currency?: string | null
  /** What the shop receives of the order's own payments that went through: with tips, without the card issuer's interest. */
  paidCents: number
  refundedCents: number
  payments: Payment[]
  refunds: ProviderRefund[]
  updatedAt: string | null
  /** The order counts as paid or refunded, but none of its listed payments took money. */
  hasNoPayment?: true
  /** Numbers of the charge-back cases that the order names. */
  caseIds?: string[]
}
