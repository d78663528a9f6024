import { faultsOf, refundFaults } from './faults.ts'
import { nanoStamp, newNumber, ulid } from './ids.ts'
import { paymentsOfOrder, returnableCents } from './order-payments.ts'
import type { Change, Order, Payment, PaymentMethod, Refund } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { mergeChanges } from './sandbox-state.ts'
import { type OrderAction, orderWebhooks } from './webhooks.ts'

/** A change of an order, at the terminal or at the provider. */
export type Move =
  | { to: 'at_terminal' }
  | ({ to: 'processed'; method: PaymentMethod } & Paid)
  | { to: 'failed'; method: PaymentMethod; detail: string }
  | { to: 'canceled'; detail: 'canceled_on_terminal' | 'canceled_by_api' }
  | { to: 'expired' }
  | { to: 'action_required' }
  /** The provider processes the payment: it ends as processed or failed. */
  | { to: 'processing' | 'in_process'; method: PaymentMethod }

/** What the buyer pays. Without `paidCents` the amount of the order, with tip and interest. */
export type Paid = {
  tipCents: number
  interestCents?: number
  givesInterestBack?: boolean
  paidCents?: number | undefined
}

const legal: Record<Move['to'], Order['status'][]> = {
  at_terminal: ['created'],
  processed: ['at_terminal', 'processing', 'in_process'],
  failed: ['at_terminal', 'processing', 'in_process'],
  canceled: ['created', 'at_terminal'],
  expired: ['created', 'at_terminal'],
  action_required: ['at_terminal'],
  processing: ['at_terminal'],
  in_process: ['at_terminal'],
}

/** The states with a webhook (provider facts 6.2). */
const withWebhook: ReadonlySet<string> = new Set([
  'processed',
  'failed',
  'canceled',
  'expired',
  'action_required',
])

/** The provider's table of legal moves (provider facts 2.6). */
export function canMove(order: Order, to: Move['to']): boolean {
  return legal[to].includes(order.status)
}

/**
 * Moves an order, writes it with its webhook (none for at_terminal) and `extra` as one effect, and returns the new
 * order. The caller has checked that the move is allowed.
 */
export function moveOrder(ctx: Context, order: Order, move: Move, extra: Change = {}): Order {
  const now = ctx.nowMs()
  const moved: Order = {
    ...order,
    status: move.to,
    statusDetail: move.to === 'processed' ? 'accredited' : move.to,
    lastUpdatedDate: nanoStamp(now),
    payment: { ...movePayment(order.payment, move, now), box: boxOf(ctx, order) },
    version: order.version + 1,
  }
  return commitOrder(
    ctx,
    moved,
    withWebhook.has(move.to) ? (move.to as OrderAction) : null,
    `order.${move.to}`,
    extra,
  )
}

/** The box where the terminal of an order is now. */
export function boxOf(ctx: Context, order: Order): NonNullable<Payment['box']> {
  const posId = ctx.state.tables.terminals.get(order.terminalId)?.posId ?? null
  return { posId, storeId: ctx.state.tables.pos.get(String(posId))?.storeId ?? null }
}

function movePayment(payment: Payment, move: Move, now: number): Payment {
  switch (move.to) {
    case 'processed':
      return approvedPayment(payment, move, now)
    case 'failed':
      return {
        ...payment,
        status: 'failed',
        statusDetail: move.detail,
        referenceId: payment.referenceId ?? String(newNumber(12)),
        method: move.method,
      }
    case 'processing':
    case 'in_process':
      return {
        ...payment,
        status: move.to,
        statusDetail: move.to,
        referenceId: String(newNumber(12)),
        method: move.method,
      }
    case 'canceled':
      return { ...payment, status: 'canceled', statusDetail: move.detail }
    case 'action_required':
      return { ...payment, status: 'action_required', statusDetail: 'check_on_terminal' }
    case 'at_terminal':
    case 'expired':
      return { ...payment, status: move.to, statusDetail: move.to }
    default:
      return move satisfies never
  }
}

function approvedPayment(
  payment: Payment,
  {
    method,
    tipCents,
    interestCents = 0,
    givesInterestBack = false,
    paidCents,
  }: Paid & { method: PaymentMethod },
  now: number,
): Payment {
  return {
    ...payment,
    status: 'processed',
    statusDetail: 'accredited',
    paidCents: paidCents ?? payment.amountCents + tipCents + interestCents,
    tipCents,
    interestCents,
    givesInterestBack,
    referenceId: payment.referenceId ?? String(newNumber(12)),
    method,
    paidAt: now,
  }
}

/** A second payment of a paid order, by any buyer. `isHidden`: only the Payments API shows it. */
export function payAgain(
  ctx: Context,
  order: Order,
  paid: Paid & { method: PaymentMethod; isHidden: boolean },
): Order {
  const now = ctx.nowMs()
  const { id: _, referenceId: __, ...asked } = order.payment
  const empty = {
    ...asked,
    referenceId: null,
    id: `PAY${ulid(now)}`,
    refundedCents: 0,
    isHidden: paid.isHidden,
  }
  const further = approvedPayment(empty, paid, now)
  const moved: Order = {
    ...order,
    lastUpdatedDate: nanoStamp(now),
    furtherPayments: [...(order.furtherPayments ?? []), further],
    version: order.version + 1,
  }
  return commitOrder(ctx, moved, paid.isHidden ? null : 'processed', 'order.paid_again')
}

/** How a refund continues: done at once, or `processing` until `endsAt` or until an action ends it. */
type RefundCourse = {
  status: 'processed' | 'processing'
  endsAt: number | null
  ends: 'processed' | 'failed'
}

/** How the refund of this call continues, if a rule delays its end. */
export function refundCourse(ctx: Context, url: string, userId: number): RefundCourse | undefined {
  const about = { method: 'POST', path: url.split('?')[0] ?? '', userId }
  const rule = faultsOf(ctx, refundFaults, about)[0]?.rule
  if (!rule) return undefined
  const endsAt = rule.delay_ms === null ? null : ctx.nowMs() + rule.delay_ms
  return { status: 'processing', endsAt, ends: rule.ends }
}

/**
 * Refunds `amountCents` of a paid order. The whole amount makes it `refunded`; less leaves it `processed` with the
 * detail `partially_refunded` (provider facts 0.2). The caller has checked state and amount.
 */
export function refundOrder(
  ctx: Context,
  order: Order,
  amountCents: number,
  extra: (refund: Refund) => Change = () => ({}),
  course: RefundCourse = { status: 'processed', endsAt: null, ends: 'processed' },
  payment = order.payment,
): Order {
  const now = ctx.nowMs()
  const refund: Refund = {
    id: `REF${ulid(now)}`,
    transactionId: payment.id,
    referenceId: String(newNumber(10)),
    amountCents,
    status: course.status,
    createdDate: nanoStamp(now),
  }
  const refunded = withRefunds(ctx, order, [...order.refunds, refund])
  const kind = refunded.status === 'refunded' ? 'order.refunded' : 'order.partially_refunded'
  const { endsAt, ends } = course
  const ending = endsAt !== null && {
    events: {
      [refund.id]: {
        id: refund.id,
        orderId: order.id,
        fetchAt: endsAt,
        applyAt: endsAt,
        event: { status: 'refund_ended', as: ends },
      },
    },
  }
  // `order.refunded` confirms a refund; for a processing one it is sent at its end.
  const action = course.status === 'processed' ? 'refunded' : null
  return commitOrder(ctx, refunded, action, kind, mergeChanges(ending || {}, extra(refund)))
}

/** Ends a refund that is `processing`. The amount of a failed one can be refunded again. */
export function endRefund(
  ctx: Context,
  order: Order,
  refundId: string,
  as: Refund['status'],
): Order {
  const refunds = order.refunds.map((refund) =>
    refund.id === refundId ? { ...refund, status: as } : refund,
  )
  const done = ctx.state.tables.events.has(refundId) ? { events: { [refundId]: null } } : {}
  const action = as === 'failed' ? 'processed' : 'refunded'
  return commitOrder(ctx, withRefunds(ctx, order, refunds), action, `refund.${as}`, done)
}

function withRefunds(ctx: Context, order: Order, refunds: Refund[]): Order {
  const withReturned = (payment: Payment): Payment => {
    const refundedCents = refunds
      .filter(({ status, transactionId }) => status !== 'failed' && transactionId === payment.id)
      .reduce((sum, refund) => sum + refund.amountCents, 0)
    // A refund that ends later does not end a charge-back.
    if (payment.status === 'charged_back') return { ...payment, refundedCents }
    const isWhole = refundedCents === returnableCents(payment)
    const status = isWhole ? ('refunded' as const) : ('processed' as const)
    return { ...payment, status, statusDetail: isWhole ? status : 'accredited', refundedCents }
  }
  const [payment = order.payment, ...furtherPayments] = paymentsOfOrder(order).map(withReturned)
  const all = [payment, ...furtherPayments]
  const whole = all.every(({ status }) => status === 'refunded')
  const detail = all.some((one) => one.refundedCents > 0) ? 'partially_refunded' : 'accredited'
  const state =
    order.status === 'charged_back'
      ? { status: order.status, statusDetail: order.statusDetail }
      : {
          status: whole ? ('refunded' as const) : ('processed' as const),
          statusDetail: whole ? 'refunded' : detail,
        }
  return {
    ...order,
    ...state,
    lastUpdatedDate: nanoStamp(ctx.nowMs()),
    payment,
    ...(furtherPayments.length > 0 && { furtherPayments }),
    refunds,
    version: order.version + 1,
  }
}

/** Writes an order with the webhooks of its change. */
export function commitOrder(
  ctx: Context,
  order: Order,
  action: OrderAction | null,
  kind: string,
  extra: Change = {},
): Order {
  const webhooks = action === null ? {} : orderWebhooks(ctx, order, action)
  ctx.state.commit(kind, order.id, mergeChanges({ orders: { [order.id]: order }, webhooks }, extra))
  ctx.wake()
  return order
}
