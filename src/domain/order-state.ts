import type { OrderStatus } from './order.ts'

/**
 * Groups of orders for people: each order is in exactly one. `in_doubt`: it is unknown whether the customer has paid,
 * or whether a refund was made, and waiting does not resolve it. `refunded`: in part or whole.
 */
export const standings = ['under_way', 'paid', 'not_paid', 'refunded', 'in_doubt'] as const
export type Standing = (typeof standings)[number]
/** Orders that were paid, with or without a later refund: what the statistics count as paid. Not a standing, but a filter as these are. */
export const received = 'received'

/**
 * The fields that decide the standing of an order. `src/repositories/orders/order-list.ts` has the same rule in SQL,
 * and a test compares them.
 */
type StandingOrder = {
  creation: 'intent' | 'unknown' | 'confirmed' | 'refused'
  status: OrderStatus
  conflict: string | null
  unknown_status: string | null
  paid_after_close: boolean
  paid_cents: number
  refunded_cents: number
  cancel_requested_at: Date | null
  expires_at: Date
  settled_as: 'paid' | 'not_paid' | null
  refund_unclear: string | null
  refund_contradicted: string | null
}

export function standingOf(order: StandingOrder, now: Date): Standing {
  const { status } = order
  if (order.conflict !== null && order.settled_as === null) return 'in_doubt'
  if (isRefundInDoubt(order)) return 'in_doubt'
  if (order.paid_after_close) return order.refunded_cents < order.paid_cents ? 'paid' : 'refunded'
  if (isOpen(status)) return order.settled_as ?? (isDoubtful(order, now) ? 'in_doubt' : 'under_way')
  if (isClosedUnpaid(status)) return 'not_paid'
  return status === 'processed' ? 'paid' : 'refunded'
}

/** A person must decide how a refund of the order ended. */
export function isRefundInDoubt(
  order: Pick<StandingOrder, 'refund_unclear' | 'refund_contradicted'>,
): boolean {
  return order.refund_unclear !== null || order.refund_contradicted !== null
}

/** Most outcomes are known within seconds, by the sweeper. A younger charge is not shown as in doubt. */
export const doubtAfterMs = 30_000

/**
 * Why it is unknown whether the customer has paid, while no person has settled it: `in_doubt`, the provider did not confirm the
 * charge; `contradicted`, what it shows contradicts the order. `src/repositories/statistics/figure-conditions.ts` has the same
 * rule in SQL, and a test compares them.
 */
export function chargeDoubtOf(
  order: {
    creation: StandingOrder['creation']
    createdAt: Date
    conflict: boolean
    settledAs: StandingOrder['settled_as']
  },
  now: Date,
): 'in_doubt' | 'contradicted' | null {
  if (order.settledAs !== null) return null
  const isUnconfirmed = order.creation === 'intent' || order.creation === 'unknown'
  const ageMs = now.getTime() - order.createdAt.getTime()
  if (isUnconfirmed && ageMs >= doubtAfterMs) return 'in_doubt'
  return order.conflict ? 'contradicted' : null
}

/**
 * An order that was sent without an answer, or given up before one, no longer waits for a customer. Of one in a status that is not
 * known here nothing is known to come.
 */
function isDoubtful(order: StandingOrder, now: Date): boolean {
  if (order.creation === 'unknown' || order.status === 'action_required') return true
  if (order.unknown_status !== null) return true
  const isGivenUp = order.creation === 'intent' && order.cancel_requested_at !== null
  return isGivenUp || order.expires_at < now
}

/**
 * Why a person must decide about the money of an order. `paid_late`: paid after it was closed, or after a person
 * decided that it was not paid. `paid_twice`: there is a further payment. `paid_less`: the shop received less than was
 * asked. `settled_unpaid`: a person decided that it was paid, and it ended without a payment.
 */
export const decisions = ['paid_late', 'paid_twice', 'paid_less', 'settled_unpaid'] as const
export type Decision = (typeof decisions)[number]

type DecisionOrder = {
  status: OrderStatus
  amount_cents: number
  paid_cents: number
  refunded_cents: number
  paid_after_close: boolean
  settled_as: 'paid' | 'not_paid' | null
  surplus: 'open' | 'decided' | null
}

/** What a person must decide about this order; null for nothing. A full refund decides too. */
export function decisionOf(order: DecisionOrder): Decision | null {
  const wasSaidPaid = order.settled_as === 'paid' && !order.paid_after_close
  if (wasSaidPaid && isClosedUnpaid(order.status)) return 'settled_unpaid'
  const isKept = order.refunded_cents < order.paid_cents && order.settled_as !== 'paid'
  if (isKept && order.paid_after_close) return 'paid_late'
  if (order.surplus === 'open') return 'paid_twice'
  const isLess = order.paid_cents > 0 && order.paid_cents < order.amount_cents
  return isKept && isLess && isPaid(order.status) ? 'paid_less' : null
}

/**
 * Which state may follow which, as a reachability relation. The provider sends no event for `at_terminal`, and events
 * arrive late or never, so evidence may skip states. An order may be refunded before it is read. So every state that
 * can become paid can also become refunded.
 */
const reachable: Record<OrderStatus, readonly OrderStatus[]> = {
  created: [
    'at_terminal',
    'processed',
    'canceled',
    'failed',
    'expired',
    'action_required',
    'refunded',
    'partially_refunded',
  ],
  at_terminal: [
    'processed',
    'canceled',
    'failed',
    'expired',
    'action_required',
    'refunded',
    'partially_refunded',
  ],
  action_required: ['processed', 'failed', 'canceled', 'expired', 'refunded', 'partially_refunded'],
  processed: ['partially_refunded', 'refunded'],
  partially_refunded: ['refunded'],
  canceled: [],
  failed: [],
  expired: [],
  refunded: [],
}

/** Whether evidence of `to` may move an order in the state `from`. */
export function canMove(from: OrderStatus, to: OrderStatus): boolean {
  return reachable[from].includes(to)
}

/** States in which the terminal may still have the order. */
export function isOpen(status: OrderStatus): boolean {
  return status === 'created' || status === 'at_terminal' || status === 'action_required'
}

/** States in which the provider may accept a cancel. */
export function mayBeCanceled(status: OrderStatus): boolean {
  return status === 'created' || status === 'at_terminal'
}

/** The detail of an order whose cancel the provider has passed to its terminal, which may still take the money. */
export const cancelRequested = 'cancellation_requested'

/** Whether the provider has accepted a cancel of this order that the terminal has not done yet. */
export function isCancelRequested(order: {
  status: OrderStatus
  status_detail: string | null
}): boolean {
  return order.status === 'at_terminal' && order.status_detail === cancelRequested
}

/** States in which the customer's money is with the shop, at least in part. */
export function isPaid(status: OrderStatus): boolean {
  return status === 'processed' || status === 'partially_refunded'
}

/** States that end an order without a charge. */
export function isClosedUnpaid(status: OrderStatus): boolean {
  return status === 'canceled' || status === 'failed' || status === 'expired'
}

/** States that the provider never changes, so a status check is of no use. */
export function isUntouchable(status: OrderStatus): boolean {
  return isClosedUnpaid(status) || status === 'refunded'
}

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
