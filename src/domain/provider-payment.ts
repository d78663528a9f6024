/** An amount as the provider wrote it, and its cents; null if it cannot be read or is missing. */
export type ProviderAmount = { text: string | null; cents: number | null }

/** A deduction from a payment: a fee, a tax, the cost of instalments. Names are the provider's, and the list is open. */
export type ProviderCharge = {
  name: string | null
  type: string | null
  /** With `collector` the seller pays; what the buyer pays is not the seller's money. */
  from: string | null
  to: string | null
  detail: string | null
  entity: string | null
  amount: ProviderAmount
  refunded: ProviderAmount
}

export type ProviderFee = { name: string | null; payer: string | null; amount: ProviderAmount }

/** `at` is ISO 8601. */
export type PaymentRefund = {
  id: string | null
  status: string | null
  amount: ProviderAmount
  at: string | null
}

/** A payment at the provider, of any application. Missing values are null; statuses are the provider's own. */
export type ProviderPayment = {
  /** The `reference_id` of the order's payment. */
  paymentId: string
  status: string
  statusDetail: string | null
  operationType: string | null
  channel: string | null
  /** The second part of a terminal id, such as N950NCB801293324 of NEWLAND_N950__N950NCB801293324. */
  terminalSerial: string | null
  currency: string | null
  externalReference: string | null
  mpOrderId: string | null
  mpPosId: string | null
  mpStoreId: string | null
  amount: ProviderAmount
  refunded: ProviderAmount
  paid: ProviderAmount
  net: ProviderAmount
  methodType: string | null
  methodId: string | null
  installments: number | null
  createdAt: Date | null
  approvedAt: Date | null
  updatedAt: Date | null
  releaseAt: Date | null
  releaseStatus: string | null
  fees: ProviderFee[]
  charges: ProviderCharge[]
  refunds: PaymentRefund[]
}

/** A row of a search that cannot be read as a payment. No card or personal data of it is kept. */
export type UnreadablePayment = {
  paymentId: string | null
  /** SHA-256 of the row, which distinguishes rows without an id. */
  digest: string
  status: string | null
  /** The member that cannot be read. */
  why: string
  externalReference: string | null
  mpOrderId: string | null
  mpPosId: string | null
  mpStoreId: string | null
  at: Date | null
  updatedAt: Date | null
}

/** The status of a payment that cannot be read. */
export const unreadableStatus = 'unreadable'
/** Prefix of the made-up number of a row without an id: the provider cannot be asked for it. */
export const rowWithoutId = 'row:'
