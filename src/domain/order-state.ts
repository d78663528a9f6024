import type { OrderStatus } from './order.ts'

/** What is true of an order by its state alone. A flag that is absent is false. */
type OrderState = {
  /** The customer may still pay. */
  open?: true
  /** It occupies its terminal, and the provider may accept a cancel. */
  holdsTerminal?: true
  /** Only the terminal brings an order into this state, so it was seen to work. */
  showsTerminal?: true
  /** The customer paid, with or without a later refund. */
  received?: true
  /** The customer's money is with the shop, at least in part. */
  paid?: true
  /** The customer got it back, in part or whole. */
  refunded?: true
  /** It ended without a charge. */
  closedUnpaid?: true
  /** The provider never changes it, so a status check is of no use. */
  final?: true
  /**
   * The states that evidence may move it to, as a reachability relation. The provider sends no event for `at_terminal`, and
   * events arrive late or never, so evidence may skip states. An order may be refunded before it is read: each state that can
   * become paid can also become refunded.
   */
  next: readonly OrderStatus[]
}

const unpaidEnds = ['failed', 'canceled', 'expired'] as const
const refundedStates = ['partially_refunded', 'refunded'] as const

/**
 * Every list of states in the code comes from this table. The lists in migrations/0003_orders.sql are compared with it by
 * test/payment/same-states.test.ts, and public/shared/order-states.js is written from it.
 */
export const orderStates: Readonly<Record<OrderStatus, OrderState>> = {
  created: {
    open: true,
    holdsTerminal: true,
    next: ['at_terminal', 'action_required', 'processed', ...unpaidEnds, ...refundedStates],
  },
  at_terminal: {
    open: true,
    holdsTerminal: true,
    showsTerminal: true,
    next: ['action_required', 'processed', ...unpaidEnds, ...refundedStates],
  },
  // It has left the terminal, and a person looks there for its result.
  action_required: {
    open: true,
    showsTerminal: true,
    next: ['processed', ...unpaidEnds, ...refundedStates],
  },
  processed: { received: true, paid: true, showsTerminal: true, next: refundedStates },
  failed: { closedUnpaid: true, final: true, showsTerminal: true, next: [] },
  canceled: { closedUnpaid: true, final: true, next: [] },
  expired: { closedUnpaid: true, final: true, next: [] },
  partially_refunded: { received: true, paid: true, refunded: true, next: ['refunded'] },
  refunded: { received: true, refunded: true, final: true, next: [] },
}

export type StateFlag = Exclude<keyof OrderState, 'next'>

const has = (flag: StateFlag) => (status: OrderStatus) => orderStates[status][flag] === true

export const isOpen = has('open')
export const holdsTerminal = has('holdsTerminal')
export const wasReceived = has('received')
export const isPaid = has('paid')
export const isRefunded = has('refunded')
export const isClosedUnpaid = has('closedUnpaid')
export const isFinal = has('final')

/** The states with a flag, in the order of the table. */
export function statesThat(flag: StateFlag): OrderStatus[] {
  return (Object.keys(orderStates) as OrderStatus[]).filter(has(flag))
}

/** Whether evidence of `to` may move an order in the state `from`. */
export function canMove(from: OrderStatus, to: OrderStatus): boolean {
  return orderStates[from].next.includes(to)
}

/** `creation` of an order and `state` of an operation whose result at the provider is not known. */
export const unknownResults = ['intent', 'unknown'] as const

export function isResultUnknown(state: string): boolean {
  return state === 'intent' || state === 'unknown'
}

/**
 * Groups of orders for people: each order is in exactly one. `in_doubt`: it is unknown whether the customer has paid,
 * or whether a refund was made, and waiting does not resolve it. `refunded`: in part or whole.
 */
export const standings = ['under_way', 'paid', 'not_paid', 'refunded', 'in_doubt'] as const
export type Standing = (typeof standings)[number]
/** Orders that were paid, with or without a later refund: what the statistics count as paid. Not a standing, but a filter as these are. */
export const received = 'received'

/** The database derives the standing from the other columns. It does not know the time: an order under way whose time is over is in doubt. */
export function standingAt(order: { standing: Standing; expires_at: Date }, now: Date): Standing {
  return order.standing === 'under_way' && order.expires_at < now ? 'in_doubt' : order.standing
}

/** Most outcomes are known within seconds, by the sweeper. A younger charge is not shown as in doubt. */
export const doubtAfterMs = 30_000

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

/** The detail of an order whose cancel the provider has passed to its terminal, which may still take the money. */
export const cancelRequested = 'cancellation_requested'

/** Whether the provider has accepted a cancel of this order that the terminal has not done yet. */
export function isCancelRequested(order: {
  status: OrderStatus
  status_detail: string | null
}): boolean {
  return order.status === 'at_terminal' && order.status_detail === cancelRequested
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
 * status that is missing here is open. `partially_refunded` is not the provider's: it is derived. `isFinal` of
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
