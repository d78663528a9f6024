import type { FastifyInstance, FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { asClientName, type ClientName } from '../domain/client-name.ts'
import { hashSecret, isSecret, sameHash } from '../domain/secret-hash.ts'
import { AppError, type ErrorCode } from '../errors/app-error.ts'
import type { Audience } from '../http/audiences.ts'
import { hasDisconnected } from '../http/connections.ts'
import type { KnownHosts } from '../http/known-hosts.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { type LoadedOrder, loadedAt } from '../payments/orders/read.ts'
import { actorOf, type RequestContext, requestContext } from '../payments/request-context.ts'
import {
  type ActiveKey,
  type ApiKeyRow,
  findActiveKeyByHash,
} from '../repositories/api-keys/api-key-queries.ts'
import { findKeyAndOrder } from '../repositories/orders/order-queries.ts'
import { type BrowserSessions, createBrowserSessions } from './browser-sessions.ts'
import type { Principal, TokenPrincipal } from './principal.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Whom the token of the request, or without one its session, authenticates. Undefined when there is none, or it is unknown,
     * revoked or expired.
     */
    identify(request: FastifyRequest): Promise<Principal | undefined>
    sessions: BrowserSessions
  }
  interface FastifyRequest {
    /** Set by the guard of every audience but the public. */
    principal: Principal | null
    /** The client that this request may act for; set on client routes. Null there only for all clients (`allClients`). */
    tenant: ClientName | null
    /** The order of the path, when it was read together with the key; see `findsOrder`. */
    foundOrder: LoadedOrder | null
  }
  interface FastifyContextConfig {
    /** The order of the path (`orderId`) is read together with the request's key, in one round trip. */
    findsOrder?: true
  }
}

/** The active key with a hash. */
type FindKey = (hash: string) => Promise<ActiveKey | undefined>

type AuthenticationOptions = {
  deps: PaymentDeps
  adminToken: string
  metricsToken: string | undefined
  knownHosts: KnownHosts
  rateLimitPerSecond: number
}

const keyShape = /^mk_[0-9a-f]{64}$/
/** The characters of an order's id, ours or the provider's. */
const idShape = /^[\w-]{1,100}$/

/** Who calls the payment API: by a key, by ADMIN_TOKEN, or by the session of a browser. */
export const paymentAuthentication = fastifyPlugin<AuthenticationOptions>(authenticateCallers, {
  name: 'authentication',
  dependencies: ['auth-failure-limit', '@fastify/cookie'],
})

async function authenticateCallers(
  app: FastifyInstance,
  { deps, adminToken, metricsToken, knownHosts, rateLimitPerSecond }: AuthenticationOptions,
): Promise<void> {
  app.decorateRequest('principal', null)
  app.decorateRequest('tenant', null)
  app.decorateRequest('foundOrder', null)
  const tokens = createTokens(deps, isSecret(adminToken))
  const sessions = createBrowserSessions(deps, { adminToken, ...tokens })
  const identify = async (request: FastifyRequest): Promise<Principal | undefined> => {
    const token = request.headers['x-api-token']
    if (token !== undefined) return tokens.principalOfToken(token)
    return (await sessions.session(request))?.principal
  }
  const countRequest = limitRequests(app, rateLimitPerSecond)

  app.decorate('identify', identify)
  app.decorate('sessions', sessions)
  app.decorate('authentication', {
    knownHosts,
    hasOwnToken: ({ headers }) => tokens.isAdmin(headers['x-api-token']),
    isMetricsToken: metricsToken === undefined ? () => false : isSecret(metricsToken),
    async letIn(request) {
      const { orderId } = request.params as { orderId?: string }
      const token = request.headers['x-api-token']
      const isRead = request.routeOptions.config.findsOrder && token !== undefined
      // A value that cannot be an id is refused later.
      const principal: Principal | undefined = await (isRead &&
      orderId !== undefined &&
      idShape.test(orderId)
        ? tokens.principalWithOrder(request, token, orderId)
        : identify(request))
      if (!principal) {
        await app.countTry(request)
        throw new AppError('UNAUTHORIZED')
      }
      request.principal = principal
      request.isLetIn = true
      await countRequest(request)
      return principal.person ?? null
    },
    forbid: () => new AppError('FORBIDDEN'),
    async admit({ principal }, audience) {
      if (audience === 'client') return
      if (audience === 'person' ? !principal?.person : !isManager(principal, audience)) {
        throw new AppError('FORBIDDEN')
      }
    },
    async check(request) {
      const principal = await identify(request)
      const { person, type } = request.principal ?? {}
      // Another role or other stores are another person, as far as what is open goes.
      const isSame = JSON.stringify(principal?.person) === JSON.stringify(person)
      if (principal?.type !== type || !isSame) throw new AppError('UNAUTHORIZED')
    },
  })
}

/** Whom a token authenticates. */
function createTokens(deps: PaymentDeps, isAdminToken: (token: string) => boolean) {
  const { db } = deps.database
  const isAdmin = (token: unknown) => typeof token === 'string' && isAdminToken(token)

  const principalOfKey = (key: Pick<ApiKeyRow, 'id' | 'client'>): TokenPrincipal => {
    deps.keyUses.note(key.id)
    return { type: 'client', client: key.client, keyId: key.id }
  }
  const principalOfToken = async (
    token: unknown,
    findKey: FindKey = (hash) => findActiveKeyByHash(db, hash),
  ): Promise<TokenPrincipal | undefined> => {
    if (typeof token !== 'string' || token === '') return undefined
    if (isAdminToken(token)) return { type: 'admin' }
    if (!keyShape.test(token)) return undefined
    const hash = hashSecret(token)
    const key = await findKey(hash)
    if (!key || !sameHash(key.key_hash, hash)) return undefined
    return principalOfKey(key)
  }
  /** The same; with a key, the order in the path is read together with it. */
  const principalWithOrder = (request: FastifyRequest, token: unknown, orderId: string) =>
    principalOfToken(token, async (hash) => {
      const seenMs = performance.now()
      const row = await findKeyAndOrder(db, hash, orderId)
      if (row?.found) request.foundOrder = loadedAt(row.found, seenMs)
      return row?.key
    })
  return { isAdmin, principalOfKey, principalOfToken, principalWithOrder }
}

/** Counts the requests of a caller. */
function limitRequests(app: FastifyInstance, perSecond: number) {
  const perCaller = app.createRateLimit({
    max: perSecond,
    timeWindow: 1000,
    keyGenerator: ({ principal }) =>
      principal?.person?.id ?? (principal?.type === 'client' ? String(principal.keyId) : 'admin'),
  })
  return async (request: FastifyRequest): Promise<void> => {
    const state = await perCaller(request)
    if (!state.isAllowed && state.isExceeded) {
      throw new AppError('RATE_LIMITED', { extra: { retryAfterSeconds: state.ttlInSeconds } })
    }
  }
}

function isManager(principal: Principal | null, audience: Audience): boolean {
  if (principal?.type === 'admin') return true
  const isOfClient = principal?.type === 'client' && principal.person !== undefined
  return audience === 'managers' && isOfClient
}

/** The client whose things a route for managers is about; undefined for all. Throws FORBIDDEN when the query names another one. */
export function clientOfManager(
  { principal }: FastifyRequest,
  named?: string | undefined,
): ClientName | undefined {
  if (principal?.type !== 'client') return named === undefined ? undefined : asClientName(named)
  if (named !== undefined && named !== principal.client) throw new AppError('FORBIDDEN')
  return principal.client
}

/** The client of a client route. */
export function tenantOfRequest(request: FastifyRequest): ClientName {
  if (request.tenant === null)
    throw new Error('the route is no client route, or is for all clients')
  return request.tenant
}

/** The owner by which streams and long-polls are counted: a client, whichever of its keys opened them. */
export function placeOwner({ principal }: FastifyRequest): string {
  return principal?.type === 'client' ? `client ${principal.client}` : 'admin'
}

/** The errors of a route that calls the provider, in addition to its own. */
export const providerErrors: readonly ErrorCode[] = [
  'OAUTH_NOT_CONNECTED',
  'CONNECTION_LOST',
  'PROVIDER_REJECTED',
  'PROVIDER_ERROR',
  'PROVIDER_TIMEOUT',
]

/** The context of this request, with the reason that a person gave. Its deadline counts from its arrival. */
export function contextOf(
  deps: PaymentDeps,
  request: FastifyRequest,
  reason?: string,
): RequestContext {
  const isConnected = async () => !(await hasDisconnected(request))
  return requestContext({ ...actorOf(deps, request), reason }, request.arrivedAt, isConnected)
}
