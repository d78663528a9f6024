import type { FastifyReply, FastifyRequest } from 'fastify'
import { isDatabaseUnavailable } from '../../db/database-failures.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { AppError, OutcomeError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Requests of this route belong to the life of an order, and are shown in its timeline. */
    ofOrder?: true
  }
  interface FastifyRequest {
    /** The order that the request is about, by our id or the provider's; handlers set it where only they know it. */
    aboutOrder: { client: ClientName; id: string } | null
    /** Code of the error that the request ended in. */
    failedWith: string | null
  }
}

/**
 * Keeps on record who asked what about an order, also when it failed. A page that only looks leaves no trace: the person who
 * reads the timeline would be its most frequent entry.
 */
export function recordOrderRequests(app: HttpServer, deps: PaymentDeps): void {
  app.decorateRequest('aboutOrder', null)
  app.decorateRequest('failedWith', null)

  app.addHook('onError', async (request, _reply, error: Error) => {
    const known = error instanceof AppError || error instanceof OutcomeError ? error : undefined
    const cause = error instanceof OutcomeError ? error.cause : error
    request.failedWith =
      cause instanceof AppError
        ? cause.code
        : isDatabaseUnavailable(cause)
          ? 'SERVICE_UNAVAILABLE'
          : 'INTERNAL_ERROR'
    const { orderId } = known?.extra ?? {}
    if (request.tenant !== null && orderId !== undefined) {
      request.aboutOrder = { client: request.tenant, id: orderId }
    }
  })

  const noted = new WeakSet<FastifyRequest>()
  const begunAt = new WeakMap<FastifyRequest, Date>()
  const note = (request: FastifyRequest, reply: FastifyReply, isGone: boolean) => {
    const caller = callerOf(request)
    const order = request.aboutOrder ?? namedOrder(request)
    if (!order || caller === undefined || noted.has(request)) return
    noted.add(request)
    deps.calls.note({
      order: order.id,
      client: order.client,
      kind: 'request',
      at: begunAt.get(request) ?? deps.now(),
      duration_ms: Math.round(reply.elapsedTime),
      operation: String(request.routeOptions.schema?.operationId),
      caller,
      status: isGone ? null : reply.raw.statusCode,
      code: isGone ? 'caller_gone' : request.failedWith,
      attempt: 1,
      request_id: request.id,
    })
  }

  app.addHook('onRequest', async (request, reply) => {
    if (!request.routeOptions.config.ofOrder) return
    begunAt.set(request, deps.now())
    // There is no onResponse for a caller who hung up. One who left a stream has had his answer.
    reply.raw.once('close', () => note(request, reply, !reply.raw.headersSent))
  })
  // Whoever hung up before it was known which order it is about.
  app.addHook('onSend', async (request, reply) => {
    if (request.routeOptions.config.ofOrder && reply.raw.destroyed) note(request, reply, true)
  })
  app.addHook('onResponse', async (request, reply) => {
    if (request.routeOptions.config.ofOrder) note(request, reply, false)
  })
}

/** Undefined for a page that looks. */
function callerOf(request: FastifyRequest): 'key' | 'admin' | 'page' | undefined {
  if (!request.principal) return undefined
  if (request.headers['x-api-token'] === undefined) {
    return request.method === 'GET' ? undefined : 'page'
  }
  return request.principal.type === 'admin' ? 'admin' : 'key'
}

function namedOrder({ tenant, params, body }: FastifyRequest): FastifyRequest['aboutOrder'] {
  const id =
    (params as { orderId?: unknown }).orderId ??
    (body as { order_id?: unknown } | undefined)?.order_id
  return tenant !== null && typeof id === 'string' ? { client: tenant, id } : null
}
