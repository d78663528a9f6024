import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  changeEndpoint,
  createEndpoint,
  readEndpoint,
  readEndpoints,
  removeEndpoint,
} from '../../payments/events/endpoints.ts'
import { actorOf } from '../../payments/request-context.ts'
import type { EndpointKey } from '../../repositories/events/event-endpoints.ts'
import { tenantOfRequest } from '../authentication.ts'
import { placeFrom } from './consumer-routes.ts'
import {
  EndpointChange,
  EndpointParams,
  EndpointQuery,
  EndpointResponse,
  EndpointsResponse,
  EndpointWithSecret,
  NewEndpoint,
} from './endpoint-schemas.ts'
import { viewEndpoint } from './endpoint-view.ts'

/** Which endpoint a request is about. */
export function endpointOf(request: FastifyRequest, id: string): EndpointKey {
  return { client: tenantOfRequest(request), id }
}

const read = { needs: 'see', within: 'all_stores' } as const
const change = { needs: 'set_up', within: 'all_stores' } as const

const newDescription = `Events are sent by \`POST\`, signed by [Standard Webhooks 1.0](https://www.standardwebhooks.com/). The body is
the event as \`GET /events/feed\` shows it, with \`timestamp\` beside \`at\`. \`webhook-id\` is the id of the event: store it, and skip what you have.

Answer 2xx within 15 s: only that is success. A redirect is a failure. Without success the event comes again 5 s, 5 min, 30 min, 2 h, 5 h, 10 h,
14 h, 20 h and 24 h later, and not before \`Retry-After\` (an hour at most). Later events of the same resource wait for it; others go on.

410 stops the endpoint at once, and so does an event whose schedule has ended after 75 h. Events wait for 30 days: \`resume\` sends them.`

/** The endpoints of a client, and new ones. */
export const endpointRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      config: read,
      schema: {
        operationId: 'listEndpoints',
        summary: 'The endpoints that events are sent to, with what waits for each',
        querystring: EndpointQuery,
        response: { 200: EndpointsResponse },
      },
    },
    async (request) => {
      const endpoints = await readEndpoints(deps, tenantOfRequest(request))
      return { endpoints: endpoints.map(viewEndpoint) }
    },
  )

  app.post(
    '',
    {
      config: { ...change, errors: ['CONFLICT'] },
      schema: {
        operationId: 'createEndpoint',
        summary: 'Have events sent to an address',
        description: newDescription,
        querystring: EndpointQuery,
        body: NewEndpoint,
        response: { 201: EndpointWithSecret },
      },
    },
    async (request, reply) => {
      const { url, types, sucursal_id: sucursalId, caja_id: cajaId, from } = request.body
      const { endpoint, secret } = await createEndpoint(
        deps,
        tenantOfRequest(request),
        { url, types, sucursalId, cajaId, from: placeFrom(from) },
        actorOf(deps, request),
      )
      return reply.code(201).send({ ...viewEndpoint(endpoint), secret })
    },
  )
}

/** One endpoint. */
export const oneEndpointRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '/:id',
    {
      config: read,
      schema: {
        operationId: 'readEndpoint',
        summary: 'One endpoint',
        params: EndpointParams,
        querystring: EndpointQuery,
        response: { 200: EndpointResponse },
      },
    },
    async (request) =>
      viewEndpoint(await readEndpoint(deps, endpointOf(request, request.params.id))),
  )

  app.patch(
    '/:id',
    {
      config: change,
      schema: {
        operationId: 'changeEndpoint',
        summary: 'Change the address or the filter of an endpoint',
        description:
          'What is left out stays as it is. A new address gets at once what the former one did not take. What a new filter leaves out is no longer sent.',
        params: EndpointParams,
        querystring: EndpointQuery,
        body: EndpointChange,
        response: { 200: EndpointResponse },
      },
    },
    async (request) => {
      const { url, types, sucursal_id: sucursalId, caja_id: cajaId } = request.body
      const content = { url, types, sucursalId, cajaId }
      const key = endpointOf(request, request.params.id)
      return viewEndpoint(await changeEndpoint(deps, key, content, actorOf(deps, request)))
    },
  )

  app.delete(
    '/:id',
    {
      config: change,
      schema: {
        operationId: 'deleteEndpoint',
        summary: 'Delete an endpoint with its attempts',
        params: EndpointParams,
        querystring: EndpointQuery,
        response: {
          200: z
            .object({ message: z.string() })
            .meta({ example: { message: 'The endpoint is deleted' } }),
        },
      },
    },
    async (request) => {
      await removeEndpoint(deps, endpointOf(request, request.params.id), actorOf(deps, request))
      return { message: 'The endpoint is deleted' }
    },
  )
}
