import type { OrderStatus } from '../domain/order.ts'

/** Where the money of the buyer is when the provider uses a word: not taken, with the shop, given back, or untold. */
type Money = 'none' | 'in' | 'out' | 'untold'

type OrderWord = {
  status: OrderStatus
  isFinal: boolean
  money: Money
  /** Our state says less than the word, so the word becomes the detail. */
  isDetail?: true
}

/**
 * The provider's words for an order (provider file 2.6), the only place that translates them. A word that is missing here
 * is open. `partially_refunded` is no word of the provider's: it is derived. docs/erp.md shows this table.
 */
export const orderWords: ReadonlyMap<string, OrderWord> = new Map([
  ['created', { status: 'created', isFinal: false, money: 'none' }],
  ['at_terminal', { status: 'at_terminal', isFinal: false, money: 'none' }],
  ['processing', { status: 'at_terminal', isFinal: false, money: 'untold', isDetail: true }],
  ['in_process', { status: 'at_terminal', isFinal: false, money: 'untold', isDetail: true }],
  ['action_required', { status: 'action_required', isFinal: false, money: 'untold' }],
  ['processed', { status: 'processed', isFinal: false, money: 'in' }],
  // The sale stays a sale: whether the buyer's bank gets the money is decided in a case of its own.
  ['charged_back', { status: 'processed', isFinal: false, money: 'in', isDetail: true }],
  ['refunded', { status: 'refunded', isFinal: true, money: 'out' }],
  ['canceled', { status: 'canceled', isFinal: true, money: 'none' }],
  ['failed', { status: 'failed', isFinal: true, money: 'none' }],
  ['expired', { status: 'expired', isFinal: true, money: 'none' }],
])

/** The provider's words for a payment inside an order. Of a word that is missing here nothing is known. */
const paymentWords: ReadonlyMap<string, { ours: string; money: Money }> = new Map([
  ['created', { ours: 'created', money: 'none' }],
  ['at_terminal', { ours: 'at_terminal', money: 'none' }],
  ['processing', { ours: 'processing', money: 'untold' }],
  ['in_process', { ours: 'in_process', money: 'untold' }],
  ['action_required', { ours: 'action_required', money: 'untold' }],
  ['processed', { ours: 'approved', money: 'in' }],
  ['charged_back', { ours: 'charged_back', money: 'in' }],
  ['refunded', { ours: 'refunded', money: 'out' }],
  ['canceled', { ours: 'canceled', money: 'none' }],
  ['failed', { ours: 'rejected', money: 'none' }],
  ['expired', { ours: 'expired', money: 'none' }],
])

/** Our word for the provider's status of a payment; an unknown one stays as it is. */
export function paymentStatusFrom(word: string): string {
  return paymentWords.get(word)?.ours ?? word
}

const throughStatuses: ReadonlySet<string> = new Set(
  [...paymentWords.values()]
    .filter(({ money }) => money === 'in' || money === 'out')
    .map(({ ours }) => ours),
)

/** Whether the money of a payment of this status, in our words, went to the shop, even if it came back later. */
export function wentThrough(status: string): boolean {
  return throughStatuses.has(status)
}

/** Whether a payment is in a state that is known, and in which no money has gone to the shop. */
export function isUnpaidPayment(word: string): boolean {
  const ours = paymentWords.get(word)?.ours
  return ours !== undefined && !wentThrough(ours)
}
