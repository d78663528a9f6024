import type { FastifyRequest } from 'fastify'
import type { ErrorCode } from '../errors/app-error.ts'
import { hasHungUp } from '../http/hung-up.ts'
import type { Actor, PaymentDeps } from '../payments/deps.ts'
import { type RequestContext, requestContext } from '../payments/operations/request-context.ts'
import type { Principal } from './guards.ts'

/** What a route that calls the provider may answer besides its own errors. */
export const providerErrors: readonly ErrorCode[] = [
  'OAUTH_NOT_CONNECTED',
  'CONNECTION_LOST',
  'PROVIDER_REJECTED',
  'PROVIDER_ERROR',
  'PROVIDER_TIMEOUT',
]

/** Who asked, for the audit log. Time and address are those of the request's arrival. */
export function actorOf(
  deps: PaymentDeps,
  request: FastifyRequest,
  principal: Principal | null = request.principal,
): Actor {
  return {
    ipAddress: request.arrivedFrom,
    keyId: principal?.type === 'client' ? principal.keyId : undefined,
    sessionId: principal?.sessionId,
    startedAt: new Date(deps.now().getTime() - Math.round(deps.stopwatch() - request.arrivedAt)),
  }
}

/** What this request asks for, to be answered in the time that a till is promised from its arrival. */
export function contextOf(deps: PaymentDeps, request: FastifyRequest): RequestContext {
  const isConnected = async () => !(await hasHungUp(request))
  return requestContext(actorOf(deps, request), request.arrivedAt, isConnected)
}
