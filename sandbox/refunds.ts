import type { FastifyInstance, FastifyRequest } from 'fastify'
import { authenticate } from './auth.ts'
import { apiError } from './errors.ts'
import { useOrderKey } from './idempotency.ts'
import { readRefundBody } from './order-body.ts'
import { refundCourse, refundOrder } from './order-moves.ts'
import { paymentsOfOrder, refundableCents } from './order-payments.ts'
import { showRefundAnswer } from './order-view.ts'
import { findOrder } from './orders.ts'
import { partlyRefundable } from './payment-methods.ts'
import type { Order, Payment, Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { siteOf } from './sites.ts'

const refundPeriodMs = 90 * 86_400_000

/** POST /v1/orders/{id}/refund: without a body all that is left, with one a part of one payment. */
export function refundRoute(app: FastifyInstance, ctx: Context): void {
  app.post<{ Params: { id: string } }>('/v1/orders/:id/refund', (request, reply) => {
    const seller = authenticate(ctx, request)
    return reply.code(201).send(refund(ctx, seller, request, request.params.id))
  })
}

function refund(ctx: Context, seller: Seller, request: FastifyRequest, id: string): object {
  const use = useOrderKey(ctx, request, seller.id)
  const other = ctx.state.tables.orders.get(id)
  if (other !== undefined && other.userId !== seller.id) {
    throw apiError(401, 'user_not_authorized', 'The user did not create this order.')
  }
  const order = findOrder(ctx, seller, id)
  const part = readRefundBody(request.body, siteOf(ctx, seller.id).hasCents)
  if (use.first !== undefined) return showRefundAnswer(ctx, order, [use.first.resourceId])
  checkState(ctx, order)
  const parts =
    part === undefined
      ? // Which payments a refund without a body returns is not documented: all of them is the worst.
        paymentsOfOrder(order).map((payment) => ({
          payment,
          amountCents: refundableCents(order, payment),
        }))
      : [partOf(order, part)]
  const course = refundCourse(ctx, request.url, seller.id)
  const refundIds: string[] = []
  let after = order
  for (const { payment, amountCents } of parts) {
    if (amountCents === 0 && refundIds.length > 0) continue
    const remember = (made: { id: string }) => {
      refundIds.push(made.id)
      return refundIds.length === 1 ? use.remember(201, made.id) : {}
    }
    after = refundOrder(ctx, after, amountCents, remember, course, payment)
  }
  return showRefundAnswer(ctx, after, refundIds)
}

function checkState(ctx: Context, order: Order): void {
  if (order.status === 'refunded') {
    throw apiError(409, 'order_already_refunded', 'The order was already refunded.')
  }
  if (order.status !== 'processed') {
    throw apiError(409, 'cannot_refund_order', 'The order status does not allow a refund.')
  }
  if (ctx.nowMs() - (order.payment.paidAt ?? 0) > refundPeriodMs) {
    throw apiError(409, 'refund_period_exceeded', 'The refund period was exceeded.')
  }
}

function partOf(
  order: Order,
  part: { id: string; amount: number },
): { payment: Payment; amountCents: number } {
  const payment = paymentsOfOrder(order).find(({ id }) => id === part.id)
  if (payment === undefined || payment.isHidden) {
    throw apiError(404, 'transaction_not_found', 'Transaction not found.')
  }
  const left = refundableCents(order, payment)
  if (part.amount > left) {
    throw apiError(400, 'refund_amount_exceeds', 'The amount exceeds what can be refunded.')
  }
  // The whole amount at once is not a partial refund, whatever the form of the request.
  if (part.amount === left && payment.refundedCents === 0) {
    return { payment, amountCents: left }
  }
  if (payment.tipCents > 0) {
    throw apiError(
      403,
      'partial_refund_forbidden_with_tips',
      'An order with a tip takes no partial refund.',
    )
  }
  if (!partlyRefundable.has(payment.method?.type ?? '')) {
    throw apiError(
      400,
      'unsupported_partially_refunds',
      'The order does not support partial refunds.',
    )
  }
  return { payment, amountCents: part.amount }
}
