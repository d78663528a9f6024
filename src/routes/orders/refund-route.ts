import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { centsFromErp, pointFromCents } from '../../domain/money.ts'
import { isRefundUnderWay } from '../../errors/money-outcome.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { viewOutcome } from '../../payments/orders/order-view.ts'
import { type Refunded, refundOrder } from '../../payments/orders/refund.ts'
import { contextOf, tenantOfRequest } from '../authentication.ts'
import { refundErrors } from './order-errors.ts'
import { RefundHeaders, RefundOrderBody, RefundOrderResponse } from './order-schemas.ts'

/** A till refunds what was paid, or a part of it. */
export const refundRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/refund',
    {
      config: {
        needs: 'move_money',
        within: 'order_or_adopted',
        ofOrder: true,
        money: { retrySafeWhenUnknown: true, namesOrder: true },
        errors: refundErrors,
      },
      schema: {
        operationId: 'refundOrder',
        summary: 'Refund an order, all of it or a part',
        description:
          'This cannot be undone. Send an Idempotency-Key to repeat a refund safely. Without one, a refund whose outcome got lost is taken up again by an equal request.',
        headers: RefundHeaders,
        body: RefundOrderBody,
        response: { 200: RefundOrderResponse },
      },
    },
    async (request, reply) => {
      const { order_id, amount } = request.body
      const refunded = await refundOrder(
        deps,
        tenantOfRequest(request),
        {
          orderId: order_id,
          amountCents: amount === undefined ? undefined : centsFromErp(amount),
        },
        request.headers['idempotency-key'],
        contextOf(deps, request, request.headers['x-reason']),
      )
      if (refunded.replayed) reply.header('idempotent-replayed', 'true')
      return {
        message: refundMessage(refunded),
        order_id: refunded.order.id,
        type: refunded.type,
        amount: pointFromCents(refunded.amountCents),
        status: refunded.order.status,
        status_detail: refunded.order.status_detail,
        ...viewOutcome(refunded.order),
      }
    },
  )
}

function refundMessage({ order, type }: Refunded): string {
  if (isRefundUnderWay(order)) return 'The provider has taken the refund and works on it'
  return type === 'total' ? 'The order is refunded' : 'The amount is refunded'
}
