import { isSameJson } from '../../domain/json.ts'
import { isKeptSurplus, isOwn } from '../../domain/money.ts'
import type { OrderEvidence, OrderStatus, ProviderRefund } from '../../domain/order.ts'
import {
  canMove,
  isClosedUnpaid,
  isFailedRefund,
  isKnownRefund,
  isOpen,
  isPaid,
  isPendingRefund,
  isRefunded,
  wasReceived,
} from '../../domain/order-state.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

/** A move of an order: its row afterwards, without the time of the next status check, and the note in its history. */
type Move = { after: OrderRow; note: string | null }

export type Applied = {
  /** Undefined when nothing is new. */
  move: Move | undefined
  /** The state that the provider has just shown; null when it cannot be about this order, or is none that we know. */
  shown: OrderStatus | null
}

/**
 * The order after an answer of the provider. Evidence about another order is flagged. Evidence that
 * would move the state back, or whose state is unknown here, does not move it. Money that shows up after an order was closed is recorded
 * and flagged.
 *
 * Two final states are not final. An order that counted as refused and shows up is reopened, with its cancel requested, since the till
 * was answered that it was not charged. A refund that fails after the provider accepted it is taken back: its id and state show that,
 * since the sum alone may be an old answer that arrives late.
 */
export function applyEvidence(order: OrderRow, evidence: OrderEvidence, now: Date): Applied {
  const foreign = findMismatch(order, evidence)
  if (foreign !== undefined) return flag(order, { conflict: foreign }, now)
  if (order.creation === 'refused') return reopen(order, evidence, now)

  const isNew = order.creation !== 'confirmed'
  const confirmation = confirmationBy(order, evidence)
  const contradiction = findContradiction(order, evidence)
  if (contradiction !== undefined) {
    return flag(order, { ...confirmation, conflict: contradiction }, now)
  }
  if (evidence.status === null) return keepWord(order, evidence, isNew ? confirmation : {}, now)
  const shown = evidence.status
  const status = shown
  const refunds = compareRefunds(order, evidence)
  // Less than we know of, and no refund that failed: an old answer that arrived late.
  const stale =
    refunds.areOlder ||
    evidence.refundedCents < shownCents(order) - refunds.failedCents ||
    (order.paid_after_close && evidence.paidCents < order.paid_cents)
  const isLess = refunds.failedCents > 0 || evidence.refundedCents < order.refunded_cents
  const isGivenBack = isLess && isPaid(status) && isRefunded(order.status)
  const moves = canMove(order.status, status) || (isGivenBack && order.status !== status)
  const paidLate = isClosedUnpaid(order.status) && wasReceived(status)
  if (stale || (status !== order.status && !moves && !paidLate)) {
    if (!isNew) return { move: undefined, shown }
    const note = `provider says ${evidence.providerStatus}`
    return { move: changed(order, confirmation, now, note), shown }
  }

  const wasGivenUp =
    order.reopened_at !== null ||
    (order.status === 'action_required' && order.cancel_requested_at !== null)
  const wasSettled = order.settled_as === 'not_paid'
  const isLate = paidLate || ((wasGivenUp || wasSettled) && isPaid(status))
  const surplus = surplusAfter(order, evidence)
  const fields = {
    ...confirmation,
    ...(moves && { status }),
    ...(!paidLate && { status_detail: evidence.statusDetail }),
    ...(isLate && { paid_after_close: true }),
    surplus,
    unknown_status: null,
    payments: evidence.payments,
    refunds: refunds.all,
    paid_cents: evidence.paidCents,
    refunded_cents: evidence.refundedCents,
  }
  const differs =
    isNew ||
    moves ||
    order.conflict !== null ||
    order.unknown_status !== null ||
    order.surplus !== surplus ||
    (isLate && !order.paid_after_close) ||
    (!paidLate && order.status_detail !== evidence.statusDetail) ||
    order.paid_cents !== fields.paid_cents ||
    order.refunded_cents !== fields.refunded_cents ||
    !isSameJson(order.payments, evidence.payments) ||
    !isSameJson(order.refunds, refunds.all)
  if (!differs) return { move: undefined, shown }
  const isFurther = surplus === 'open' && order.surplus !== 'open'
  const lateNote = isLate && !order.paid_after_close ? 'paid after close' : null
  const note = lateNote ?? (isFurther ? furtherPaymentNote : refunds.note)
  return { move: changed(order, fields, now, note), shown }
}

/** What any answer about the order brings: the first one confirms its creation. */
function confirmationBy(order: OrderRow, evidence: OrderEvidence) {
  return {
    conflict: null,
    currency: order.currency ?? evidence.currency ?? null,
    ...(order.creation !== 'confirmed' && {
      creation: 'confirmed' as const,
      mp_order_id: evidence.mpOrderId,
      unanswered_at: null,
      expires_at: expiryOf(order),
    }),
  }
}

/** A state that is unknown here moves nothing: an open order stays open and a person may decide, a paid order stays paid. */
function keepWord(
  order: OrderRow,
  { providerStatus }: OrderEvidence,
  confirmation: Partial<OrderRow>,
  now: Date,
): Applied {
  const word = plainWord(providerStatus)
  const isNew = order.status_detail !== word || order.unknown_status !== word
  const shown = isOpen(order.status) && isNew && { status_detail: word, unknown_status: word }
  const fields = { ...confirmation, ...(shown || {}) }
  if (Object.keys(fields).length === 0) return { move: undefined, shown: null }
  return { move: changed(order, fields, now, `provider says ${word}`), shown: null }
}

/** The provider counts an order's time from when it has it, so one that it got late is not over yet. */
function expiryOf(order: OrderRow): Date {
  const { unanswered_at: sentAt, expires_at: known, expiration_minutes: minutes } = order
  if (sentAt === null || order.cancel_requested_at !== null) return known
  const expiresAt = new Date(sentAt.getTime() + minutes * 60_000)
  return expiresAt.getTime() - known.getTime() < 60_000 ? known : expiresAt
}

/** Marks the order for a person to check. */
function flag(
  order: OrderRow,
  fields: Partial<OrderRow> & { conflict: string },
  now: Date,
): Applied {
  if (order.conflict === fields.conflict && fields.creation === undefined) {
    return { move: undefined, shown: null }
  }
  return { move: changed(order, fields, now, fields.conflict), shown: null }
}

/** In the history of an order of which the provider shows a further payment. */
export const furtherPaymentNote = 'a further payment of this order was found'

/** A person decides about a surplus once: a later one is found as an unclaimed payment. */
function surplusAfter(order: OrderRow, { payments }: OrderEvidence): OrderRow['surplus'] {
  const further = payments.filter((payment) => !isOwn(payment))
  if (further.length === 0) return order.surplus
  const isKept = further.some(isKeptSurplus)
  if (order.surplus === null) return isKept ? 'open' : 'decided'
  return isKept ? order.surplus : 'decided'
}

/**
 * Reopens an order that counted as never made. Its till was answered so and may have charged again: the order is canceled while it is
 * not paid, and flagged when it is.
 */
function reopen(order: OrderRow, evidence: OrderEvidence, now: Date): Applied {
  const status = evidence.status ?? 'created'
  const isLate = wasReceived(status)
  const fields = {
    creation: 'confirmed' as const,
    mp_order_id: evidence.mpOrderId,
    unanswered_at: null,
    reopened_at: now,
    cancel_requested_at: order.cancel_requested_at ?? now,
    conflict: findContradiction(order, evidence) ?? null,
    status: isLate ? order.status : status,
    status_detail: evidence.statusDetail,
    paid_after_close: isLate,
    surplus: surplusAfter(order, evidence),
    payments: evidence.payments,
    refunds: evidence.refunds,
    paid_cents: evidence.paidCents,
    refunded_cents: evidence.refundedCents,
  }
  const note = 'the provider has the order that counted as refused'
  return { move: changed(order, fields, now, note), shown: evidence.status }
}

/**
 * The refunded sum according to the list of refunds, which may be less than the state `refunded` claims. A list without amounts says
 * nothing.
 */
function shownCents({ refunds, refunded_cents }: OrderRow): number {
  if (refunds.length === 0) return refunded_cents
  const standing = refunds.filter(({ status }) => !isFailedRefund(status))
  if (standing.length === 0 || standing.some(({ amountCents }) => amountCents === null)) {
    return refunded_cents
  }
  return Math.min(
    refunded_cents,
    standing.reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0),
  )
}

/** Stage of a refund, from pending to failed. A failed refund never succeeds later, so an old answer cannot show it as failed. */
function stageOf({ status }: ProviderRefund): number {
  if (isFailedRefund(status)) return 2
  return isPendingRefund(status) ? 0 : 1
}

/** Compares the refunds of the evidence with the known ones, by id. */
function compareRefunds(order: OrderRow, evidence: OrderEvidence) {
  if (order.refunds.length === 0) {
    return { areOlder: false, failedCents: 0, all: evidence.refunds, note: null }
  }
  const shown = new Map(evidence.refunds.map((refund) => [refund.id, refund]))
  const missing = order.refunds.filter(({ id }) => !shown.has(id))
  const isBehind = (known: ProviderRefund) => {
    const now = shown.get(known.id)
    return now !== undefined && isKnownRefund(now.status) && stageOf(now) < stageOf(known)
  }
  const failed = order.refunds.filter((known) => {
    const now = shown.get(known.id)
    return now !== undefined && isFailedRefund(now.status) && !isFailedRefund(known.status)
  })
  return {
    areOlder: order.refunds.some(isBehind),
    failedCents: failed.reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0),
    /** Short answers leave refunds out: what is known stays. */
    all: [...missing, ...evidence.refunds],
    note: failed.length === 0 ? null : `refund ${failed[0]?.id} failed at the provider`,
  }
}

/**
 * Closes an order of which is proven that the provider never had it: by a definite refusal of its own key, or by a search
 * after the time in which an attempt without an answer (`unansweredAt`) could still have arrived.
 */
export function applyNotCreated(
  order: OrderRow,
  now: Date,
  { code, unansweredAt }: { code: string | null; unansweredAt: Date | null },
): Move | undefined {
  if (order.creation === 'confirmed' || order.creation === 'refused') return undefined
  const fields = {
    creation: 'refused' as const,
    status: 'failed' as const,
    status_detail: 'not_created',
    unanswered_at: unansweredAt,
    // The equal order is another's, now that this one is known never to have been made.
    ...(order.conflict?.startsWith(unprovenText) && { conflict: null }),
  }
  return changed(order, fields, now, code)
}

const unprovenText = 'not proven to be this order'

/**
 * Notes orders of the provider that equal this one and are not proven to be it: whether the customer is charged is unknown, also
 * after the order counted as refused, and a person must check both.
 */
export function applyUnproven(
  order: OrderRow,
  mpOrderIds: readonly string[],
  now: Date,
): Move | undefined {
  if (order.creation === 'confirmed') return undefined
  const shown = mpOrderIds.slice(0, 3).join(', ')
  const conflict = `${unprovenText} (${order.id}): ${shown} at the provider`
  if (order.conflict === conflict) return undefined
  return changed(order, { conflict }, now, conflict)
}

/** Keeps the order open with an unknown outcome; the sweeper goes on from here. */
export function applyUnknownCreation(order: OrderRow, now: Date): Move | undefined {
  if (order.creation !== 'intent') return undefined
  return changed(order, { creation: 'unknown' }, now, 'outcome unknown')
}

/** The order with these fields changed, as a move of it. */
export function changed(
  order: OrderRow,
  fields: Partial<OrderRow>,
  now: Date,
  note: string | null,
): Move {
  return {
    after: { ...order, ...fields, version: order.version + 1, last_updated_at: now },
    note,
  }
}

/** Whether the evidence can be about this order. */
export function isAbout(order: OrderRow, evidence: OrderEvidence): boolean {
  return findMismatch(order, evidence) === undefined
}

/** Why the evidence cannot be about this order; undefined when it can. */
function findMismatch(order: OrderRow, evidence: OrderEvidence): string | undefined {
  if (order.mp_order_id !== null && order.mp_order_id !== evidence.mpOrderId) {
    return 'the provider answered with another order'
  }
  if (
    evidence.externalReference !== null &&
    evidence.externalReference !== order.mp_external_reference
  ) {
    return 'the reference at the provider differs'
  }
  if (evidence.amountCents !== null && evidence.amountCents !== order.amount_cents) {
    return 'the amount at the provider differs'
  }
  if (evidence.mpUserId !== null && evidence.mpUserId !== String(order.mp_user_id)) {
    return 'the order belongs to another account'
  }
  return undefined
}

/** What in the evidence contradicts the order or is unknown here; undefined when nothing does. */
function findContradiction(order: OrderRow, evidence: OrderEvidence): string | undefined {
  const isPaidNow = evidence.paidCents > evidence.refundedCents
  const currency = evidence.currency ?? null
  if (currency !== null && order.currency !== null && currency !== order.currency) {
    return `the currency at the provider is ${plainWord(currency)}, and the order's ${order.currency}`
  }
  if (evidence.status === null) {
    // An unknown state contradicts only an answer about money that a till has or may still get.
    const isDoubtful = isClosedUnpaid(order.status) || (isOpen(order.status) && isPaidNow)
    if (!isDoubtful) return undefined
    return `the provider shows a state that is not known here (${plainWord(evidence.providerStatus)})`
  }
  if (isPaid(order.status) && isClosedUnpaid(evidence.status)) {
    return `the provider shows a paid order as ${evidence.status}`
  }
  if (isPaidNow && (evidence.status === 'action_required' || isClosedUnpaid(evidence.status))) {
    return `the provider shows an approved payment in an order that is ${evidence.status}`
  }
  if (evidence.hasNoPayment) {
    return `the provider shows the order as ${evidence.status}, but no payment of it went through`
  }
  const mostCents = Math.max(evidence.paidCents, order.paid_cents) || order.amount_cents
  if (evidence.refundedCents > mostCents) {
    return 'the provider shows a larger refund than the payment'
  }
  return undefined
}

/** A status of the provider, when it has the form of one. */
function plainWord(text: string): string {
  return /^[\w-]{1,60}$/.test(text) ? text : 'no plain word'
}
