import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { parseAmount } from './amounts.ts'
import { authenticate } from './auth.ts'
import { ControlError, readCall } from './control-body.ts'
import { ApiError } from './errors.ts'
import { useOrderKey } from './idempotency.ts'
import { newNumber } from './ids.ts'
import { refundCourse, refundOrder } from './order-moves.ts'
import { paymentsOfOrder, refundableCents } from './order-payments.ts'
import { partlyRefundable } from './payment-methods.ts'
import type {
  Order,
  Payment,
  PaymentMethod,
  PaymentRefund,
  PaymentWithoutOrder,
  Refund,
  Seller,
} from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { siteOf } from './sites.ts'
import { isRecord } from './validation-errors.ts'

/** POST /v1/payments/{id}/refunds: without a body all that is left of that payment, with `amount` a part. */
export function paymentRefundRoute(app: FastifyInstance, ctx: Context): void {
  app.post<{ Params: { id: string } }>('/v1/payments/:id/refunds', (request, reply) => {
    const seller = authenticate(ctx, request)
    const use = useOrderKey(ctx, request, seller.id)
    const behind = behindOrder(ctx, seller, request.params.id)
    if (behind) {
      const { order, payment: paid } = behind
      const before = order.refunds.find(({ id }) => id === use.first?.resourceId)
      if (before) return reply.code(201).send(showRefund(paid.referenceId, paymentRefundOf(before)))
      const state = { status: paid.status, paidAt: paid.paidAt ?? 0, method: paid.method }
      const whole = refundableCents(order, paid)
      const left = { cents: whole, isWhole: paid.refundedCents === 0 }
      const cents = centsOf(ctx, seller, request.body, state, left)
      let made: Refund | undefined
      const remember = (refund: Refund) => {
        made = refund
        return use.remember(201, refund.id)
      }
      refundOrder(ctx, order, cents, remember, refundCourse(ctx, request.url, seller.id), paid)
      return reply
        .code(201)
        .send(showRefund(paid.referenceId, paymentRefundOf(made as unknown as Refund)))
    }
    const kept = ctx.state.tables.payments.get(request.params.id)
    if (kept?.userId !== seller.id) throw refused(404, 2000, 'Payment not found')
    const payment = endDueRefunds(kept, ctx.nowMs())
    const first = payment.refunds.find(({ id }) => String(id) === use.first?.resourceId)
    if (first) return reply.code(201).send(showRefund(payment.id, first))
    const { status, createdAt: paidAt, method } = payment
    const left = payment.amountCents - standingCents(payment.refunds)
    const isWhole = left === payment.amountCents
    const state = { status, paidAt, method }
    const cents = centsOf(ctx, seller, request.body, state, { cents: left, isWhole })
    const course = refundCourse(ctx, request.url, seller.id)
    const refund: PaymentRefund = {
      id: newNumber(10),
      amountCents: cents,
      at: ctx.nowMs(),
      status: course ? 'in_process' : 'approved',
      ...(course && { endsAt: course.endsAt, ends: paymentRefundStatus[course.ends] }),
    }
    const after = withRefunds(payment, [...payment.refunds, refund], ctx.nowMs())
    ctx.state.commit('payment.refunded', String(payment.id), {
      payments: { [payment.id]: after },
      ...use.remember(201, String(refund.id)),
    })
    return reply.code(201).send(showRefund(after.id, refund))
  })
}

/** The refund states of the Payments API, by those of the Orders API. */
const paymentRefundStatus = {
  processing: 'in_process',
  processed: 'approved',
  failed: 'rejected',
} as const

const refundPeriodMs = 180 * 86_400_000
const refundable: ReadonlySet<string> = new Set(['approved', 'processed', 'refunded'])

/**
 * The cents to refund. Throws the refusals that the provider's pages list for this call, by the number of their cause: the state
 * of the payment (2063), its age (2024), its method (3024) and the amount (2017, 4040, 4041).
 */
function centsOf(
  ctx: Context,
  seller: Seller,
  body: unknown,
  { status, paidAt, method }: { status: string; paidAt: number; method: PaymentMethod | null },
  left: { cents: number; isWhole: boolean },
): number {
  const wanted = isRecord(body) ? body.amount : undefined
  if (ctx.nowMs() - paidAt > refundPeriodMs) {
    throw refused(404, 2024, 'Payment too old to be refunded')
  }
  if (!refundable.has(status) || (left.cents === 0 && wanted === undefined)) {
    throw refused(400, 2063, 'The action requested is not valid for the current payment state')
  }
  if (wanted === undefined) return left.cents
  if (!Number.isFinite(Number(wanted))) throw refused(400, 4041, 'amount attribute must be numeric')
  if (Number(wanted) <= 0) throw refused(400, 4040, 'amount attribute must be positive')
  const cents = parseAmount(String(wanted), siteOf(ctx, seller.id).hasCents)
  if (cents === undefined || cents > left.cents) {
    throw refused(400, 2017, 'Invalid transaction_amount for update')
  }
  const isPartial = cents < left.cents || !left.isWhole
  if (isPartial && method !== null && !partlyRefundable.has(method.type)) {
    throw refused(404, 3024, 'Not valid action: partial refund unsupported for this transaction')
  }
  return cents
}

function refused(status: number, cause: number, message: string): ApiError {
  return new ApiError(status, {
    code: status === 404 ? 'not_found' : 'bad_request',
    message,
    cause,
  })
}

/** The order payment with this id. */
function behindOrder(
  ctx: Context,
  seller: Seller,
  number: string,
): { order: Order; payment: Payment } | undefined {
  for (const order of ctx.state.tables.orders.values()) {
    if (order.userId !== seller.id) continue
    const payment = paymentsOfOrder(order).find(({ referenceId }) => referenceId === number)
    if (payment) return { order, payment }
  }
  return undefined
}

/** A refund of an order as the Payments API knows it. */
export function paymentRefundOf(refund: Refund): PaymentRefund {
  return {
    id: Number(refund.referenceId),
    amountCents: refund.amountCents,
    at: Date.parse(refund.createdDate),
    status: paymentRefundStatus[refund.status],
  }
}

/** The payment after the end of every refund that is due. */
export function endDueRefunds(payment: PaymentWithoutOrder, nowMs: number): PaymentWithoutOrder {
  const due = payment.refunds.filter(
    ({ status, endsAt }) => status === 'in_process' && endsAt != null && endsAt <= nowMs,
  )
  const last = Math.max(...due.map(({ endsAt }) => endsAt as number))
  if (due.length === 0) return payment
  const refunds = payment.refunds.map((refund) =>
    due.includes(refund) ? { ...refund, status: refund.ends ?? 'approved' } : refund,
  )
  return withRefunds(payment, refunds, last)
}

const EndRefund = z.object(
  {
    do: z.literal('end_refund', 'must be end_refund'),
    as: z.enum(['approved', 'rejected'], 'must be approved or rejected'),
    refund_id: z.coerce.string().optional(),
  },
  'do must be end_refund',
)

/**
 * An action of a person or the bank on a payment without an order: `{"do":"end_refund","as":"approved"|"rejected"}`
 * ends its last refund in process, or the one of `refund_id`. Throws a control error.
 */
export function actOnPayment(ctx: Context, id: string, body: unknown): object {
  const kept = ctx.state.tables.payments.get(id)
  if (!kept) throw new ControlError(404, 'there is no such payment without an order')
  const { as, refund_id: wanted } = readCall(EndRefund, body)
  const payment = endDueRefunds(kept, ctx.nowMs())
  const refund = payment.refunds.findLast(
    (one) => one.status === 'in_process' && (wanted ?? String(one.id)) === String(one.id),
  )
  if (!refund) throw new ControlError(409, 'no such refund is in process')
  const refunds = payment.refunds.map(
    (one): PaymentRefund => (one === refund ? { ...one, status: as } : one),
  )
  const after = withRefunds(payment, refunds, ctx.nowMs())
  ctx.state.commit(`payment.refund_${as}`, id, { payments: { [id]: after } })
  return showRefund(after.id, { ...refund, status: as })
}

/** The refunded amount, including refunds in process. */
function standingCents(refunds: readonly PaymentRefund[]): number {
  return refunds
    .filter(({ status }) => status !== 'rejected')
    .reduce((sum, { amountCents }) => sum + amountCents, 0)
}

/** A refund in process does not change the payment; the provider documents no state for it. */
function withRefunds(
  payment: PaymentWithoutOrder,
  refunds: PaymentRefund[],
  updatedAt: number,
): PaymentWithoutOrder {
  const given = standingCents(refunds.filter(({ status }) => status === 'approved'))
  const isAll = given === payment.amountCents
  const part = given > 0 ? 'partially_refunded' : payment.statusDetail
  return {
    ...payment,
    status: isAll ? 'refunded' : payment.status,
    statusDetail: isAll ? 'refunded' : part,
    updatedAt,
    refunds,
  }
}

function showRefund(paymentId: number | string | null, refund: PaymentRefund): object {
  return {
    id: refund.id,
    payment_id: Number(paymentId),
    amount: refund.amountCents / 100,
    status: refund.status,
    date_created: new Date(refund.at).toISOString(),
  }
}
