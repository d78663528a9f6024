import type { OrderStatus } from './order.ts'
import { type Decision, isOpen, type Standing } from './order-state.ts'

/** From and to of each field that changed; money in cents. */
export type EventChanges = Record<
  string,
  { from: string | number | null; to: string | number | null }
>

type EventKind = {
  /** What happened, for the reference. */
  means: string
  resource: string
  /** What `changes` of such an event may be. */
  example: EventChanges
}

/** What happened, for programs. The reference is written from this table. */
export const eventTypes = {
  'order.created': {
    means: 'The provider has the order',
    resource: 'order',
    example: { status: { from: null, to: 'created' }, outcome: { from: null, to: 'unknown' } },
  },
  'order.paid': {
    means: 'The customer paid, also when the order had been closed before',
    resource: 'order',
    example: {
      status: { from: 'created', to: 'processed' },
      outcome: { from: 'unknown', to: 'charged' },
      paid_cents: { from: 0, to: 123450 },
    },
  },
  'order.canceled': {
    means: 'The order was canceled',
    resource: 'order',
    example: {
      status: { from: 'created', to: 'canceled' },
      outcome: { from: 'unknown', to: 'not_charged' },
    },
  },
  'order.failed': {
    means: 'The payment was rejected, or the provider never had the order',
    resource: 'order',
    example: {
      status: { from: 'created', to: 'failed' },
      outcome: { from: 'unknown', to: 'not_charged' },
    },
  },
  'order.expired': {
    means: 'The customer did not pay in time',
    resource: 'order',
    example: {
      status: { from: 'created', to: 'expired' },
      outcome: { from: 'unknown', to: 'not_charged' },
    },
  },
  'order.in_doubt': {
    means: 'It is unknown whether the customer paid or got the refund: look at the terminal',
    resource: 'order',
    example: { status: { from: 'created', to: 'action_required' } },
  },
  'order.needs_decision': {
    means: 'A person must decide about the money: `needs_decision` says why',
    resource: 'order',
    example: { needs_decision: { from: null, to: 'paid_late' } },
  },
  'order.settled': {
    means: 'A person decided about an order',
    resource: 'order',
    example: { settled_as: { from: null, to: 'not_paid' } },
  },
  'order.refunded': {
    means: 'The refunded amount changed; it falls when a refund fails later',
    resource: 'order',
    example: {
      status: { from: 'processed', to: 'refunded' },
      outcome: { from: 'charged', to: 'not_charged' },
      refunded_cents: { from: 0, to: 123450 },
    },
  },
  'refund.done': {
    means: 'The customer gets the money of a refund back',
    resource: 'refund',
    example: {
      status: { from: 'pending', to: 'done' },
      amount_cents: { from: null, to: 123450 },
    },
  },
  'refund.failed': {
    means: 'The provider refused a refund, at once or after it had accepted it',
    resource: 'refund',
    example: {
      status: { from: 'pending', to: 'failed' },
      amount_cents: { from: null, to: 123450 },
    },
  },
  'payment.unclaimed': {
    means: 'A payment at a box has no order, or is a further payment of one',
    resource: 'payment',
    example: { state: { from: null, to: 'open' }, amount_cents: { from: null, to: 50000 } },
  },
  'payment.matched': {
    means: 'An unclaimed payment has an order now',
    resource: 'payment',
    example: { state: { from: 'open', to: 'adopted' } },
  },
  'payment.dismissed': {
    means: 'A person decided that an unclaimed payment needs no order',
    resource: 'payment',
    example: { state: { from: 'open', to: 'dismissed' } },
  },
  'chargeback.opened': {
    means: 'A buyer disputes a payment at the bank, or does so again',
    resource: 'chargeback',
    example: { state: { from: null, to: 'open' }, amount_cents: { from: null, to: 123450 } },
  },
  'chargeback.closed': {
    means: 'The provider decided a charge-back: won or lost',
    resource: 'chargeback',
    example: { state: { from: 'open', to: 'lost' } },
  },
  'closing.ready': {
    means: 'A closing was compared with the provider and can be signed',
    resource: 'closing',
    example: { state: { from: 'checking', to: 'agreed' } },
  },
  'closing.signed': {
    means: 'A closing was signed',
    resource: 'closing',
    example: { state: { from: 'agreed', to: 'signed' } },
  },
  'settlement.recorded': {
    means: 'A report of the provider was read: what charges leave is known better',
    resource: 'settlement',
    example: { rows: { from: null, to: 312 } },
  },
  'connection.lost': {
    means:
      'The provider no longer accepts the connection: no charge is possible until the shop connects again',
    resource: 'connection',
    example: { status: { from: 'connected', to: 'lost' } },
  },
  'connection.restored': {
    means: 'A lost connection works again',
    resource: 'connection',
    example: { status: { from: 'lost', to: 'connected' } },
  },
  'terminal.state_changed': {
    means: 'A box and its terminal work, need attention, or are down',
    resource: 'terminal',
    example: { state: { from: 'ok', to: 'down' }, cause: { from: null, to: 'terminal_missing' } },
  },
  'endpoint.stopped': {
    means:
      'Events are no longer sent to an endpoint until a person resumes it; none is lost for 30 days',
    resource: 'endpoint',
    example: {
      state: { from: 'active', to: 'stopped' },
      stop_reason: { from: null, to: 'exhausted' },
    },
  },
} as const satisfies Record<string, EventKind>

export type EventType = keyof typeof eventTypes

/** What the events of an order depend on. */
export type OrderFacts = {
  isConfirmed: boolean
  status: OrderStatus
  paidAfterClose: boolean
  refundedCents: number
  decision: Decision | null
  /** When a person decided last. */
  settledAt: number | null
}

const ofStatus: Partial<Record<OrderStatus, EventType>> = {
  processed: 'order.paid',
  canceled: 'order.canceled',
  failed: 'order.failed',
  expired: 'order.expired',
}

/** The rules by which a move is an event. A move may be several: a late payment is a payment, and needs a decision. */
const rules: readonly ((before: OrderFacts, after: OrderFacts) => EventType | undefined | false)[] =
  [
    (before, after) =>
      !before.isConfirmed && after.isConfirmed && isOpen(after.status) && 'order.created',
    (before, after) => {
      if (before.status === after.status || after.refundedCents < before.refundedCents) return false
      return ofStatus[after.status]
    },
    (before, after) => !before.paidAfterClose && after.paidAfterClose && 'order.paid',
    (before, after) => before.refundedCents !== after.refundedCents && 'order.refunded',
    (before, after) =>
      after.decision !== null && before.decision !== after.decision && 'order.needs_decision',
    (before, after) => before.settledAt !== after.settledAt && 'order.settled',
  ]

/** The types of the events of a move. `order.in_doubt` is not among them: see `mayBeInDoubt`. */
export function eventTypesOfMove(before: OrderFacts, after: OrderFacts): EventType[] {
  const types = rules.map((rule) => rule(before, after)).filter((type) => type !== false)
  return [...new Set(types.filter((type) => type !== undefined))]
}

/** The database derives the standing after a move, and only then writes `order.in_doubt`. */
export function mayBeInDoubt(before: Standing): boolean {
  return before !== 'in_doubt'
}

/** The fields that differ. */
export function changesBetween(
  before: Record<string, string | number | null>,
  after: Record<string, string | number | null>,
): EventChanges {
  return Object.fromEntries(
    Object.entries(after)
      .filter(([field, to]) => (before[field] ?? null) !== to)
      .map(([field, to]) => [field, { from: before[field] ?? null, to }]),
  )
}
