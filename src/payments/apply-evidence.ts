import type { Trx } from '../db/database.ts'
import { canonicalJson } from '../domain/canonical-json.ts'
import type { OrderEvidence } from '../domain/order.ts'
import { canMove, isClosedUnpaid, isOpen, isPaid } from '../domain/order-state.ts'
import { insertOrderEvent } from '../repositories/order-events.ts'
import { type OrderRow, updateOrder } from '../repositories/orders.ts'
import { tellOrderChanged } from './order-changes.ts'

/** Where evidence came from; kept in the order's history. */
export type EvidenceSource = 'api' | 'webhook' | 'sweeper' | 'search'

/**
 * The only way an order's state moves. `order` must be the row that this transaction has locked. Evidence that is
 * about another order, that would move a state back, or whose state we do not know changes nothing but the record that
 * it was seen; money that shows up after an order was closed is recorded and flagged, never hidden.
 */
export async function applyEvidence(
  trx: Trx,
  order: OrderRow,
  evidence: OrderEvidence,
  source: EvidenceSource,
  now: Date,
): Promise<{ order: OrderRow; changed: boolean }> {
  const conflict = findConflict(order, evidence)
  if (conflict !== undefined) {
    if (order.conflict === conflict) return { order, changed: false }
    return change(trx, order, { conflict }, source, now, conflict)
  }

  const confirmation =
    order.creation === 'confirmed'
      ? {}
      : { creation: 'confirmed' as const, mp_order_id: evidence.mpOrderId }
  const { status } = evidence
  // A refund never shrinks, nor does money that came after the close: less than we know of is an old answer that arrived late.
  const stale =
    evidence.refundedCents < order.refunded_cents ||
    (order.paid_after_close && evidence.paidCents < order.paid_cents)
  const moves = status !== null && canMove(order.status, status)
  const paidLate =
    status !== null && isClosedUnpaid(order.status) && (isPaid(status) || status === 'refunded')
  if (stale || (status !== order.status && !moves && !paidLate)) {
    if (order.creation === 'confirmed') return { order, changed: false }
    return change(trx, order, confirmation, source, now, `provider says ${evidence.providerStatus}`)
  }

  const fields = {
    ...confirmation,
    ...(moves && { status }),
    ...(!paidLate && { status_detail: evidence.statusDetail }),
    ...(paidLate && { paid_after_close: true }),
    payments: JSON.stringify(evidence.payments.filter((payment) => payment.methodType !== null)),
    refunds: JSON.stringify(evidence.refunds),
    paid_cents: evidence.paidCents,
    refunded_cents: evidence.refundedCents,
  }
  const differs =
    order.creation !== 'confirmed' ||
    moves ||
    (paidLate && !order.paid_after_close) ||
    (!paidLate && order.status_detail !== evidence.statusDetail) ||
    order.paid_cents !== fields.paid_cents ||
    order.refunded_cents !== fields.refunded_cents ||
    canonicalJson(order.payments) !== canonicalJson(JSON.parse(fields.payments)) ||
    canonicalJson(order.refunds) !== canonicalJson(evidence.refunds)
  if (!differs) return { order, changed: false }
  return change(trx, order, fields, source, now, paidLate ? 'paid after close' : null)
}

/**
 * Closes an order of which is proven that the provider never had it: a definite refusal of its own key.
 */
export async function applyNotCreated(
  trx: Trx,
  order: OrderRow,
  source: EvidenceSource,
  now: Date,
  providerCode: string | null,
): Promise<OrderRow> {
  if (order.creation === 'confirmed' || order.creation === 'refused') return order
  const fields = {
    creation: 'refused' as const,
    status: 'failed' as const,
    status_detail: 'not_created',
  }
  return (await change(trx, order, fields, source, now, providerCode)).order
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
  const after = { ...order, ...fields, last_updated_at: now } as OrderRow
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
function findConflict(order: OrderRow, evidence: OrderEvidence): string | undefined {
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

/**
 * When to look at an order again without being told: often while a cashier may be waiting, ever more rarely until a
 * day after its expiry, never once nothing can change. One that is forgotten counts from its last change: a charge that
 * turned up at the provider long after its till has left must not wait there for a customer. A look that the provider did not answer (`answered` false) is
 * none, so the next one comes soon and the last one never.
 */
export function nextCheck(
  order: Pick<
    OrderRow,
    'status' | 'created_at' | 'last_updated_at' | 'expires_at' | 'cancel_requested_at'
  >,
  now: Date,
  answered = true,
): Date | null {
  if (!isOpen(order.status)) return null
  const at = now.getTime()
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
