import type { FastifyInstance } from 'fastify'
import { parseAmount } from './amounts.ts'
import { authenticate } from './auth.ts'
import type { Context } from './context.ts'
import { apiError } from './errors.ts'
import { useOrderKey } from './idempotency.ts'
import { newNumber } from './ids.ts'
import { isRecord } from './problems.ts'
import type { LoosePayment } from './rows.ts'
import { siteOf } from './sites.ts'

/** POST /v1/payments/{id}/refunds of a charge that has no order: all that is left without a body, a part with `amount`. */
export function paymentRefundRoute(app: FastifyInstance, ctx: Context): void {
  app.post<{ Params: { id: string } }>('/v1/payments/:id/refunds', (request, reply) => {
    const seller = authenticate(ctx, request)
    const use = useOrderKey(ctx, request, seller.id)
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
    const wanted = isRecord(request.body) ? request.body.amount : undefined
    const cents =
      wanted === undefined ? left : parseAmount(String(wanted), siteOf(ctx, seller.id).hasCents)
    if (cents === undefined || cents > left || left === 0) {
      throw apiError(400, 'invalid_refund_amount', 'Invalid refund amount')
    }
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

function showRefund(payment: LoosePayment, refund: LoosePayment['refunds'][number]): object {
  return {
    id: refund.id,
    payment_id: payment.id,
    amount: refund.amountCents / 100,
    status: 'approved',
    date_created: new Date(refund.at).toISOString(),
  }
}
