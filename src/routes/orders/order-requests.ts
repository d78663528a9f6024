import type { FastifyReply, FastifyRequest } from 'fastify'
import { isDatabaseUnavailable } from '../../db/database-failures.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { AppError, OutcomeError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'

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
    /** Code of the error that the request ended in. */
    failedWith: string | null
  }
}

/**
 * Logs who requested what about an order, also when it failed. Reads by the pages of this service are left out: they would be
 * most of the timeline.
 */
export function recordOrderRequests(app: HttpServer, deps: PaymentDeps): void {
  app.decorateRequest('aboutOrder', null)
  app.decorateRequest('isOfHistory', false)
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

  const note = (request: FastifyRequest, reply: FastifyReply, isGone: boolean) => {
    if (!request.routeOptions.config.ofOrder || request.isOfHistory) return
    const caller = callerOf(request)
    const order = request.aboutOrder ?? namedOrder(request)
    if (!order || caller === undefined) return
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
      code: isGone ? 'caller_gone' : request.failedWith,
      attempt: 1,
      request_id: request.id,
    })
  }

  app.onRequestEnd(note)
  // For a client that disconnected before the order was known.
  app.addHook('onSend', (request, reply, payload, done) => {
    if (reply.raw.destroyed) note(request, reply, true)
    done(null, payload)
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

function namedOrder({ tenant, params, body }: FastifyRequest): FastifyRequest['aboutOrder'] {
  const id =
    (params as { orderId?: unknown }).orderId ??
    (body as { order_id?: unknown } | undefined)?.order_id
  return tenant !== null && typeof id === 'string' ? { client: tenant, id } : null
}
