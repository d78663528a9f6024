import type { FastifyInstance } from 'fastify'
import { parseAmount } from './amounts.ts'
import { authenticate } from './auth.ts'
import type { Context } from './context.ts'
import { apiError } from './errors.ts'
import { useOrderKey } from './idempotency.ts'
import { newNumber } from './ids.ts'
import { refundOrder } from './order-moves.ts'
import { paymentsOfOrder, refundableCents } from './order-payments.ts'
import { isRecord } from './problems.ts'
import type { LoosePayment, Order, Payment, Refund, Seller } from './rows.ts'
import { siteOf } from './sites.ts'

/** POST /v1/payments/{id}/refunds: all that is left of that payment without a body, a part with `amount`. */
export function paymentRefundRoute(app: FastifyInstance, ctx: Context): void {
  app.post<{ Params: { id: string } }>('/v1/payments/:id/refunds', (request, reply) => {
    const seller = authenticate(ctx, request)
    const use = useOrderKey(ctx, request, seller.id)
    const behind = behindOrder(ctx, seller, request.params.id)
    if (behind) {
      const { order, payment: paid } = behind
      const before = order.refunds.find(({ id }) => id === use.first?.resourceId)
      if (before) return reply.code(201).send(showOrderRefund(paid, before))
      const cents = centsOf(
        request.body,
        refundableCents(order, paid),
        siteOf(ctx, seller.id).hasCents,
      )
      let made: Refund | undefined
      const remember = (refund: Refund) => {
        made = refund
        return use.remember(201, refund.id)
      }
      refundOrder(ctx, order, cents, remember, undefined, paid)
      return reply.code(201).send(showOrderRefund(paid, made as unknown as Refund))
    }
    const payment = ctx.world.tables.payments.get(request.params.id)
    if (payment?.userId !== seller.id) throw apiError(404, 'not_found', 'Payment not found')
    const first = payment.refunds.find(({ id }) => String(id) === use.first?.resourceId)
    if (first) return reply.code(201).send(showRefund(payment, first))
    if (payment.status === 'charged_back') {
      const message = 'The action requested is not valid for the current payment state'
      throw apiError(400, 'bad_request', message)
    }
    const given = payment.refunds.reduce((sum, { amountCents }) => sum + amountCents, 0)
    const left = payment.amountCents - given
    const cents = centsOf(request.body, left, siteOf(ctx, seller.id).hasCents)
    const refund = { id: newNumber(10), amountCents: cents, at: ctx.nowMs() }
    const isAll = cents === left
    const after: LoosePayment = {
      ...payment,
      status: isAll ? 'refunded' : payment.status,
      statusDetail: isAll ? 'refunded' : 'partially_refunded',
      updatedAt: ctx.nowMs(),
      refunds: [...payment.refunds, refund],
    }
    ctx.world.commit('payment.refunded', String(payment.id), {
      payments: { [payment.id]: after },
      ...use.remember(201, String(refund.id)),
    })
    return reply.code(201).send(showRefund(after, refund))
  })
}

function centsOf(body: unknown, left: number, hasCents: boolean): number {
  const wanted = isRecord(body) ? body.amount : undefined
  const cents = wanted === undefined ? left : parseAmount(String(wanted), hasCents)
  if (cents === undefined || cents > left || left === 0) {
    throw apiError(400, 'invalid_refund_amount', 'Invalid refund amount')
  }
  return cents
}

/** The payment of an order that has this number. */
function behindOrder(
  ctx: Context,
  seller: Seller,
  number: string,
): { order: Order; payment: Payment } | undefined {
  for (const order of ctx.world.tables.orders.values()) {
    if (order.userId !== seller.id) continue
    const payment = paymentsOfOrder(order).find(({ referenceId }) => referenceId === number)
    if (payment) return { order, payment }
  }
  return undefined
}

function showOrderRefund({ referenceId }: Payment, refund: Refund): object {
  return {
    id: Number(refund.referenceId),
    payment_id: Number(referenceId),
    amount: refund.amountCents / 100,
    status: 'approved',
    date_created: new Date(refund.createdDate).toISOString(),
  }
}

function showRefund(payment: LoosePayment, refund: LoosePayment['refunds'][number]): object {
  return {
    id: refund.id,
    payment_id: payment.id,
    amount: refund.amountCents / 100,
    status: 'approved',
    date_created: new Date(refund.at).toISOString(),
  }
}
