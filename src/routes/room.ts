import type { FastifyRequest } from 'fastify'
import type { ErrorCode } from '../errors.ts'
import type { Actor, PaymentDeps } from '../payments/deps.ts'

/** What a route that calls the provider may answer besides its own errors. */
export const providerErrors: readonly ErrorCode[] = [
  'OAUTH_NOT_CONNECTED',
  'CONNECTION_LOST',
  'PROVIDER_REJECTED',
  'PROVIDER_ERROR',
  'PROVIDER_TIMEOUT',
]

/** Who asked, for the audit log. The time is that of the request's arrival. */
export function actorOf(deps: PaymentDeps, request: FastifyRequest): Actor {
  return {
    ipAddress: request.ip,
    startedAt: new Date(deps.now().getTime() - Math.round(requestAgeMs(request))),
    startedMs: request.arrivedAt,
  }
}

function requestAgeMs(request: FastifyRequest): number {
  return performance.now() - request.arrivedAt
}
