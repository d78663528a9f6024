import rateLimit from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'
import { asClientName, type ClientName } from '../domain/client-name.ts'
import { mayCall, type Person, type RouteRule, ruleOfRoute } from '../domain/permissions.ts'
import { hashSecret, isSecret, sameHash } from '../domain/secret-hash.ts'
import { AppError, type ErrorCode, invalid } from '../errors/app-error.ts'
import type { AccessClass } from '../http/access-classes.ts'
import { type CountTry, createFailureLimit } from '../http/auth-failure-limit.ts'
import { callerAddress, hasDisconnected } from '../http/connections.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { KnownHosts } from '../http/known-hosts.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import {
  actorOf,
  type RequestContext,
  requestContext,
} from '../payments/operations/request-context.ts'
import { type LoadedOrder, loadedAt } from '../payments/orders/read.ts'
import {
  type ActiveKey,
  type ApiKeyRow,
  findActiveKeyByHash,
} from '../repositories/api-keys/api-key-queries.ts'
import { findClient } from '../repositories/connection/clients.ts'
import { findKeyAndOrder } from '../repositories/orders/order-queries.ts'
import { type BrowserSessions, createBrowserSessions } from './session/browser-sessions.ts'
import { requireStoreAccess } from './session/store-access.ts'

/**
 * Whom a token or a session authenticates. `person`: who signed in with a name and a password, and what he may do decides
 * `src/domain/permissions.ts`; an administrator of the whole service has the type `admin`, a flow operator the type `operator`.
 */
export type Principal = { sessionId?: string; person?: Person } & (
  | { type: 'admin' }
  | { type: 'client'; client: ClientName; keyId?: string }
  | { type: 'operator' }
)

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the guard of client and admin routes. */
    principal: Principal | null
    /** The client that this request may act for; set on client routes. Null there only for all clients (`allClients`). */
    tenant: ClientName | null
    /** When the request arrived, by `deps.stopwatch`. */
    arrivedAt: number
    /** The caller's address at arrival: a closed connection has none. */
    arrivedFrom: string
    /** The order of the path, when it was read together with the key; see `findsOrder`. */
    foundOrder: LoadedOrder | null
  }
  interface FastifyContextConfig {
    /** The order of the path (`orderId`) is read together with the request's key, in one round trip. */
    findsOrder?: true
  }
}

export type Guards = BrowserSessions & {
  /**
   * Whom the token of the request, or without one its session, authenticates. Undefined when there is none, or it is unknown,
   * revoked or expired.
   */
  identify(request: FastifyRequest): Promise<Principal | undefined>
  /**
   * Checks that the token of an accepted request is still valid for the same principal.
   *
   * @throws UNAUTHORIZED
   */
  check(request: FastifyRequest): Promise<void>
  /**
   * Counts a failed or anonymous attempt of this address.
   *
   * @throws RATE_LIMITED
   */
  countTry: CountTry
}

/** Whom a token of the header authenticates. */
export type TokenPrincipal =
  | { type: 'admin' }
  | { type: 'client'; client: ClientName; keyId: string }

/** The active key with a hash. */
type FindKey = (hash: string) => Promise<ActiveKey | undefined>

const keyShape = /^mk_[0-9a-f]{64}$/
/** The characters of an order's id, ours or the provider's. */
const idShape = /^[\w-]{1,100}$/

/**
 * Checks every request before its body is read, by the access class that its route declares. Public routes pass. Client routes
 * need a key, or the administrator and a client's name. Admin routes need the admin token, and metrics that or their own.
 */
export async function installGuards(
  app: HttpServer,
  deps: PaymentDeps,
  options: {
    adminToken: string
    metricsToken?: string | undefined
    knownHosts: KnownHosts
    rateLimitPerSecond: number
    authFailuresPerMinute: number
  },
): Promise<Guards> {
  await app.register(rateLimit, { global: false })
  const perCaller = app.createRateLimit({
    max: options.rateLimitPerSecond,
    timeWindow: 1000,
    keyGenerator: ({ principal }) =>
      principal?.person?.id ?? (principal?.type === 'client' ? String(principal.keyId) : 'admin'),
  })
  const countTry = createFailureLimit(app, options.authFailuresPerMinute)
  app.decorateRequest('principal', null)
  app.decorateRequest('tenant', null)
  app.decorateRequest('arrivedAt', 0)
  app.decorateRequest('arrivedFrom', '')
  app.decorateRequest('foundOrder', null)

  const db = deps.database.db
  const isAdminToken = isSecret(options.adminToken)
  const isMetricsToken =
    options.metricsToken === undefined ? undefined : isSecret(options.metricsToken)

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

  /** Like `identify`; with a key, the order in the path is read together with it. */
  const identifyWithOrder = async (request: FastifyRequest): Promise<Principal | undefined> => {
    const { orderId } = request.params as { orderId?: string }
    const token = request.headers['x-api-token']
    // A value that cannot be an id is refused later.
    if (token === undefined || orderId === undefined || !idShape.test(orderId)) {
      return identify(request)
    }
    return principalOfToken(token, async (hash) => {
      const seenMs = performance.now()
      const row = await findKeyAndOrder(db, hash, orderId)
      if (row?.found) request.foundOrder = loadedAt(row.found, seenMs)
      return row?.key
    })
  }

  const sessions = createBrowserSessions(deps, {
    adminToken: options.adminToken,
    principalOfToken,
    principalOfKey,
  })
  const identify = async (request: FastifyRequest): Promise<Principal | undefined> => {
    const token = request.headers['x-api-token']
    if (token !== undefined) return principalOfToken(token)
    return (await sessions.session(request))?.principal
  }

  const countRequest = async (request: FastifyRequest) => {
    const state = await perCaller(request)
    if (!state.isAllowed && state.isExceeded) {
      throw new AppError('RATE_LIMITED', { extra: { retryAfterSeconds: state.ttlInSeconds } })
    }
  }
  const hasAdminToken = ({ headers }: FastifyRequest): boolean => {
    const token = headers['x-api-token']
    return typeof token === 'string' && isAdminToken(token)
  }
  const isForMetrics = (token: unknown): boolean =>
    typeof token === 'string' && isMetricsToken !== undefined && isMetricsToken(token)

  app.addHook('onRequest', async (request) => {
    request.arrivedAt = deps.stopwatch()
    request.arrivedFrom = callerAddress(request)
    const access = request.routeOptions.config.access
    // A page of a foreign name has no admin token.
    if (request.routeOptions.config.signsIn && !hasAdminToken(request)) {
      options.knownHosts.require(request)
    }
    if (access === undefined || access === 'public') return
    if (access === 'metrics' && isForMetrics(request.headers['x-api-token'])) {
      request.isLetIn = true
      return
    }
    const finds = request.routeOptions.config.findsOrder
    const principal = await (finds ? identifyWithOrder(request) : identify(request))
    if (!principal) {
      await countTry(request)
      throw new AppError('UNAUTHORIZED')
    }
    request.principal = principal
    request.isLetIn = true
    await countRequest(request)
    const { person } = principal
    if (person && !mayCall(person, ruleOf(request))) throw new AppError('FORBIDDEN')
    if (access === 'client') request.tenant = await tenantOf(deps, principal, request)
    else if (access === 'person' ? !principal.person : !isManager(principal, access)) {
      throw new AppError('FORBIDDEN')
    }
  })
  // The body is read by then: it may name the thing that the request is about.
  app.addHook('preHandler', (request, _reply, done) => {
    if (!request.principal?.person?.stores || !request.tenant) return done()
    const rule = ruleOf(request)
    if (!rule?.within) return done(new AppError('FORBIDDEN'))
    const context = contextOf(deps, request)
    requireStoreAccess(deps, request, request.tenant, rule.within, context).then(() => done(), done)
  })

  return {
    ...sessions,
    identify,
    async check(request) {
      const principal = await identify(request)
      const { person, type } = request.principal ?? {}
      // Another role or other stores are another person, as far as what is open goes.
      const isSame = JSON.stringify(principal?.person) === JSON.stringify(person)
      if (principal?.type !== type || !isSame) throw new AppError('UNAUTHORIZED')
    },
    countTry,
  }
}

function ruleOf({ method, routeOptions }: FastifyRequest): RouteRule | undefined {
  return ruleOfRoute(method, String(routeOptions.url))
}

function isManager({ type, person }: Principal, access: AccessClass): boolean {
  return type === 'admin' || (access === 'managers' && type === 'client' && person !== undefined)
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

async function tenantOf(
  deps: PaymentDeps,
  principal: Principal,
  request: FastifyRequest,
): Promise<ClientName | null> {
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

/** The client of a client route. */
export function tenantOfRequest(request: FastifyRequest): ClientName {
  if (request.tenant === null)
    throw new Error('the route does not declare access: client, or is for all')
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
