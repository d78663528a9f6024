import type { OrderStatus, ProviderRefund } from '../domain/order.ts'
import { isOpen, isPaid, isUntouchable } from '../domain/order-state.ts'
import { isPendingRefund } from '../domain/provider-states.ts'
import type { AppError, Outcome } from './app-error.ts'

/**
 * What a till is told of the money. Of a request: whether the customer is charged, and whether the same request may be sent
 * again (it is of use, and can never charge or refund twice). Of an order: whether the sale may be charged anew.
 *
 * Every answer takes it from this file, so that what is promised of money can be read in one place.
 */
export type Verdict = { outcome: Outcome; retrySafe: boolean }

/** What decides whether the customer is charged for an order. */
export type MoneyState = {
  creation: 'intent' | 'unknown' | 'confirmed' | 'refused'
  status: OrderStatus
  conflict: string | null
  paid_after_close: boolean
  paid_cents: number
  refunded_cents: number
  refund_open: boolean
  refunds: readonly Pick<ProviderRefund, 'status'>[]
}

/**
 * Whether the customer is charged for this order. `not_charged` is a promise that no charge will ever show up, so an
 * order that a customer could still pay is `unknown`, however likely it is that nobody has touched a card yet. So is one
 * whose refund is under way, and one of which the provider says what contradicts our record.
 */
export function outcomeOf(order: MoneyState): Outcome {
  if (order.creation === 'intent' || order.creation === 'unknown') return 'unknown'
  if (order.conflict !== null || isRefundUnderWay(order)) return 'unknown'
  if (order.paid_after_close) {
    return order.refunded_cents < order.paid_cents ? 'charged' : 'not_charged'
  }
  if (isPaid(order.status)) return 'charged'
  return isOpen(order.status) ? 'unknown' : 'not_charged'
}

/** Whether a refund was sent of which nobody knows the end: no answer of the provider, or its word that it works on it. */
export function isRefundUnderWay(order: Pick<MoneyState, 'refund_open' | 'refunds'>): boolean {
  return order.refund_open || order.refunds.some(({ status }) => isPendingRefund(status))
}

/** How an order stands: here `retrySafe` says that a new charge for the same sale is no second one. */
export function orderMoneyOutcome(order: MoneyState): Verdict {
  const outcome = outcomeOf(order)
  return { outcome, retrySafe: isUntouchable(order.status) && outcome === 'not_charged' }
}

/**
 * How a request about money may end without success, and what its error then says. `as it stands` is the outcome of its
 * order; `without its refund` the same when the refund of this request, which was open, has come to nothing.
 */
export const situations = {
  /** Nothing of the request was begun, whatever it was; an equal one before it may still be under way. */
  notBegun: { outcome: 'unknown', retrySafe: true },

  /** Ended before its intent, or refused by the provider in a way that proves that there is no order. */
  chargeNotMade: { outcome: 'not_charged', retrySafe: true },
  /** The same, and asking again is of no use: the box is gone, or the key stands for another sale. */
  chargeImpossible: { outcome: 'not_charged', retrySafe: false },
  /** An equal sale is paid. */
  salePaidBefore: { outcome: 'charged', retrySafe: false },
  /** It, or an equal one before it, may have been made. The same request again is the same charge. */
  chargeUndecided: { outcome: 'unknown', retrySafe: true },
  /** The same where neither a key nor the guard against duplicates makes a repetition the same charge. */
  chargeUndecidedOnce: { outcome: 'unknown', retrySafe: false },

  /** Failed before anything is known of its order. */
  cancelUndecided: { outcome: 'unknown', retrySafe: false },
  /** Its time is over. A cancel takes nothing but a charge that nobody wants, so it may always be asked for again. */
  cancelLate: { outcome: 'unknown', retrySafe: true },
  /** The order has reached the terminal, or has ended. */
  cancelImpossible: { outcome: 'as it stands', retrySafe: false },
  /** The order is still there, and may still be paid, however definite the refusal of its cancel was. */
  cancelRefused: { outcome: 'as it stands', retrySafe: true },

  /** Nothing is given back, and asking again is of no use. */
  refundNotMade: { outcome: 'as it stands', retrySafe: false },
  /** Nothing was begun, and asking again later is of use. */
  refundPutOff: { outcome: 'as it stands', retrySafe: true },
  /** From its intent on a refund may have been made. An equal request takes it up, so it never gives back twice. */
  refundUndecided: { outcome: 'unknown', retrySafe: true },
  /** Another process sends this very refund. */
  refundElsewhere: { outcome: 'unknown', retrySafe: false },
  /** The provider took it and refused it, or refused it for good. */
  refundRefused: { outcome: 'without its refund', retrySafe: false },
  /** Refused for now: a new attempt may go through. */
  refundRefusedForNow: { outcome: 'without its refund', retrySafe: true },

  /** Of a call to the provider alone, before anybody has looked at the order: its effect is not excluded. */
  callUnanswered: { outcome: 'unknown', retrySafe: false },
  /** It had none, which does not say whether the order was paid. */
  callWithoutEffect: { outcome: 'unknown', retrySafe: true },
  /** It had none, since the order was canceled before. */
  callOnCanceled: { outcome: 'not_charged', retrySafe: true },
} as const satisfies Record<
  string,
  { outcome: Outcome | 'as it stands' | 'without its refund'; retrySafe: boolean }
>

export type Situation = keyof typeof situations
/** Those that say the same of every order. */
type PlainSituation = {
  [S in Situation]: (typeof situations)[S]['outcome'] extends Outcome ? S : never
}[Situation]

/** What is said in this situation, of this order where it depends on one. */
export function moneyOutcome(situation: PlainSituation): Verdict
export function moneyOutcome(situation: Situation, order: MoneyState): Verdict
export function moneyOutcome(situation: Situation, order?: MoneyState): Verdict {
  const { outcome, retrySafe } = situations[situation]
  if (outcome === 'as it stands') return { outcome: outcomeOf(order as MoneyState), retrySafe }
  if (outcome === 'without its refund') {
    return { outcome: outcomeOf({ ...(order as MoneyState), refund_open: false }), retrySafe }
  }
  return { outcome, retrySafe }
}

/** What a route does with money, for the errors that say nothing of it themselves. */
export type MoneyRoute = {
  /** Repeating the same request after an unknown outcome can never charge or refund twice. */
  retrySafeWhenUnknown: boolean
  /** The request is about an order that may have been charged before it. */
  namesOrder?: boolean
}

/** Refused for who asks or when, not for what: an equal request may have got through before. */
const refusedUnread: ReadonlySet<number> = new Set([401, 403, 408, 429])
/** Of them, those that only want the same request later. */
const passing: ReadonlySet<number> = new Set([408, 429])

/**
 * What an error answer of a money route says. A service that knows says so in `extra`. Otherwise: what was refused for its
 * content was never charged, nor was an equal request before it. What was refused unread did nothing either, but says
 * nothing of the request whose answer the till has lost and which it is repeating now; it may be sent again if only waiting
 * helps. Nor does a cancel or refund that could not be read say that its order, which nobody has looked for, is not paid.
 * After a 5xx nobody knows, and repeating is safe only where the route guards against duplicates.
 */
export function verdictOnFailure(
  { status, code, extra }: Pick<AppError, 'status' | 'code' | 'extra'>,
  route: MoneyRoute,
): Verdict {
  const isUnread = refusedUnread.has(status)
  const isForContent = status < 500 && !isUnread
  const isDenial = isForContent && (!route.namesOrder || code === 'NOT_FOUND')
  const outcome = extra.outcome ?? (isDenial ? 'not_charged' : 'unknown')
  if (extra.retrySafe !== undefined) return { outcome, retrySafe: extra.retrySafe }
  if (isUnread) return { outcome, retrySafe: passing.has(status) }
  if (isForContent && extra.outcome === undefined) return { outcome, retrySafe: false }
  if (outcome === 'unknown') return { outcome, retrySafe: route.retrySafeWhenUnknown }
  return { outcome, retrySafe: outcome === 'not_charged' && [503, 504].includes(status) }
}
