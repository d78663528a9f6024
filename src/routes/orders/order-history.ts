import type { FastifyReply, FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import type { ClientName } from '../../domain/client-name.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Requests of this route are part of an order's history, and shown in its timeline. */
    ofOrder?: true
  }
  interface FastifyRequest {
    /** The order that the request is about, by our id or the provider's; set by handlers that find it out. */
    aboutOrder: { client: ClientName; id: string } | null
    /** The request was logged as part of an order's history. */
    isOfHistory: boolean
  }
}

/**
 * Logs who requested what about an order, also when it failed. Reads by the pages of this service are left out: they would be
 * most of the timeline.
 */
export const orderHistory = fastifyPlugin<{ deps: PaymentDeps }>(
  async (scope, { deps }) => {
    scope.decorateRequest('aboutOrder', null)
    scope.decorateRequest('isOfHistory', false)
    const note = (request: FastifyRequest, reply: FastifyReply, isGone: boolean) =>
      noteRequest(deps, request, reply, isGone)

    scope.addHook('onRequest', (request, reply, done) => {
      if (request.routeOptions.config.ofOrder) {
        reply.raw.once('close', () => note(request, reply, !reply.raw.headersSent))
      }
      done()
    })
    // For a client that disconnected before the order was known.
    scope.addHook('onSend', (request, reply, payload, done) => {
      if (reply.raw.destroyed && request.routeOptions.config.ofOrder) note(request, reply, true)
      done(null, payload)
    })
  },
  { name: 'order-history', dependencies: ['authentication'] },
)

function noteRequest(
  deps: PaymentDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  isGone: boolean,
): void {
  const caller = callerOf(request)
  const order = request.aboutOrder ?? failedOrder(request, reply) ?? namedOrder(request)
  if (request.isOfHistory || !order || caller === undefined) return
  request.isOfHistory = true
  deps.calls.note({
    order: order.id,
    client: order.client,
    kind: 'request',
    at: actorOf(deps, request).startedAt,
    duration_ms: Math.round(reply.elapsedTime),
    operation: String(request.routeOptions.schema?.operationId),
    caller,
    status: isGone ? null : reply.raw.statusCode,
    code: isGone ? 'caller_gone' : (reply.failure?.code ?? null),
    attempt: 1,
    request_id: request.id,
  })
}

/** Undefined for a read by a page of this service. */
function callerOf(request: FastifyRequest): 'key' | 'admin' | 'page' | undefined {
  if (!request.principal) return undefined
  if (request.headers['x-api-token'] === undefined) {
    return request.method === 'GET' ? undefined : 'page'
  }
  return request.principal.type === 'admin' ? 'admin' : 'key'
}

/** The order that an error answer names. */
function failedOrder({ tenant }: FastifyRequest, { failure }: FastifyReply) {
  const id = failure?.extra.orderId
  return tenant !== null && id !== undefined ? { client: tenant, id } : null
}

function namedOrder({ tenant, params, body }: FastifyRequest): FastifyRequest['aboutOrder'] {
  const id =
    (params as { orderId?: unknown }).orderId ??
    (body as { order_id?: unknown } | undefined)?.order_id
  return tenant !== null && typeof id === 'string' ? { client: tenant, id } : null
}
