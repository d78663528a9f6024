import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { OpenRequests } from '../../http/open-request-limit.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { tenantOfRequest } from '../authentication.ts'
import { storesOfRequest } from '../store-access.ts'
import { cancelRoute } from './cancel-route.ts'
import { chargeRoute } from './charge-route.ts'
import { findOrderPage } from './list-orders.ts'
import { orderHistory } from './order-history.ts'
import { ListOrdersQuery, OrdersResponse } from './order-schemas.ts'
import { readOrderRoute } from './read-order-route.ts'
import { refundRoute } from './refund-route.ts'
import { settleRoutes } from './settle-routes.ts'
import { timelineRoute } from './timeline-route.ts'

/** `waits` limits the open long-polls. */
export const orderRoutes: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  waits: OpenRequests
}> = async (app, { deps, waits }) => {
  await app.register(orderHistory, { deps })
  await app.register(chargeRoute, { deps })
  await app.register(listRoute, { deps })
  await app.register(readOrderRoute, { deps, waits })
  await app.register(cancelRoute, { deps })
  await app.register(refundRoute, { deps })
  await app.register(timelineRoute, { deps })
  await app.register(settleRoutes, { deps })
}

const listRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list' },
      schema: {
        operationId: 'listOrders',
        summary: 'Orders of the client, newest first',
        description: 'The local records; reading one order asks the provider too.',
        querystring: ListOrdersQuery,
        response: { 200: OrdersResponse },
      },
    },
    async (request) =>
      findOrderPage(
        deps,
        { client: tenantOfRequest(request), stores: storesOfRequest(request) },
        request.query,
        request.headers,
      ),
  )
}
