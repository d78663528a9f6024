import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { PaymentDeps } from '../../payments/deps.ts'
import { cancelOrder } from '../../payments/orders/cancel.ts'
import { viewOutcome } from '../../payments/orders/order-view.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { contextOf, tenantOfRequest } from '../authentication.ts'
import { cancelErrors } from './order-errors.ts'
import { viewMoney } from './order-response.ts'
import {
  CancelOrderBody,
  CancelOrderResponse,
  CancelRequestedResponse,
  ReasonHeaders,
} from './order-schemas.ts'

/** A till cancels an order that waits for the customer. */
export const cancelRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/cancel',
    {
      config: {
        needs: 'move_money',
        within: 'order_or_adopted',
        ofOrder: true,
        money: { retrySafeWhenUnknown: true, namesOrder: true },
        errors: cancelErrors,
      },
      schema: {
        operationId: 'cancelOrder',
        summary: 'Cancel an order that waits for the customer',
        description:
          'This cannot be undone. For an order on the terminal the provider is asked to cancel it there: 202 when it has taken the request, ORDER_AT_TERMINAL when only the terminal can cancel. After 202 the terminal may still take the money: read the order until `outcome` is known. Canceling a canceled order answers like the first time.',
        headers: ReasonHeaders,
        body: CancelOrderBody,
        response: {
          200: CancelOrderResponse,
          202: {
            description: 'The cancel is requested; the terminal may still take the money',
            content: { 'application/json': { schema: CancelRequestedResponse } },
          },
        },
      },
    },
    async (request, reply) => {
      const order = await cancelOrder(
        deps,
        tenantOfRequest(request),
        request.body.order_id,
        contextOf(deps, request, request.headers['x-reason']),
      )
      const answer = {
        order_id: order.id,
        status: order.status,
        status_detail: order.status_detail,
      }
      if (order.status === 'canceled') {
        return { message: 'The order is canceled', ...answer, ...viewOutcome(order) }
      }
      const language = preferredLanguage(request.headers['accept-language'])
      return reply.code(202).send({
        message: 'The cancel is requested; the terminal may still take the money',
        ...answer,
        ...viewMoney(deps, order, language),
      })
    },
  )
}
