import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import helmet from '@fastify/helmet'
import type { FastifyInstance, FastifyReply } from 'fastify'

/** Of the interface as a whole: paths carry no version, changes only add. */
export const apiVersion = '1'

const requestIdShape = /^[A-Za-z0-9._-]{1,64}$/

/**
 * One policy for every answer, dashboards and /docs included: nothing inline, nothing from elsewhere. There is no
 * upgrade-insecure-requests, which would break the pages over plain http in a shop's network.
 */
const contentSecurityPolicy = {
  useDefaults: false,
  directives: {
    'default-src': ["'none'"],
    'script-src': ["'self'"],
    'style-src': ["'self'"],
    'connect-src': ["'self'"],
    'img-src': ["'self'", 'data:'],
    'font-src': ["'self'"],
    'base-uri': ["'none'"],
    'form-action': ["'self'"],
    'frame-ancestors': ["'none'"],
  },
}

/** The caller's own id when it is a plain one, so that its log and ours can be laid side by side. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && requestIdShape.test(given) ? given : randomUUID()
}

/** Headers of every answer: security, `x-api-version`, `x-request-id`, and `no-store` where nothing else is said. */
export function installHeaders(app: FastifyInstance): void {
  app.register(helmet, {
    contentSecurityPolicy,
    xFrameOptions: { action: 'deny' },
    // Whether subdomains of the host speak https is not this service's to decide.
    strictTransportSecurity: { includeSubDomains: false },
  })
  app.addHook('onRequest', async (request, reply) => {
    identify(reply, request.id)
  })
  app.addHook('onSend', async (_request, reply) => {
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
  })
}

/** For answers that Fastify makes before any hook runs. */
export function identify(reply: FastifyReply, requestId: string): void {
  reply.header('x-request-id', requestId).header('x-api-version', apiVersion)
}
