import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { OpenRequests } from '../../http/open-request-limit.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { readBeside } from '../../payments/orders/order-view.ts'
import { readOrder } from '../../payments/orders/read.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { tenantOfRequest } from '../authentication.ts'
import { openWait } from '../waits.ts'
import { viewOrder } from './order-response.ts'
import { OrderParams, OrderResponse, ReadOrderQuery } from './order-schemas.ts'

/** A till reads an order, or waits until it changes. `waits` limits how many may wait. */
export const readOrderRoute: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  waits: OpenRequests
}> = async (app, { deps, waits }) => {
  app.get(
    '/:orderId',
    {
      config: { needs: 'see', within: 'order_or_adopted', ofOrder: true, findsOrder: true },
      schema: {
        operationId: 'readOrder',
        summary: 'The order as the provider sees it now',
        description:
          'With `wait` the answer is held until the order changes; without `version`, an order that has ended, with no refund under way, is answered at once. Of one client 500 requests wait at a time, of all 5,000; the next is answered at once, with `Retry-After`.',
        params: OrderParams,
        querystring: ReadOrderQuery,
        response: { 200: OrderResponse },
      },
    },
    async (request, reply) => {
      const { wait, version } = request.query
      const waiting = wait === undefined ? undefined : openWait(app, request, reply, waits)
      try {
        const { order, stale } = await readOrder(
          deps,
          tenantOfRequest(request),
          request.params.orderId,
          {
            found: request.foundOrder ?? undefined,
            wait:
              wait === undefined || !waiting
                ? undefined
                : {
                    waitSeconds: wait,
                    knownVersion: version,
                    signal: waiting.signal,
                    checkAccess: () => app.authentication.check(request),
                  },
          },
        )
        if (stale) reply.header('x-order-stale', 'true')
        const beside = await readBeside(deps.database.db, [order])
        const language = preferredLanguage(request.headers['accept-language'])
        return viewOrder(deps, order, beside, language, stale)
      } finally {
        waiting?.end()
      }
    },
  )
}
