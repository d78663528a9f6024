import type { Order, PaymentMethod } from './rows.ts'

/** Reasons a payment can fail for (provider facts 2.6), the simulator's included. */
export const failureDetails = [
  'failed',
  'bad_filled_card_data',
  'high_risk',
  'rejected_by_issuer',
  'required_call_for_authorize',
  'max_attempts_exceeded',
  'card_disabled',
  'insufficient_amount',
  'amount_limit_exceeded',
  'processing_error',
  'invalid_installments',
  'in_review',
  'rejected_other_reason',
] as const

const defaultIds = {
  credit_card: 'visa',
  debit_card: 'debvisa',
  prepaid_card: 'visa',
  voucher_card: 'sodexo',
  qr: 'account_money',
  digital_wallet: 'modo',
  bank_transfer: 'cvu',
}

export const paymentTypes = Object.keys(defaultIds) as (keyof typeof defaultIds)[]

/** The payment method of a buyer, as simulated events and actions name it. */
export type MethodFields = {
  payment_method_type?: string | undefined
  payment_method_id?: string | undefined
  installments?: number | undefined
}

/** The payment method of the buyer; without a type or id, the type that the order requires. */
export function paymentMethod(fields: MethodFields, order?: Order): PaymentMethod {
  const { payment_method_type, payment_method_id: id, installments = 1 } = fields
  const forced = id === undefined ? order?.paymentMethodConfig?.defaultType : undefined
  const guessed = id?.startsWith('deb') === true ? 'debit_card' : 'credit_card'
  const type = payment_method_type ?? forced ?? guessed
  const usualId = paymentTypes.find((known) => known === type)
  return { type, id: id ?? defaultIds[usualId ?? 'credit_card'], installments }
}

/** Cards, QR paid from the wallet and other wallets, as in Argentina (provider facts 2.4). */
export const partlyRefundable: ReadonlySet<string> = new Set([
  'credit_card',
  'debit_card',
  'prepaid_card',
  'qr',
  'account_money',
  'digital_wallet',
])
