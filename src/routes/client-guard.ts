import type { FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { asClientName, type ClientName } from '../domain/client-name.ts'
import { AppError, invalid } from '../errors/app-error.ts'
import { guard } from '../http/guard.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { findClient } from '../repositories/connection/clients.ts'
import { contextOf } from './authentication.ts'
import { ClientOnlyQuery } from './field-schemas.ts'
import type { Principal } from './principal.ts'
import { requireStoreAccess } from './store-access.ts'

/**
 * The guard of client routes. It finds out for which client a request acts, and keeps people of some stores to these, as `within`
 * of the route says.
 */
export const clientGuard = fastifyPlugin<{ deps: PaymentDeps }>(
  async (scope, { deps }) => {
    await scope.register(guard, { audience: 'client' })
    scope.addHook('onRoute', (route) => {
      route.schema = { querystring: ClientOnlyQuery, ...route.schema }
    })
    scope.addHook('onRequest', async (request) => {
      request.tenant = await tenantOf(deps, request)
    })
    // The body is read by then: it may name the thing that the request is about.
    scope.addHook('preHandler', (request, _reply, done) => {
      const { within } = request.routeOptions.config
      if (!request.principal?.person?.stores || !request.tenant || !within) return done()
      const context = contextOf(deps, request)
      requireStoreAccess(deps, request, request.tenant, within, context).then(() => done(), done)
    })
  },
  { name: 'client-guard', dependencies: ['authentication'] },
)

async function tenantOf(deps: PaymentDeps, request: FastifyRequest): Promise<ClientName | null> {
  const principal = request.principal as Principal
  const named = (request.query as Record<string, unknown>).client
  if (named !== undefined && (typeof named !== 'string' || /\p{Cc}/u.test(named))) {
    throw invalid('client', { code: 'CLIENT_ONE' })
  }
  if (principal.type === 'operator') throw new AppError('FORBIDDEN')
  if (principal.type === 'client') {
    if (named !== undefined && named !== principal.client) throw new AppError('FORBIDDEN')
    return principal.client
  }
  if (named === undefined && request.routeOptions.config.allClients) return null
  if (named === undefined || named === '') {
    throw invalid('client', { code: 'CLIENT_REQUIRED' })
  }
  if (!(await findClient(deps.database.db, named))) {
    throw new AppError('NOT_FOUND', { message: 'There is no such client' })
  }
  return asClientName(named)
}
