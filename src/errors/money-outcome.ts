import type { OrderStatus, ProviderRefund } from '../domain/order.ts'
import { isFinal, isOpen, isPaid, isPendingRefund, isResultUnknown } from '../domain/order-state.ts'
import {
  type AppError,
  type ErrorCode,
  errorCatalogue,
  type Outcome,
  type Retry,
} from './app-error.ts'

/**
 * What an answer says about the money. For a request: whether the customer is charged, and whether the same request may
 * be sent again (it is useful, and can never charge or refund twice). For an order: whether the sale may be charged
 * again.
 * All answers take it from this file, so that all promises about money are in one place.
 */
type MoneyOutcome = { outcome: Outcome; retrySafe: boolean }

/** The fields that decide whether the customer is charged for an order. */
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

/** What an error says of its order. */
export type OrderInError = MoneyState & { id: string }

/**
 * Whether the customer is charged for this order. `not_charged` promises that no charge will ever appear. So an order
 * that a customer could still pay is `unknown`, even if probably no card was used yet. The same holds while a refund is
 * under way, and when the provider contradicts our record.
 */
export function outcomeOf(order: MoneyState): Outcome {
  if (isResultUnknown(order.creation)) return 'unknown'
  if (order.conflict !== null || isRefundUnderWay(order)) return 'unknown'
  if (order.paid_after_close) {
    return order.refunded_cents < order.paid_cents ? 'charged' : 'not_charged'
  }
  if (isPaid(order.status)) return 'charged'
  return isOpen(order.status) ? 'unknown' : 'not_charged'
}

/** Whether a refund was sent whose outcome is unknown: the provider did not answer, or is still working on it. */
export function isRefundUnderWay(order: Pick<MoneyState, 'refund_open' | 'refunds'>): boolean {
  return order.refund_open || order.refunds.some(({ status }) => isPendingRefund(status))
}

/** The money of an order: `retrySafe` means that a new charge for the same sale is no second one. */
export function orderMoneyOutcome(order: MoneyState): MoneyOutcome {
  const outcome = outcomeOf(order)
  return { outcome, retrySafe: isFinal(order.status) && outcome === 'not_charged' }
}

/**
 * How a request about money may fail, and what its error says then. `as it stands` is the outcome of its order.
 * `without its refund` is the same after the open refund of this request has failed.
 */
export const situations = {
  /** The request had no effect; an equal one before it may still run. */
  notBegun: { outcome: 'unknown', retrySafe: true },

  /** Failed before its intent, or the provider's refusal proves that there is no order. */
  chargeNotMade: { outcome: 'not_charged', retrySafe: true },
  /** The same, but a retry is of no use: the box is gone, or the key belongs to another sale. */
  chargeImpossible: { outcome: 'not_charged', retrySafe: false },
  /** An equal sale is paid. */
  salePaidBefore: { outcome: 'charged', retrySafe: false },
  /** It, or an equal one before it, may have been made. The same request again is the same charge. */
  chargeUndecided: { outcome: 'unknown', retrySafe: true },
  /** The same, where neither a key nor the duplicate guard makes a repetition the same charge. */
  chargeUndecidedOnce: { outcome: 'unknown', retrySafe: false },

  /** Failed before anything is known about its order. */
  cancelUndecided: { outcome: 'unknown', retrySafe: false },
  /** The deadline has passed. A cancel only removes an unwanted charge, so it may always be sent again. */
  cancelLate: { outcome: 'unknown', retrySafe: true },
  /** The order has reached the terminal, or has ended. */
  cancelImpossible: { outcome: 'as it stands', retrySafe: false },
  /** The order still exists and may still be paid, however definite the refusal of its cancel was. */
  cancelRefused: { outcome: 'as it stands', retrySafe: true },

  /** Nothing was refunded, and a retry is of no use. */
  refundNotMade: { outcome: 'as it stands', retrySafe: false },
  /** It had no effect, and a later retry makes sense. */
  refundPutOff: { outcome: 'as it stands', retrySafe: true },
  /** After its intent a refund may have been made. An equal request continues it, so it never refunds twice. */
  refundUndecided: { outcome: 'unknown', retrySafe: true },
  /** Another process sends this refund. */
  refundElsewhere: { outcome: 'unknown', retrySafe: false },
  /** The provider accepted it and then refused it, or refused it finally. */
  refundRefused: { outcome: 'without its refund', retrySafe: false },
  /** Refused for now: a new attempt may succeed. */
  refundRefusedForNow: { outcome: 'without its refund', retrySafe: true },

  /** For a provider call alone, before a status check of the order: its effect is not excluded. */
  callUnanswered: { outcome: 'unknown', retrySafe: false },
  /** It had no effect, which does not show whether the order was paid. */
  callWithoutEffect: { outcome: 'unknown', retrySafe: true },
  /** It had no effect, since the order was canceled before. */
  callOnCanceled: { outcome: 'not_charged', retrySafe: true },
} as const satisfies Record<
  string,
  { outcome: Outcome | 'as it stands' | 'without its refund'; retrySafe: boolean }
>

export type Situation = keyof typeof situations
/** Situations that are the same for all orders. */
type PlainSituation = {
  [S in Situation]: (typeof situations)[S]['outcome'] extends Outcome ? S : never
}[Situation]

/** The outcome of a situation; some need the order. */
export function moneyOutcome(situation: PlainSituation): MoneyOutcome
export function moneyOutcome(situation: Situation, order: MoneyState): MoneyOutcome
export function moneyOutcome(situation: Situation, order?: MoneyState): MoneyOutcome {
  const { outcome, retrySafe } = situations[situation]
  if (outcome === 'as it stands') return { outcome: outcomeOf(order as MoneyState), retrySafe }
  if (outcome === 'without its refund') {
    return { outcome: outcomeOf({ ...(order as MoneyState), refund_open: false }), retrySafe }
  }
  return { outcome, retrySafe }
}

/** What a route does with money, for errors that do not state it themselves. */
export type MoneyRoute = {
  /** Repeating the same request after an unknown outcome can never charge or refund twice. */
  retrySafeWhenUnknown: boolean
  /** The request is about an order that may have been charged before it. */
  namesOrder?: boolean
}

/** What to do with a request that failed. Only one that can never charge or refund twice is sent again as it is. */
export function retryOf(code: ErrorCode, retrySafe: boolean): Retry {
  const { retry } = errorCatalogue[code]
  return retry === 'same_request' && !retrySafe ? 'no' : retry
}

/** Refused because of the caller or the time, not the content: an equal request may have succeeded before. */
const refusedUnread: ReadonlySet<ErrorCode> = new Set([
  'UNAUTHORIZED',
  'FORBIDDEN',
  'REQUEST_TIMEOUT',
  'CALLER_GONE',
  'RATE_LIMITED',
])
/** Those that only ask for the same request later. */
const passing: ReadonlySet<ErrorCode> = new Set(['REQUEST_TIMEOUT', 'CALLER_GONE', 'RATE_LIMITED'])

/**
 * The outcome for an error of a money route. A service that knows it sets it in `extra`. Otherwise the status decides:
 *
 * - Refused for its content: never charged, nor was an equal request before it.
 * - Refused unread: no effect, but an earlier request whose answer the till lost may have had one. It may be sent again
 * if only waiting helps.
 * - A cancel or refund that could not be read: unknown, because its order was not checked.
 * - 5xx: unknown, and a retry is safe only where the route guards against duplicates.
 */
export function moneyOutcomeOnFailure(
  { status, code, extra }: Pick<AppError, 'status' | 'code' | 'extra'>,
  route: MoneyRoute,
): MoneyOutcome {
  const isUnread = refusedUnread.has(code)
  const isForContent = status < 500 && !isUnread
  const isDenial = isForContent && (!route.namesOrder || code === 'NOT_FOUND')
  const outcome = extra.outcome ?? (isDenial ? 'not_charged' : 'unknown')
  if (extra.retrySafe !== undefined) return { outcome, retrySafe: extra.retrySafe }
  if (isUnread) return { outcome, retrySafe: passing.has(code) }
  if (isForContent && extra.outcome === undefined) return { outcome, retrySafe: false }
  if (outcome === 'unknown') return { outcome, retrySafe: route.retrySafeWhenUnknown }
  return { outcome, retrySafe: outcome === 'not_charged' && [503, 504].includes(status) }
}
