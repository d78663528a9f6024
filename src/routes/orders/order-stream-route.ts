import { z } from 'zod'
import { preferredLanguage } from '../../domain/language.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { type EventStreams, lastEventId } from '../../http/event-stream.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { watchOrder } from '../../payments/orders/watch-order.ts'
import { type Guards, placeOwner, tenantOfRequest } from '../authentication.ts'
import { ClientQuery, StreamQuery } from '../field-schemas.ts'
import { readBeside, viewOrder } from './order-response.ts'
import { OrderParams } from './order-schemas.ts'

const OrderStreamQuery = z.object({ ...ClientQuery, ...StreamQuery })

const LastEventIdHeader = z.object({
  'last-event-id': z
    .string()
    .optional()
    .describe('The `id` of the last event that was seen; any other text counts as none'),
})

const description = `Server-sent events. The first is \`order\` with the order as it is now, then one follows for every
change, with the body of \`GET /orders/{orderId}\` as \`data\` and its \`version\` as \`id\`. A reader that is slow, or comes
again with \`Last-Event-ID\`, gets the newest state and not every step; the steps are in the order's timeline.

The last event is \`end\` with a \`reason\`: \`final\` (nothing can follow), \`time\` (after 15 minutes), \`access\` (the key or
session is no longer valid), \`stopping\` or \`unavailable\`. After all but \`final\` and \`access\`, come again after the
\`retry\` time, as EventSource does by itself. A paid order may still be refunded, so its stream stays open. Who has seen
the end of an order and comes again gets 204, which makes EventSource stop.

At most 500 streams of one client are open at a time.`

const OrderEvents = z.string().meta({
  example:
    'retry: 2000\n\nid: 3\nevent: order\ndata: {"order_id":"5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7","status":"processed","version":3}\n\n',
})

export function addOrderStream(
  app: HttpServer,
  deps: PaymentDeps,
  guards: Guards,
  streams: EventStreams,
): void {
  app.get(
    '/orders/:orderId/events',
    {
      config: { access: 'client', ofOrder: true },
      schema: {
        operationId: 'followOrder',
        summary: 'Follow an order live, as server-sent events',
        description,
        params: OrderParams,
        querystring: OrderStreamQuery,
        headers: LastEventIdHeader,
        response: {
          200: {
            description: 'The order, and each change of it',
            content: { 'text/event-stream': { schema: OrderEvents } },
          },
          204: z.null().describe('The order has ended, and the caller has seen how'),
        },
      },
    },
    async (request, reply) => {
      const client = tenantOfRequest(request)
      const known = lastEventId(request.headers['last-event-id'])
      const watch = await watchOrder(deps, client, request.params.orderId, known)
      if (watch.isOver()) return reply.code(204).send(null)
      const language = preferredLanguage(request.headers['accept-language'])
      return streams.open(request, reply, {
        owner: placeOwner(request),
        paceMs: 0,
        maxSeconds: request.query.max_seconds,
        watch: watch.watch,
        isOver: watch.isOver,
        checkAccess: () => guards.check(request),
        async read() {
          const read = await watch.next()
          if (!read) return []
          const beside = await readBeside(deps.database.db, [read.order])
          const data = viewOrder(deps, read.order, beside, language, read.stale)
          return [{ event: 'order', id: read.order.version, data }]
        },
      }) as never
    },
  )
}
