import { isRecord } from './problems.ts'
import type { PaymentMethod } from './rows.ts'

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
]

const defaultIds = new Map([
  ['credit_card', 'visa'],
  ['debit_card', 'debvisa'],
  ['prepaid_card', 'visa'],
  ['voucher_card', 'sodexo'],
  ['qr', 'account_money'],
  ['digital_wallet', 'modo'],
  ['bank_transfer', 'cvu'],
])

export const paymentTypes = [...defaultIds.keys()]

/** The payment method of the buyer. Without one, the method that the order requires. */
export function paymentMethod(fields: {
  type?: string | undefined
  id?: string | undefined
  installments?: number | undefined
}): PaymentMethod {
  const type = fields.type ?? (fields.id?.startsWith('deb') === true ? 'debit_card' : 'credit_card')
  return {
    type,
    id: fields.id ?? defaultIds.get(type) ?? 'visa',
    installments: fields.installments ?? 1,
  }
}

/** The three optional fields of the method, of simulated events and actions. */
export function methodFields(body: unknown): {
  type: string | undefined
  id: string | undefined
  installments: number | undefined
} {
  const fields = isRecord(body) ? body : {}
  const text = (key: string) => (typeof fields[key] === 'string' ? fields[key] : undefined)
  const installments = fields.installments
  return {
    type: text('payment_method_type'),
    id: text('payment_method_id'),
    installments: typeof installments === 'number' ? installments : undefined,
  }
}
