import { isOpen } from '../../domain/order-state.ts'
import { isFailedRefund, isPendingRefund } from '../../domain/provider-states.ts'
import type { NextLook } from '../../repositories/orders/move-queries.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'

/*
 * When orders, cancels and refunds are looked at again, when an order counts as forgotten, and how long the provider
 * remembers. `due-times.ts` knows how far ahead the plan reaches, to notice a clock that was set back.
 */

const secondMs = 1_000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs

/** The provider remembers a key for 24 h; past this it may take a repeated key for a new one. An hour is kept for clocks. */
const keyMemoryMs = 23 * hourMs

/** Whether the provider still takes a key that it was first sent at `sentAt` for the same attempt. */
export function isKeyRemembered(sentAt: Date, now: Date): boolean {
  return now.getTime() - sentAt.getTime() < keyMemoryMs
}

/** Whether the attempts that nobody answered were begun so long ago that nothing still holds them back on their way. */
export function canNotArrive(
  deps: Pick<PaymentDeps, 'now' | 'settings'>,
  unansweredAt: Date | null,
  at = deps.now(),
): boolean {
  if (unansweredAt === null) return true
  return at.getTime() - unansweredAt.getTime() >= deps.settings.lateArrivalMs
}

/** The provider ends an order by itself; only one that it left open long past its time is canceled. */
const expiryGraceMs = minuteMs

type Waiting = Pick<OrderRow, 'status' | 'cancel_requested_at' | 'expires_at'>

/**
 * Whether the provider may still offer this order to a customer although nobody waits for it any longer: its cashier
 * gave it up while it was unknown, or its time is over.
 */
export function isForgotten(order: Waiting, now: Date): boolean {
  return isUnwanted(order, now, expiryGraceMs)
}

/** The same for an order that a new charge finds on its terminal: it gives way as soon as its time is over. */
export function givesWay(order: Waiting, now: Date): boolean {
  return isUnwanted(order, now, 0)
}

function isUnwanted(order: Waiting, now: Date, graceMs: number): boolean {
  const isLate = order.expires_at.getTime() + graceMs < now.getTime()
  return order.status === 'created' && (order.cancel_requested_at !== null || isLate)
}

/** What decides when an order is looked at again. */
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

/** After a look that nobody answered, and while a refund has just been taken. */
const soonMs = 5 * secondMs
/** The longest time between two looks: the plan of looks must show a clock that was set back. */
const longestWaitMs = 5 * minuteMs
/** Past its time an order is looked at for so long, and so is a sum of refunds that does not add up. */
const lookedForMs = 24 * hourMs
/** An attempt that nobody answered may, against all likelihood, still turn up: for so long after its order was closed. */
const searchedForMs = hourMs

/** While somebody may be waiting for the outcome: often at first, then less so. */
function waitAtAge(ageMs: number): number {
  return ageMs < 2 * minuteMs ? 2 * secondMs : 5 * secondMs
}

/**
 * When to look at an order again without being told: often while a cashier may be waiting, ever more rarely until a
 * day after its expiry, never once nothing can change. One that is forgotten counts from its last change: a charge that
 * turned up at the provider long after its till has left must not wait there for a customer. A look that the provider did
 * not answer (`answered` false) is none, so the next one comes soon and the last one never.
 */
export function nextCheck(order: Planned, now: Date, answered = true): Date | null {
  const at = now.getTime()
  if (order.creation === 'refused') return nextSearch(order, at)
  if (hasUnsettledRefund(order)) return nextRefundLook(order, at, answered)
  if (!isOpen(order.status)) return null
  if (at > order.expires_at.getTime() + lookedForMs) {
    return answered ? null : new Date(at + soonMs)
  }
  const since = isForgotten(order, now) ? order.last_updated_at : order.created_at
  const ageMs = at - since.getTime()
  const oldWaitMs = at < order.expires_at.getTime() ? 15 * secondMs : longestWaitMs
  const waitMs = ageMs < 10 * minuteMs ? waitAtAge(ageMs) : oldWaitMs
  return new Date(at + (answered ? waitMs : Math.min(waitMs, soonMs)))
}

/** While the webhooks of its account arrive, an open order is looked at no more often than this. */
const toldEveryMs = 15 * secondMs

/** The plan of an order that has just been looked at, or has moved. */
export function planLook(order: Planned, now: Date, answered = true): NextLook {
  const at = nextCheck(order, now, answered)
  const isTold =
    answered && order.creation === 'confirmed' && isOpen(order.status) && !isForgotten(order, now)
  const seldom = new Date(now.getTime() + toldEveryMs)
  return { at, whileTold: at !== null && isTold && at < seldom ? seldom : null }
}

function nextSearch(
  { unanswered_at, last_updated_at }: Pick<Planned, 'unanswered_at' | 'last_updated_at'>,
  at: number,
): Date | null {
  if (unanswered_at === null || at - last_updated_at.getTime() > searchedForMs) return null
  return new Date(at + longestWaitMs)
}

/**
 * Whether a refund is still under way at the provider, or the refunds that are listed do not make the sum that was given
 * back: then something has not been seen yet.
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

/** A pending refund ends after seconds or days; a sum that does not add up is looked into for a day. */
function nextRefundLook(order: Planned, at: number, answered: boolean): Date | null {
  const ageMs = at - order.last_updated_at.getTime()
  const isPending = order.refunds.some(({ status }) => isPendingRefund(status))
  if (!isPending && ageMs > lookedForMs) return null
  const oldWaitMs = ageMs < 30 * minuteMs ? 30 * secondMs : longestWaitMs
  const waitMs = ageMs < 2 * minuteMs ? soonMs : oldWaitMs
  return new Date(at + (answered ? waitMs : soonMs))
}

type Clockwork = Pick<PaymentDeps, 'now' | 'settings'>

/**
 * When to ask again about a creation, cancel or refund of unknown outcome: money hangs on it, so within seconds (the sweeper
 * itself spares an account in trouble). At the latest at the very moment from which on an attempt that nobody answered
 * (`doubtfulAt`) cannot arrive any more: what is looked for then, and not found, was never made.
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

/** The longest wait between two tries of a cancel that the terminal does not carry out. */
const longestCancelWaitMs = minuteMs

/**
 * When to go on with a cancel that the provider has taken and the terminal has not carried out: each time twice as late, up to
 * a minute. The order itself is looked at in its own times.
 */
export function nextCancelTry({ now }: Pick<Clockwork, 'now'>, createdAt: Date): Date {
  const at = now().getTime()
  const ageMs = at - createdAt.getTime()
  return new Date(at + Math.min(longestCancelWaitMs, Math.max(2 * secondMs, ageMs)))
}

/** The same for the creation of an order; it is looked at as any other once the provider has forgotten its key. */
export function nextCreationLook(
  deps: Clockwork,
  order: Planned,
  { answered, doubtfulAt }: { answered: boolean; doubtfulAt: Date | null },
): NextLook {
  const now = deps.now()
  const next = isKeyRemembered(order.created_at, now)
    ? nextUnknownCheck(deps, order.created_at, doubtfulAt)
    : nextCheck(order, now, answered)
  return { at: next && notAfterItsEnd(deps, next, doubtfulAt), whileTold: null }
}

function notAfterItsEnd({ now, settings }: Clockwork, next: Date, doubtfulAt: Date | null): Date {
  if (doubtfulAt === null) return next
  const end = new Date(doubtfulAt.getTime() + settings.lateArrivalMs)
  return end > now() && end < next ? end : next
}

/** While somebody waits for an order, it is looked at this often at least, however old it is. */
const watchedEveryMs = 5 * secondMs
/** Nothing but a refund moves a paid order, which is not looked at by itself: for a watcher it is read this often. */
const paidFreshForMs = 30 * secondMs

/** The next look at an order that somebody waits for, if it must be sooner than planned. */
export function soonerForWatcher(
  order: Pick<OrderRow, 'creation' | 'next_check_at'>,
  now: Date,
): Date | undefined {
  const soon = new Date(now.getTime() + watchedEveryMs)
  // One that is still being made has its own times, at which nobody works beside its request.
  if (order.creation !== 'confirmed' || order.next_check_at === null) return undefined
  return order.next_check_at > soon ? soon : undefined
}

/** Whether somebody who watches a paid order should have it read, which was asked for last at `askedAt`. */
export function isReadForWatcher(
  { status, checked_at }: Pick<OrderRow, 'status' | 'checked_at'>,
  askedAt: number,
  now: Date,
): boolean {
  const freshAt = Math.max(askedAt, checked_at?.getTime() ?? 0)
  return !isOpen(status) && now.getTime() - freshAt >= paidFreshForMs
}

/** A simulated event takes a moment, and may move an order that nobody looks at any more. */
export function nextAfterSimulation(now: Date): Date {
  return new Date(now.getTime() + secondMs)
}
