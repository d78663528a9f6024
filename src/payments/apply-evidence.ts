import type { Trx } from '../db/database.ts'
import { canonicalJson } from '../domain/canonical-json.ts'
import {
  isFailedRefund,
  isPendingRefund,
  type OrderEvidence,
  type OrderStatus,
  type ProviderRefund,
} from '../domain/order.ts'
import { canMove, isClosedUnpaid, isOpen, isPaid } from '../domain/order-state.ts'
import { insertOrderEvent } from '../repositories/order-events.ts'
import { type OrderRow, updateOrder } from '../repositories/orders.ts'
import { tellOrderChanged } from './order-changes.ts'

/** Where evidence came from; kept in the order's history. */
export type EvidenceSource = 'api' | 'webhook' | 'sweeper' | 'search'

export type Applied = {
  order: OrderRow
  changed: boolean
  /** The state that the provider has just shown; null when it cannot be about this order, or is none that we know. */
  shown: OrderStatus | null
}

/**
 * The only way an order's state moves. `order` must be the row that this transaction has locked. Evidence that is
 * about another order, that would move a state back, or whose state we do not know changes nothing but the record that
 * it was seen; money that shows up after an order was closed is recorded and flagged, never hidden.
 *
 * Two ends are none. An order that had counted as refused and shows up opens again, given up, since its till was told that
 * it was not charged. And a refund that fails after the provider took it gives its amount back: it is told from an old
 * answer that arrives late by its id and state, not by the sum.
 */
export async function applyEvidence(
  trx: Trx,
  order: OrderRow,
  evidence: OrderEvidence,
  source: EvidenceSource,
  now: Date,
): Promise<Applied> {
  const foreign = findMismatch(order, evidence)
  if (foreign !== undefined) return flag(trx, order, { conflict: foreign }, source, now)
  if (order.creation === 'refused') return reopen(trx, order, evidence, source, now)

  const isNew = order.creation !== 'confirmed'
  const confirmation = {
    conflict: null,
    ...(isNew && {
      creation: 'confirmed' as const,
      mp_order_id: evidence.mpOrderId,
      unanswered_at: null,
    }),
  }
  const contradiction = findContradiction(order, evidence)
  if (contradiction !== undefined) {
    return flag(trx, order, { ...confirmation, conflict: contradiction }, source, now)
  }
  const shown = evidence.status
  const status = shown as OrderStatus
  const refunds = compareRefunds(order, evidence)
  // Less than we know of, and no refund that failed: an old answer that arrived late.
  const stale =
    refunds.areOlder ||
    evidence.refundedCents < order.refunded_cents - refunds.failedCents ||
    (order.paid_after_close && evidence.paidCents < order.paid_cents)
  const isGivenBack = refunds.failedCents > 0 && isPaid(status) && isGiven(order.status)
  const moves = canMove(order.status, status) || (isGivenBack && order.status !== status)
  const paidLate = isClosedUnpaid(order.status) && (isPaid(status) || status === 'refunded')
  if (stale || (status !== order.status && !moves && !paidLate)) {
    if (!isNew) return { order, changed: false, shown }
    const note = `provider says ${evidence.providerStatus}`
    return { ...(await change(trx, order, confirmation, source, now, note)), shown }
  }

  const wasGivenUp =
    order.reopened_at !== null ||
    (order.status === 'action_required' && order.cancel_requested_at !== null)
  const isLate = paidLate || (wasGivenUp && isPaid(status))
  const fields = {
    ...confirmation,
    ...(moves && { status }),
    ...(!paidLate && { status_detail: evidence.statusDetail }),
    ...(isLate && { paid_after_close: true }),
    payments: JSON.stringify(evidence.payments),
    refunds: JSON.stringify(refunds.all),
    paid_cents: evidence.paidCents,
    refunded_cents: evidence.refundedCents,
  }
  const differs =
    isNew ||
    moves ||
    order.conflict !== null ||
    (isLate && !order.paid_after_close) ||
    (!paidLate && order.status_detail !== evidence.statusDetail) ||
    order.paid_cents !== fields.paid_cents ||
    order.refunded_cents !== fields.refunded_cents ||
    canonicalJson(order.payments) !== canonicalJson(evidence.payments) ||
    canonicalJson(order.refunds) !== canonicalJson(refunds.all)
  if (!differs) return { order, changed: false, shown }
  const note = isLate && !order.paid_after_close ? 'paid after close' : refunds.note
  return { ...(await change(trx, order, fields, source, now, note)), shown }
}

/** Keeps with the order what a person must look at. */
async function flag(
  trx: Trx,
  order: OrderRow,
  fields: { conflict: string; creation?: 'confirmed'; mp_order_id?: string; unanswered_at?: null },
  source: EvidenceSource,
  now: Date,
): Promise<Applied> {
  if (order.conflict === fields.conflict && fields.creation === undefined) {
    return { order, changed: false, shown: null }
  }
  return { ...(await change(trx, order, fields, source, now, fields.conflict)), shown: null }
}

/** States in which money has been given back. */
function isGiven(status: OrderStatus): boolean {
  return status === 'refunded' || status === 'partially_refunded'
}

/**
 * An order that had counted as never made. Nobody waits for it: its till was told so, and may have charged again. It counts
 * as given up, so it is canceled as long as nobody has paid; once somebody has, it is flagged.
 */
async function reopen(
  trx: Trx,
  order: OrderRow,
  evidence: OrderEvidence,
  source: EvidenceSource,
  now: Date,
): Promise<Applied> {
  const status = evidence.status ?? 'created'
  const isLate = isPaid(status) || status === 'refunded'
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
    payments: JSON.stringify(evidence.payments),
    refunds: JSON.stringify(evidence.refunds),
    paid_cents: evidence.paidCents,
    refunded_cents: evidence.refundedCents,
  }
  const note = 'the provider has the order that counted as refused'
  return { ...(await change(trx, order, fields, source, now, note)), shown: evidence.status }
}

/** How far a refund has come. One that has failed never succeeds any more, so an old answer cannot show it as failed. */
function stageOf({ status }: ProviderRefund): number {
  if (isFailedRefund(status)) return 2
  return isPendingRefund(status) ? 0 : 1
}

/** What the evidence says of the refunds that we know of, each by its id. */
function compareRefunds(order: OrderRow, evidence: OrderEvidence) {
  const shown = new Map(evidence.refunds.map((refund) => [refund.id, refund]))
  const missing = order.refunds.filter(({ id }) => !shown.has(id))
  const isBehind = (known: ProviderRefund) => {
    const now = shown.get(known.id)
    return now !== undefined && stageOf(now) < stageOf(known)
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
export async function applyNotCreated(
  trx: Trx,
  order: OrderRow,
  source: EvidenceSource,
  now: Date,
  { code, unansweredAt }: { code: string | null; unansweredAt: Date | null },
): Promise<OrderRow> {
  if (order.creation === 'confirmed' || order.creation === 'refused') return order
  const fields = {
    creation: 'refused' as const,
    status: 'failed' as const,
    status_detail: 'not_created',
    unanswered_at: unansweredAt,
  }
  return (await change(trx, order, fields, source, now, code)).order
}

/** Keeps the order open with an unknown outcome; the sweeper goes on from here. */
export async function applyUnknownCreation(
  trx: Trx,
  order: OrderRow,
  source: EvidenceSource,
  now: Date,
): Promise<OrderRow> {
  if (order.creation !== 'intent') return order
  return (await change(trx, order, { creation: 'unknown' }, source, now, 'outcome unknown')).order
}

async function change(
  trx: Trx,
  order: OrderRow,
  fields: Parameters<typeof updateOrder>[2],
  source: EvidenceSource,
  now: Date,
  note: string | null,
): Promise<{ order: OrderRow; changed: boolean }> {
  const version = order.version + 1
  const refunds = fields.refunds === undefined ? order.refunds : JSON.parse(String(fields.refunds))
  const after = { ...order, ...fields, refunds, last_updated_at: now } as OrderRow
  const updated = await updateOrder(trx, order.id, {
    ...fields,
    version,
    last_updated_at: now,
    next_check_at: nextCheck(after, now),
  })
  await insertOrderEvent(trx, {
    order_id: order.id,
    client: order.client,
    at: now,
    source,
    from_status: order.status,
    to_status: updated.status,
    status_detail: updated.status_detail,
    version,
    note,
  })
  await tellOrderChanged(trx, updated)
  return { order: updated, changed: true }
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

/** What the evidence says of this order that cannot be, or is not known here; undefined when it is plain. */
function findContradiction(order: OrderRow, evidence: OrderEvidence): string | undefined {
  if (evidence.status === null) {
    return `the provider shows a state that is not known here (${plainWord(evidence.providerStatus)})`
  }
  if (isPaid(order.status) && isClosedUnpaid(evidence.status)) {
    return `the provider shows a paid order as ${evidence.status}`
  }
  return undefined
}

/** A word of the provider's, as far as it is one. */
function plainWord(text: string): string {
  return /^[\w-]{1,60}$/.test(text) ? text : 'no plain word'
}

const afterExpiryMs = 24 * 3600_000
const unansweredMs = 5_000
/** The provider ends an order by itself; only one that it left open long past its time is canceled. */
const expiryGraceMs = 60_000

/**
 * Whether the provider may still offer this order to a customer although nobody waits for it any longer: its cashier
 * gave it up while it was unknown, or its time is over.
 */
export function isForgotten(
  order: Pick<OrderRow, 'status' | 'cancel_requested_at' | 'expires_at'>,
  now: Date,
): boolean {
  const isLate = order.expires_at.getTime() + expiryGraceMs < now.getTime()
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

/**
 * When to look at an order again without being told: often while a cashier may be waiting, ever more rarely until a
 * day after its expiry, never once nothing can change. One that is forgotten counts from its last change: a charge that
 * turned up at the provider long after its till has left must not wait there for a customer. A look that the provider did not answer (`answered` false) is
 * none, so the next one comes soon and the last one never.
 */
export function nextCheck(order: Planned, now: Date, answered = true): Date | null {
  const at = now.getTime()
  if (order.creation === 'refused') return nextSearch(order, at)
  if (hasUnsettledRefund(order)) return nextRefundLook(order, at, answered)
  if (!isOpen(order.status)) return null
  if (at > order.expires_at.getTime() + afterExpiryMs) {
    return answered ? null : new Date(at + unansweredMs)
  }
  const since = isForgotten(order, now) ? order.last_updated_at : order.created_at
  const ageMs = at - since.getTime()
  const waitMs =
    ageMs < 120_000
      ? 2_000
      : ageMs < 600_000
        ? 5_000
        : at < order.expires_at.getTime()
          ? 15_000
          : 300_000
  return new Date(at + (answered ? waitMs : Math.min(waitMs, unansweredMs)))
}

const minuteMs = 60_000
/** The longest time between two looks: the plan of looks must show a clock that was set back. */
const longestWaitMs = 5 * minuteMs
const searchedForMs = 60 * minuteMs

/** An attempt that nobody answered may, against all likelihood, still turn up: for an hour after its order was closed. */
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
  if (!isPending && ageMs > 24 * 60 * minuteMs) return null
  const waitMs = ageMs < 2 * minuteMs ? 5_000 : ageMs < 30 * minuteMs ? 30_000 : longestWaitMs
  return new Date(at + (answered ? waitMs : unansweredMs))
}
