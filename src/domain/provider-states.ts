import type { OrderStatus } from './order.ts'

/**
 * Where the buyer's money is: not taken, with the shop, returned to the buyer, or unknown. A charge-back leaves it
 * `in`: its case decides (src/payments/chargebacks).
 */
export type Money = 'none' | 'in' | 'out' | 'unknown'

/** Who must act next. `provider`: only waiting helps. */
type NextActor = 'customer' | 'cashier' | 'provider' | 'shop' | 'none'

/** The provider's status of an order and of a payment, while the buyer disputes it and after the decision. */
export const chargedBack = 'charged_back'

type OrderWord = {
  status: OrderStatus
  money: Money
  acts: NextActor
  /** Our status is less exact than the provider's, so the provider's becomes the detail. */
  isDetail?: true
}

/**
 * The provider's statuses of an order (provider file 2.6, news-2026-11 section 7); only this table translates them. A
 * status that is missing here is open. `partially_refunded` is not the provider's: it is derived. `isUntouchable` of
 * our state decides whether a status is open or final. docs/reference/order-states.md shows this table.
 */
export const orderWords: ReadonlyMap<string, OrderWord> = new Map([
  ['created', { status: 'created', money: 'none', acts: 'customer' }],
  ['at_terminal', { status: 'at_terminal', money: 'none', acts: 'customer' }],
  ['processing', { status: 'at_terminal', money: 'unknown', acts: 'provider', isDetail: true }],
  ['in_process', { status: 'at_terminal', money: 'unknown', acts: 'provider', isDetail: true }],
  ['action_required', { status: 'action_required', money: 'unknown', acts: 'cashier' }],
  ['processed', { status: 'processed', money: 'in', acts: 'none' }],
  // The sale stays a sale: a separate case decides whether the buyer's bank gets the money.
  [chargedBack, { status: 'processed', money: 'in', acts: 'shop', isDetail: true }],
  ['refunded', { status: 'refunded', money: 'out', acts: 'none' }],
  ['canceled', { status: 'canceled', money: 'none', acts: 'cashier' }],
  ['failed', { status: 'failed', money: 'none', acts: 'cashier' }],
  ['expired', { status: 'expired', money: 'none', acts: 'cashier' }],
])

/** Who must act on an open order with this detail. With a detail that is missing here, the provider is working on it. */
const openDetails: ReadonlyMap<string, NextActor> = new Map([
  ['created', 'customer'],
  ['at_terminal', 'customer'],
  ['ready_to_process', 'customer'],
  ['waiting_payment', 'customer'],
  ['check_on_terminal', 'cashier'],
  ['cancellation_requested', 'provider'],
])

/** Who must act on an order that is neither paid nor closed. */
export function actorOnOpen(detail: string | null): NextActor {
  return detail === null ? 'customer' : (openDetails.get(detail) ?? 'provider')
}

type PaymentWord = {
  money: Money
  /** It never changes again, except by refunds of money that came in. */
  isFinal: boolean
  /** Our status, if it differs. */
  ours?: string
}

/**
 * The provider's statuses of a payment: those in orders (provider file 2.6) and those of its Payments API, which has
 * other names for the same. For a status that is missing here nothing is known.
 */
export const paymentWords: ReadonlyMap<string, PaymentWord> = new Map([
  ['created', { money: 'none', isFinal: false }],
  ['at_terminal', { money: 'none', isFinal: false }],
  ['pending', { money: 'unknown', isFinal: false }],
  ['authorized', { money: 'unknown', isFinal: false }],
  ['processing', { money: 'unknown', isFinal: false }],
  ['in_process', { money: 'unknown', isFinal: false }],
  ['action_required', { money: 'unknown', isFinal: false }],
  ['processed', { money: 'in', isFinal: true, ours: 'approved' }],
  ['approved', { money: 'in', isFinal: true }],
  // The buyer disputes it: the provider may withhold the money, and the sale stays a sale.
  ['in_mediation', { money: 'in', isFinal: false }],
  [chargedBack, { money: 'in', isFinal: false }],
  ['refunded', { money: 'out', isFinal: true }],
  ['canceled', { money: 'none', isFinal: true }],
  ['cancelled', { money: 'none', isFinal: true }],
  ['failed', { money: 'none', isFinal: true, ours: 'rejected' }],
  ['rejected', { money: 'none', isFinal: true }],
  ['expired', { money: 'none', isFinal: true }],
])

/** Our status for the provider's status of a payment; an unknown one stays unchanged. */
export function paymentStatusFrom(word: string): string {
  return paymentWords.get(word)?.ours ?? word
}

/** Whether the money of a payment of this status went to the shop, even if it was returned later. */
export function wentThrough(status: string): boolean {
  const money = paymentWords.get(status)?.money
  return money === 'in' || money === 'out'
}

const wordsWith = (...wanted: Money[]): readonly string[] =>
  [...paymentWords].filter(([, { money }]) => wanted.includes(money)).map(([word]) => word)

/** Statuses of a payment whose money is with the shop, except for partial refunds. */
export const receivedStatuses = wordsWith('in')
/** Statuses of a payment whose money went to the shop, even if it was returned later. */
export const throughStatuses = wordsWith('in', 'out')

/** Whether a payment of this status has taken no money and never will. */
export function endedUnpaid(status: string): boolean {
  const word = paymentWords.get(status)
  return word !== undefined && word.money === 'none' && word.isFinal
}

/** Whether the status of a payment is known, and no money has gone to the shop. */
export function isUnpaidPayment(status: string): boolean {
  return paymentWords.has(status) && !wentThrough(status)
}

/** The provider's statuses of a refund, in orders and in its Payments API. With a status that is missing here the refund is open. */
export const refundWords: ReadonlyMap<string, 'done' | 'open' | 'failed'> = new Map([
  ['processed', 'done'],
  ['approved', 'done'],
  ['refunded', 'done'],
  ['created', 'open'],
  ['pending', 'open'],
  ['authorized', 'open'],
  ['processing', 'open'],
  ['in_process', 'open'],
  ['in_progress', 'open'],
  ['failed', 'failed'],
  ['rejected', 'failed'],
  ['canceled', 'failed'],
  ['cancelled', 'failed'],
  ['expired', 'failed'],
])

export function isKnownRefund(status: string): boolean {
  return refundWords.has(status)
}

/** Whether the money of a refund of this status did not and will not move. */
export function isFailedRefund(status: string): boolean {
  return refundWords.get(status) === 'failed'
}

/**
 * Whether the provider has accepted a refund of this status and its end is open (provider file 2.4). So is a refund of
 * unknown status.
 */
export function isPendingRefund(status: string): boolean {
  return (refundWords.get(status) ?? 'open') === 'open'
}
