import type { OrderEvidence, ProviderRefund } from '../../domain/order.ts'
import { wasReceived } from '../../domain/order-state.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import {
  type Applied,
  applyEvidence,
  applyNotCreated,
  applyUnknownCreation,
  applyUnproven,
  changed,
} from './state-from-provider.ts'

/** What happened to an order, or what was decided about it. */
export type OrderEvent =
  /** `contradiction`: why the evidence contradicts a person's decision on a refund; null when it does not. */
  | { kind: 'provider_answered'; evidence: OrderEvidence; contradiction: string | null }
  /** The provider never had it: its refusal says so, or a search. `unansweredAt`: the attempt that had no answer. */
  | { kind: 'not_created'; code: string | null; unansweredAt: Date | null }
  | { kind: 'creation_unknown' }
  /** The provider has orders of the same content that are not proven to be this one. */
  | { kind: 'equal_orders_found'; mpOrderIds: readonly string[] }
  | { kind: 'cancel_requested' }
  /** `givesUp`: nothing is sent any more that could make the charge. */
  | { kind: 'charge_settled'; as: 'paid' | 'not_paid'; reason: string; givesUp: boolean }
  /** `added`: the refund that was made and is not listed. `removed`: one that was added and was not made. */
  | { kind: 'refund_settled'; isMade: boolean; added?: ProviderRefund; removed?: ProviderRefund }
  | { kind: 'further_payment'; surplus: 'open' | 'decided'; note: string }

/** The evidence of an order without a decision on a refund. */
export function providerAnswered(evidence: OrderEvidence): OrderEvent {
  return { kind: 'provider_answered', evidence, contradiction: null }
}

type Rules = {
  [Kind in OrderEvent['kind']]: (
    order: OrderRow,
    event: Extract<OrderEvent, { kind: Kind }>,
    now: Date,
  ) => Applied
}

/** How an order is after each event: the only rules by which it moves. */
const rules: Rules = {
  provider_answered(order, { evidence, contradiction }, now) {
    const applied = applyEvidence(order, evidence, now)
    if (contradiction === order.refund_contradicted) return applied
    const { after, note } = applied.move ?? changed(order, {}, now, contradiction)
    return { ...applied, move: { after: { ...after, refund_contradicted: contradiction }, note } }
  },
  not_created: (order, event, now) => ({ move: applyNotCreated(order, now, event), shown: null }),
  creation_unknown: (order, _event, now) => ({
    move: applyUnknownCreation(order, now),
    shown: null,
  }),
  equal_orders_found: (order, { mpOrderIds }, now) => ({
    move: applyUnproven(order, mpOrderIds, now),
    shown: null,
  }),
  cancel_requested(order, _event, now) {
    if (order.cancel_requested_at !== null) return nothing
    const fields = { cancel_requested_at: now }
    return { move: changed(order, fields, now, 'the cancel was requested'), shown: null }
  },
  charge_settled(order, { as, reason, givesUp }, now) {
    const fields = {
      settled_as: as,
      settled_at: now,
      settled_reason: reason,
      ...(givesUp && { cancel_requested_at: order.cancel_requested_at ?? now }),
    }
    const said = as === 'paid' ? 'paid' : 'not paid'
    return { move: changed(order, fields, now, `a person says that it is ${said}`), shown: null }
  },
  refund_settled(order, { isMade, added, removed }, now) {
    const fields = {
      ...(added && withRefund(order, added)),
      ...(removed && withoutRefund(order, removed)),
      refund_settled: true,
      refund_contradicted: null,
    }
    const note = `a person says that the refund was ${isMade ? 'made' : 'not made'}`
    return { move: changed(order, fields, now, note), shown: null }
  },
  further_payment(order, { surplus, note }, now) {
    const isSame = order.surplus === surplus || (surplus === 'decided' && order.surplus === null)
    return isSame ? nothing : { move: changed(order, { surplus }, now, note), shown: null }
  },
}

const nothing: Applied = { move: undefined, shown: null }

/** How an order is after an event. Pure: it may be asked again about the same event with a newer row. */
export function decide(order: OrderRow, event: OrderEvent, now: Date): Applied {
  const rule = rules[event.kind] as (order: OrderRow, event: OrderEvent, now: Date) => Applied
  return rule(order, event, now)
}

function withRefund(order: OrderRow, refund: ProviderRefund): Partial<OrderRow> {
  const cents = order.refunded_cents + (refund.amountCents ?? 0)
  return refundedBy(order, [...order.refunds, refund], cents)
}

function withoutRefund(order: OrderRow, { id, amountCents }: ProviderRefund): Partial<OrderRow> {
  const rest = order.refunds.filter((refund) => refund.id !== id)
  return refundedBy(order, rest, Math.max(0, order.refunded_cents - (amountCents ?? 0)))
}

function refundedBy(order: OrderRow, refunds: ProviderRefund[], cents: number): Partial<OrderRow> {
  const paidCents = order.paid_cents || order.amount_cents
  const refunded_cents = Math.min(cents, paidCents)
  if (!wasReceived(order.status)) return { refunds, refunded_cents }
  const given = refunded_cents >= paidCents ? 'refunded' : 'partially_refunded'
  return { refunds, refunded_cents, status: refunded_cents === 0 ? 'processed' : given }
}
