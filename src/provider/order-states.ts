import type { OrderStatus } from '../domain/order.ts'

/** Where the money of the buyer is when the provider uses a word: not taken, with the shop, given back, or untold. */
type Money = 'none' | 'in' | 'out' | 'untold'

type OrderWord = { status: OrderStatus; isFinal: boolean; money: Money }

/**
 * The provider's words for an order (provider file 2.6), the only place that translates them. A word that is missing here
 * is open. `partially_refunded` is no word of the provider's: it is derived. docs/erp.md shows this table.
 */
export const orderWords: ReadonlyMap<string, OrderWord> = new Map([
  ['created', { status: 'created', isFinal: false, money: 'none' }],
  ['at_terminal', { status: 'at_terminal', isFinal: false, money: 'none' }],
  ['action_required', { status: 'action_required', isFinal: false, money: 'untold' }],
  ['processed', { status: 'processed', isFinal: false, money: 'in' }],
  ['refunded', { status: 'refunded', isFinal: true, money: 'out' }],
  ['canceled', { status: 'canceled', isFinal: true, money: 'none' }],
  ['failed', { status: 'failed', isFinal: true, money: 'none' }],
  ['expired', { status: 'expired', isFinal: true, money: 'none' }],
])

/** The provider's words for a payment inside an order. Of a word that is missing here nothing is known. */
const paymentWords: ReadonlyMap<string, { ours: string; money: Money }> = new Map([
  ['created', { ours: 'created', money: 'none' }],
  ['at_terminal', { ours: 'at_terminal', money: 'none' }],
  ['action_required', { ours: 'action_required', money: 'untold' }],
  ['processed', { ours: 'approved', money: 'in' }],
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

/** Whether the provider's status of a payment says that no money was taken. */
export function isUnpaidPayment(word: string): boolean {
  return paymentWords.get(word)?.money === 'none'
}
