import type { Database } from '../../db/database.ts'
import { isOpen } from '../../domain/order-state.ts'
import { isFailedRefund, isPendingRefund } from '../../domain/provider-states.ts'
import { createBatchingWriter } from '../../jobs/batching-writer.ts'
import {
  type NextCheck,
  noteStatusChecks,
  type StatusCheckNote,
} from '../../repositories/orders/move-queries.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { Log, PaymentDeps } from '../deps.ts'

/*
 * When the next status check of orders, cancels and refunds is due, when an order counts as forgotten, and how long the provider
 * remembers a key. `due-work.ts` has the longest plan, to notice a clock that was set back.
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

/** Whether the attempts without an answer are too old to arrive still. */
export function canNotArrive(
  deps: Pick<PaymentDeps, 'now' | 'settings'>,
  unansweredAt: Date | null,
  at = deps.now(),
): boolean {
  if (unansweredAt === null) return true
  return at.getTime() - unansweredAt.getTime() >= deps.settings.lateArrivalMs
}

/** The provider ends an order at its expiry; only one that is open long after it is canceled by us. */
const expiryGraceMs = minuteMs

type Waiting = Pick<OrderRow, 'status' | 'cancel_requested_at' | 'expires_at'>

/**
 * Whether the provider may still offer this order to a customer although its cancel was requested while it was unknown, or its time is
 * over.
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
/** The longest time between two status checks: the plan must show a clock that was set back. */
const longestWaitMs = 5 * minuteMs
/** Status checks go on for so long after the expiry, and for a sum of refunds that does not add up. */
const lookedForMs = 24 * hourMs
/** An attempt without an answer may, very unlikely, still arrive for so long after its order was closed. */
const searchedForMs = hourMs

/** While a cashier may be waiting: often at first, then less often. */
function waitAtAge(ageMs: number): number {
  return ageMs < 2 * minuteMs ? 2 * secondMs : 5 * secondMs
}

/**
 * When the next status check is due without a webhook: often while a cashier may be waiting, less and less often until a day after the
 * expiry, and never once nothing can change. A forgotten order counts from its last change: one that appeared at the provider long after
 * its till has left must not wait there for a customer. A check without an answer (`answered` false) does not count.
 */
export function nextCheck(order: Planned, now: Date, answered = true): Date | null {
  const at = now.getTime()
  if (order.creation === 'refused') return nextSearch(order, at)
  if (hasUnsettledRefund(order)) return nextRefundCheck(order, at, answered)
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

/** While the webhooks of its account arrive, an open order is not checked more often than this. */
const toldEveryMs = 15 * secondMs

/** The plan of an order after a status check or a move. */
export function planCheckAt(order: Planned, now: Date, answered = true): NextCheck {
  const at = nextCheck(order, now, answered)
  const isTold =
    answered && order.creation === 'confirmed' && isOpen(order.status) && !isForgotten(order, now)
  const seldom = new Date(now.getTime() + toldEveryMs)
  return { at, whileWebhooksArrive: at !== null && isTold && at < seldom ? seldom : null }
}

function nextSearch(
  { unanswered_at, last_updated_at }: Pick<Planned, 'unanswered_at' | 'last_updated_at'>,
  at: number,
): Date | null {
  if (unanswered_at === null || at - last_updated_at.getTime() > searchedForMs) return null
  return new Date(at + longestWaitMs)
}

/**
 * Whether a refund is pending at the provider, or the listed refunds do not add up to the refunded amount: then something is not known
 * yet.
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

/** A pending refund ends after seconds or days; a sum that does not add up is checked for a day. */
function nextRefundCheck(order: Planned, at: number, answered: boolean): Date | null {
  const ageMs = at - order.last_updated_at.getTime()
  const isPending = order.refunds.some(({ status }) => isPendingRefund(status))
  if (!isPending && ageMs > lookedForMs) return null
  const oldWaitMs = ageMs < 30 * minuteMs ? 30 * secondMs : longestWaitMs
  const waitMs = ageMs < 2 * minuteMs ? soonMs : oldWaitMs
  return new Date(at + (answered ? waitMs : soonMs))
}

type Clockwork = Pick<PaymentDeps, 'now' | 'settings'>

/**
 * When to ask again about a creation, cancel or refund of unknown outcome: within seconds (the sweeper pauses for accounts in trouble). At
 * the latest when an attempt without an answer (`doubtfulAt`) cannot arrive any more: what is not found then was never made.
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
 * When to repeat a cancel that the provider has accepted and the terminal has not confirmed: each time after twice the wait, up to a
 * minute. The order's own status checks go on beside it.
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

/** While a request waits for an order, it is checked at least this often. */
const watchedEveryMs = 5 * secondMs
/** Only a refund moves a paid order, which has no status checks of its own: for a waiting request it is read this often. */
const paidFreshForMs = 30 * secondMs

/** The next status check of an order that a request waits for, if it must be sooner than planned. */
export function soonerForWatcher(
  order: Pick<OrderRow, 'creation' | 'next_check_at'>,
  now: Date,
): Date | undefined {
  const soon = new Date(now.getTime() + watchedEveryMs)
  // A creation has its own times, so that the sweeper does not work beside its request.
  if (order.creation !== 'confirmed' || order.next_check_at === null) return undefined
  return order.next_check_at > soon ? soon : undefined
}

/** Whether a request that waits for a paid order should read it again; it was read last at `askedAt`. */
export function isReadForWatcher(
  { status, checked_at }: Pick<OrderRow, 'status' | 'checked_at'>,
  askedAt: number,
  now: Date,
): boolean {
  const freshAt = Math.max(askedAt, checked_at?.getTime() ?? 0)
  return !isOpen(status) && now.getTime() - freshAt >= paidFreshForMs
}

/** A simulated event takes a moment, and may move an order that has no status checks any more. */
export function nextAfterSimulation(now: Date): Date {
  return new Date(now.getTime() + secondMs)
}

/** Status checks that found nothing new, and when those orders are checked next. */
export type StatusCheckNotes = {
  /** Notes a status check of the order as it is known. It is written a moment later; no caller waits for it or fails with it. */
  note(order: OrderRow, check: Pick<StatusCheckNote, 'checkedAt' | 'next'>): void
  /** Writes what is pending. Never fails. */
  flush(): Promise<void>
}

/** Reads that repeat share a statement. Much shorter than the time between two status checks of the sweeper. */
const afterMs = 200
const pendingAtMost = 500

/**
 * A read does not wait for a write that says that nothing was new. A crash loses the last moment of them, so those orders are checked
 * a little sooner.
 */
export function createStatusCheckNotes(
  { db }: Pick<Database, 'db'>,
  startedAt: Date,
  now: () => Date,
  log: Log,
): StatusCheckNotes {
  let pending = new Map<string, StatusCheckNote>()

  const write = async () => {
    const notes = [...pending.values()]
    pending = new Map()
    await noteStatusChecks(db, notes, { now: now(), startedAt })
    return undefined
  }
  const isEmpty = () => pending.size === 0
  const writer = createBatchingWriter({ name: 'status checks', afterMs, isEmpty, write, log })

  return {
    note(order, check) {
      const { id, version, next_check_at: knownNext } = order
      const before = pending.get(id)
      const isSame = before?.version === version
      pending.set(id, {
        id,
        version,
        knownNext: isSame ? before.knownNext : knownNext,
        times: isSame ? before.times + 1 : 1,
        ...check,
      })
      if (pending.size >= pendingAtMost) void writer.flush()
      else writer.later()
    },
    flush: writer.flush,
  }
}
