import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { simulateOrder } from '../../payments/admin/simulate-order.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { providerErrors } from '../authentication.ts'
import { orderHistory } from '../orders/order-history.ts'
import {
  SimulateBody,
  SimulateParams,
  SimulateQuery,
  SimulateResponse,
} from './simulate-schemas.ts'

/** The specification gives the path in two forms; both are served. */
const paths = [
  { path: '/:idempotencyKey/simulate', operationId: 'simulateOrder' },
  { path: '/simulate/:idempotencyKey', operationId: 'simulateOrderByOtherPath' },
] as const

export const simulateRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  await app.register(orderHistory, { deps })
  for (const { path, operationId } of paths) {
    app.post(
      path,
      {
        config: {
          needs: 'administer',
          ofOrder: true,
          errors: [...providerErrors, 'NOT_SANDBOX', 'CONFLICT', 'ORDER_NOT_REFUNDABLE'],
        },
        schema: {
          operationId,
          summary: 'Play a provider event on an order of test credentials',
          description:
            'The order passes through at_terminal. The change takes up to 10 seconds, up to 40 for action_required.',
          params: SimulateParams,
          querystring: SimulateQuery,
          body: SimulateBody,
          response: { 200: SimulateResponse },
        },
      },
      async (request) => {
        const { body } = request
        const { order, expectedWithinSeconds } = await simulateOrder(
          deps,
          {
            id: request.params.idempotencyKey,
            client: request.query.client,
            event: {
              status: body.status,
              paymentMethodType: body.payment_method_type ?? null,
              installments: body.installments ?? null,
              paymentMethodId: body.payment_method_id ?? null,
              statusDetail: body.status_detail ?? null,
            },
          },
          actorOf(deps, request),
        )
        request.aboutOrder = order
        return {
          message: 'The provider plays the event',
          order_id: order.id,
          status: order.status,
          expected_within_seconds: expectedWithinSeconds,
        }
      },
    )
  }
}
