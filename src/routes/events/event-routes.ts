import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { createEventStreams, type StreamEvent, type StreamLimits } from '../../http/event-stream.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { createEventReader } from '../../payments/process/event-source.ts'
import { readStores } from '../../payments/stores/manage-stores.ts'
import { placeOwner, tenantOfRequest } from '../authentication.ts'
import { AnyClientQuery, StreamQuery } from '../field-schemas.ts'
import { storesOfRequest } from '../store-access.ts'

const EventsQuery = z.object({
  ...AnyClientQuery,
  ...StreamQuery,
})

const description = `For pages: server-sent hints at what changed, after which a page reads again what it shows. A hint may be
lost. Programs read the feed, \`GET /events/feed\`, which misses nothing.

| event | data | who receives it |
|---|---|---|
| \`resync\` | \`{}\` | all: read everything now. It comes first, and whenever an event may have been missed |
| \`order\` | \`{order_id, client, caja_id, status, version}\` | the client, and the administrator |
| \`webhook\` | \`{id, client, order_id, topic, status}\` | the administrator |
| \`activity\` | \`{id, client, action, resource_type, resource_id, status}\` | the administrator |
| \`end\` | \`{reason}\` | all: \`time\` (after 15 minutes), \`access\` (the key or session is no longer valid), \`stopping\` or \`unavailable\`. It is the last event; come again after all but \`access\` |

Events are sent at most four times a second; of several changes of one thing only the last is sent, and a \`resync\`
replaces more than twenty events at once. At most 500 streams of one client are open at a time.`

const Events = z.string().meta({
  example:
    'retry: 2000\n\nevent: resync\ndata: {}\n\nevent: order\ndata: {"order_id":"5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7","client":"acme","caja_id":"CAJA-1","status":"processed","version":3}\n\n',
})

const paceMs = 250

export const eventRoutes: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  streams?: Partial<StreamLimits> | undefined
}> = async (app, { deps, streams: limits }) => {
  const streams = createEventStreams(app, limits)
  app.get(
    '',
    {
      config: { needs: 'see', within: 'list', allClients: true },
      schema: {
        operationId: 'followEvents',
        summary: 'For pages: hints at what changes, as server-sent events',
        description,
        querystring: EventsQuery,
        response: {
          200: {
            description: 'Hints at what changed',
            content: { 'text/event-stream': { schema: Events } },
          },
        },
      },
    },
    async (request, reply) => {
      const stores = storesOfRequest(request)
      const boxes =
        stores &&
        new Set(
          (await readStores(deps, tenantOfRequest(request), stores)).flatMap(({ pos }) =>
            pos.map((box) => box.external_id),
          ),
        )
      const reader = createEventReader(deps.events, {
        isAdmin: request.principal?.type === 'admin',
        client: request.tenant ?? undefined,
        boxes,
      })
      return streams.open(request, reply, {
        owner: placeOwner(request),
        paceMs,
        maxSeconds: request.query.max_seconds,
        watch: reader.watch,
        checkAccess: () => app.authentication.check(request),
        async read(): Promise<StreamEvent[]> {
          const { missed, items } = reader.take()
          if (missed) return [{ event: 'resync', data: {} }]
          return items.map(({ kind, data }) => ({ event: kind, data }))
        },
      }) as never
    },
  )
}
