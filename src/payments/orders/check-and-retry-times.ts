import { isFailedRefund, isOpen, isPendingRefund } from '../../domain/order-state.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { NextCheck } from '../../repositories/orders/save-order-move.ts'

/**
 * When the next status check of orders, cancels and refunds is due, when an order counts as forgotten, and how long the provider
 * remembers a key. `due-work.ts` has the longest plan, to detect a clock that was set back.
 */

const secondMs = 1_000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs

/**
 * The provider remembers a key for 24 h; after that it may treat a repeated key as a new one. One hour is a margin for clocks.
 */
const keyMemoryMs = 23 * hourMs

/** Whether the provider still treats a key, first sent at `sentAt`, as the same attempt. */
export function isKeyRemembered(sentAt: Date, now: Date): boolean {
  return now.getTime() - sentAt.getTime() < keyMemoryMs
}

/** Whether the unanswered attempts are too old to arrive. */
export function canNotArrive(deps: Clockwork, unansweredAt: Date | null, at = deps.now()): boolean {
  if (unansweredAt === null) return true
  return at.getTime() - unansweredAt.getTime() >= deps.settings.lateArrivalMs
}

/** The provider ends an order at its expiry. The sweeper cancels only one that is still open this long after it. */
const expiryGraceMs = minuteMs

type Waiting = Pick<OrderRow, 'status' | 'cancel_requested_at' | 'expires_at'>

/**
 * Whether the provider may still offer this order to a customer although it is over: its time is over, or its cancel was
 * requested while it was unknown.
 */
export function isForgotten(order: Waiting, now: Date): boolean {
  return isUnwanted(order, now, expiryGraceMs)
}

/** The same for an order that blocks the terminal of a new charge: it may be canceled as soon as its time is over. */
export function canBeReplaced(order: Waiting, now: Date): boolean {
  return isUnwanted(order, now, 0)
}

function isUnwanted(order: Waiting, now: Date, graceMs: number): boolean {
  const isLate = order.expires_at.getTime() + graceMs < now.getTime()
  return order.status === 'created' && (order.cancel_requested_at !== null || isLate)
}

/** What decides when the next status check is due. */
export type Planned = Pick<
  OrderRow,
  | 'status'
  | 'creation'
  | 'created_at'
  | 'last_updated_at'
  | 'expires_at'
  | 'cancel_requested_at'
  | 'unanswered_at'
  | 'refunds'
  | 'refunded_cents'
>

/** After a status check without an answer, and while a refund has just been accepted. */
const soonMs = 5 * secondMs
/** The longest time between two status checks, so that the plan shows a clock that was set back. */
const longestWaitMs = 5 * minuteMs
/** Status checks continue this long after the expiry, and for refunds whose sum does not match. */
const checkedForMs = 24 * hourMs
/** An unanswered attempt may, very unlikely, still arrive this long after its order was closed. */
const searchedForMs = hourMs

/** A cashier may be waiting: often at first, then less often. */
function waitAtAge(ageMs: number): number {
  return ageMs < 2 * minuteMs ? 2 * secondMs : 5 * secondMs
}

/**
 * When the next status check is due without a webhook. Often while a cashier may be waiting, then less and less often until a day
 * after the expiry, and never once nothing can change. A forgotten order counts from its last change: one that appears at the
 * provider late must not stay open for a customer. A check without an answer (`answered` false) does not count.
 */
export function nextCheck(order: Planned, now: Date, answered = true): Date | null {
  const at = now.getTime()
  if (order.creation === 'refused') return nextSearch(order, at)
  if (hasUnsettledRefund(order)) return nextRefundCheck(order, at, answered)
  if (!isOpen(order.status)) return null
  if (at > order.expires_at.getTime() + checkedForMs) {
    return answered ? null : new Date(at + soonMs)
  }
  const since = isForgotten(order, now) ? order.last_updated_at : order.created_at
  const ageMs = at - since.getTime()
  const oldWaitMs = at < order.expires_at.getTime() ? 15 * secondMs : longestWaitMs
  const waitMs = ageMs < 10 * minuteMs ? waitAtAge(ageMs) : oldWaitMs
  return new Date(at + (answered ? waitMs : Math.min(waitMs, soonMs)))
}

/** While the webhooks of its account arrive, an open order is checked at most this often. */
const withWebhooksMs = 15 * secondMs

/** The plan of an order after a status check or a move. */
export function planCheckAt(order: Planned, now: Date, answered = true): NextCheck {
  const at = nextCheck(order, now, answered)
  const isListed =
    answered && order.creation === 'confirmed' && isOpen(order.status) && !isForgotten(order, now)
  const seldom = new Date(now.getTime() + withWebhooksMs)
  return { at, whileWebhooksArrive: at !== null && isListed && at < seldom ? seldom : null }
}

function nextSearch(
  { unanswered_at, last_updated_at }: Pick<Planned, 'unanswered_at' | 'last_updated_at'>,
  at: number,
): Date | null {
  if (unanswered_at === null || at - last_updated_at.getTime() > searchedForMs) return null
  return new Date(at + longestWaitMs)
}

/**
 * Whether a refund is pending at the provider, or the listed refunds do not match the refunded amount: then a fact is missing.
 */
export function hasUnsettledRefund({
  refunds,
  refunded_cents,
}: Pick<Planned, 'refunds' | 'refunded_cents'>): boolean {
  if (refunds.some(({ status }) => isPendingRefund(status))) return true
  const standing = refunds.filter(({ status }) => !isFailedRefund(status))
  if (standing.length === 0 || standing.some(({ amountCents }) => amountCents === null))
    return false
  return standing.reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0) < refunded_cents
}

/** A pending refund ends after seconds or days; refunds whose sum does not match are checked for a day. */
function nextRefundCheck(order: Planned, at: number, answered: boolean): Date | null {
  const ageMs = at - order.last_updated_at.getTime()
  const isPending = order.refunds.some(({ status }) => isPendingRefund(status))
  if (!isPending && ageMs > checkedForMs) return null
  const oldWaitMs = ageMs < 30 * minuteMs ? 30 * secondMs : longestWaitMs
  const waitMs = ageMs < 2 * minuteMs ? soonMs : oldWaitMs
  return new Date(at + (answered ? waitMs : soonMs))
}

/** The clock, and how long an unanswered attempt may still arrive. */
type Clockwork = { now: () => Date; settings: { lateArrivalMs: number } }

/**
 * When to ask again about a creation, cancel or refund of unknown outcome: within seconds (the sweeper pauses for accounts with
 * failures). At the latest when an unanswered attempt (`doubtfulAt`) can no longer arrive: if it is not found then, it was never
 * made.
 */
export function nextUnknownCheck(
  deps: Clockwork,
  createdAt: Date,
  doubtfulAt: Date | null = null,
): Date {
  const now = deps.now()
  const next = new Date(now.getTime() + waitAtAge(now.getTime() - createdAt.getTime()))
  return notAfterItsEnd(deps, next, doubtfulAt)
}

/** The longest wait between two attempts of a cancel that the terminal does not confirm. */
const longestCancelWaitMs = minuteMs

/**
 * When to repeat a cancel that the provider accepted and the terminal has not confirmed. Each wait is twice the last one, up to a
 * minute. The order's own status checks continue beside it.
 */
export function nextCancelTry({ now }: Pick<Clockwork, 'now'>, createdAt: Date): Date {
  const at = now().getTime()
  const ageMs = at - createdAt.getTime()
  return new Date(at + Math.min(longestCancelWaitMs, Math.max(2 * secondMs, ageMs)))
}

/** The same for the creation of an order, until the provider has forgotten its key. */
export function nextCreationCheck(
  deps: Clockwork,
  order: Planned,
  { answered, doubtfulAt }: { answered: boolean; doubtfulAt: Date | null },
): NextCheck {
  const now = deps.now()
  const next = isKeyRemembered(order.created_at, now)
    ? nextUnknownCheck(deps, order.created_at, doubtfulAt)
    : nextCheck(order, now, answered)
  return { at: next && notAfterItsEnd(deps, next, doubtfulAt), whileWebhooksArrive: null }
}

function notAfterItsEnd({ now, settings }: Clockwork, next: Date, doubtfulAt: Date | null): Date {
  if (doubtfulAt === null) return next
  const end = new Date(doubtfulAt.getTime() + settings.lateArrivalMs)
  return end > now() && end < next ? end : next
}

/** An order that a request waits for is checked at least this often. */
const watchedEveryMs = 5 * secondMs

/** The next status check of an order that a request waits for, if it must be earlier than planned. */
export function earlierForWaiting(
  order: Pick<OrderRow, 'creation' | 'next_check_at'>,
  now: Date,
): Date | undefined {
  const soon = new Date(now.getTime() + watchedEveryMs)
  // A creation has its own times, so that the sweeper does not process it beside its request.
  if (order.creation !== 'confirmed' || order.next_check_at === null) return undefined
  return order.next_check_at > soon ? soon : undefined
}

/** A simulated event takes a moment, and may move an order that has no more status checks. */
export function nextAfterSimulation(now: Date): Date {
  return new Date(now.getTime() + secondMs)
}
