import type { FastifyInstance, FastifyRequest } from 'fastify'
import { authenticate } from './auth.ts'
import type { Context } from './context.ts'
import { apiError } from './errors.ts'
import { useOrderKey } from './idempotency.ts'
import { readRefundBody } from './order-body.ts'
import { refundableCents, refundOrder } from './order-moves.ts'
import { showRefundAnswer } from './order-view.ts'
import { findOrder } from './orders.ts'
import type { Order, Seller } from './rows.ts'
import { siteOf } from './sites.ts'

const refundPeriodMs = 90 * 86_400_000

/** Cards, QR paid from the wallet and other wallets, as in Argentina (provider facts 2.4). */
const partlyRefundable = new Set([
  'credit_card',
  'debit_card',
  'prepaid_card',
  'qr',
  'account_money',
  'digital_wallet',
])

/** POST /v1/orders/{id}/refund: everything that is left without a body, a part of one payment with one. */
export function refundRoute(app: FastifyInstance, ctx: Context): void {
  app.post<{ Params: { id: string } }>('/v1/orders/:id/refund', (request, reply) => {
    const seller = authenticate(ctx, request)
    return reply.code(201).send(refund(ctx, seller, request, request.params.id))
  })
}

function refund(ctx: Context, seller: Seller, request: FastifyRequest, id: string): object {
  const use = useOrderKey(ctx, request, seller.id)
  const order = findOrder(ctx, seller, id)
  const part = readRefundBody(request.body, siteOf(ctx, seller.id).hasCents)
  if (use.first !== undefined) return showRefundAnswer(ctx, order, [use.first.resourceId])
  checkState(ctx, order)
  const amountCents = part === null ? refundableCents(order) : partCents(order, part)
  let refundId = ''
  const rule = ctx.faults.onRefund(request.url.split('?')[0] ?? '', seller.id)
  const after = refundOrder(
    ctx,
    order,
    amountCents,
    (made) => {
      refundId = made.id
      return use.remember(201, made.id)
    },
    rule && {
      status: 'processing',
      endsAt: rule.delayMs === null ? null : ctx.nowMs() + rule.delayMs,
      ends: rule.ends,
    },
  )
  return showRefundAnswer(ctx, after, [refundId])
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

function partCents(order: Order, part: { paymentId: string; amountCents: number }): number {
  if (part.paymentId !== order.payment.id) {
    throw apiError(404, 'transaction_not_found', 'Transaction not found.')
  }
  const left = refundableCents(order)
  if (part.amountCents > left) {
    throw apiError(400, 'refund_amount_exceeds', 'The amount exceeds what can be refunded.')
  }
  // The whole amount in one go is no partial refund, whatever its form.
  if (part.amountCents === left && order.payment.refundedCents === 0) return left
  if (order.payment.tipCents > 0) {
    throw apiError(
      403,
      'partial_refund_forbidden_with_tips',
      'An order with a tip takes no partial refund.',
    )
  }
  if (!partlyRefundable.has(order.payment.method?.type ?? '')) {
    throw apiError(
      400,
      'unsupported_partially_refunds',
      'The order does not support partial refunds.',
    )
  }
  return part.amountCents
}
