import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { asClientName, type ClientName } from '../domain/client-name.ts'
import { mayCall, type Person, type RouteRule, ruleOfRoute } from '../domain/people.ts'
import { hashSecret, isSecret, sameHash, sameSecret } from '../domain/secrets.ts'
import { AppError, type ErrorCode, invalid } from '../errors/app-error.ts'
import type { AccessClass } from '../http/access-classes.ts'
import { addressGroup, callerAddress, hasDisconnected } from '../http/connections.ts'
import type { HttpServer } from '../http/create-server.ts'
import { createFailureLimit } from '../http/failure-limit.ts'
import type { KnownHosts } from '../http/known-hosts.ts'
import { isFromOwnPage } from '../http/same-origin.ts'
import { type ActivityEntry, recordSuccess } from '../payments/audit/activity.ts'
import { createRefusedSignIns } from '../payments/audit/refused-sign-ins.ts'
import type { Actor, PaymentDeps } from '../payments/deps.ts'
import { type RequestContext, requestContext } from '../payments/operations/request-context.ts'
import { type LoadedOrder, loadedAt } from '../payments/orders/read.ts'
import {
  type Begun,
  type Credentials,
  endSession,
  type From,
  findSession,
  signInPerson,
} from '../payments/people/sign-in.ts'
import {
  type ActiveKey,
  type ApiKeyRow,
  findActiveKeyByHash,
  findActiveKeyById,
  findKeyById,
} from '../repositories/api-keys/api-key-queries.ts'
import { findClient } from '../repositories/connection/clients.ts'
import { findKeyAndOrder } from '../repositories/orders/order-queries.ts'
import { deleteSession, insertSession, isSessionOpen } from '../repositories/session/sessions.ts'
import { requireWithin } from './session/confine.ts'
import {
  endedCookie,
  personCookie,
  personSecretOf,
  type Session,
  sessionCookie,
  sessionOf,
  sessionSeconds,
} from './session/session-cookie.ts'

/**
 * Whom a token or a session authenticates. `person`: who signed in with a name and a password, and what he may do decides
 * `src/domain/people.ts`; an administrator of the whole service has the type `admin`, a flow operator the type `operator`.
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

export type Guards = {
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
  countTry(request: FastifyRequest): void
  /** A session for the principal of this token; undefined when the token is unknown or revoked. */
  signIn(
    token: string,
    request: FastifyRequest,
  ): Promise<{ principal: Principal; until: Date; cookie: string } | undefined>
  /** A session for the person of this name; undefined when name, password or code is wrong. Throws RATE_LIMITED after too many tries. */
  signInPerson(
    credentials: Credentials,
    request: FastifyRequest,
  ): Promise<{ principal: Principal; until: Date; cookie: string } | undefined>
  /** What a browser gets for a session of a person that has begun. */
  begin(begun: Begun): { principal: Principal; until: Date; cookie: string }
  /** The session of the request's cookie, if a page of this service sent it and it has not expired. */
  session(request: FastifyRequest): Promise<{ principal: Principal; until: Date } | undefined>
  /** @throws FORBIDDEN when the browser's headers show that a page of another origin sent the request */
  refuseForeignPage(request: FastifyRequest): void
  /** Ends the session of the request's cookie, if it has one, in every process. */
  signOut(request: FastifyRequest): Promise<void>
  /** The value of `set-cookie` that makes a browser forget its session. */
  signedOut(): string
}

/** Whom a token of the header authenticates. */
type TokenPrincipal = { type: 'admin' } | { type: 'client'; client: ClientName; keyId: string }

/** Open sessions of one key, or of the administrator: repeated sign-ins must not fill the database. */
const maxSessions = 100

/** The active key with a hash. */
type FindKey = (hash: string) => Promise<ActiveKey | undefined>

const keyShape = /^mk_[0-9a-f]{64}$/
/** The characters of an order's id, ours or the provider's. */
const idShape = /^[\w-]{1,100}$/

/**
 * Checks every request before its body is read, by the access class that its route declares. Public routes pass. Client routes
 * need a key, or the administrator and a client's name. Admin routes need the admin token, and metrics that or their own.
 */
export function installGuards(
  app: HttpServer,
  deps: PaymentDeps,
  options: {
    adminToken: string
    metricsToken?: string | undefined
    knownHosts: KnownHosts
    rateLimitPerSecond: number
    authFailuresPerMinute: number
  },
): Guards {
  const countRequest = limitRequests(options.rateLimitPerSecond)
  const failures = createFailureLimit({ perMinute: options.authFailuresPerMinute })
  app.decorateRequest('principal', null)
  app.decorateRequest('tenant', null)
  app.decorateRequest('arrivedAt', 0)
  app.decorateRequest('arrivedFrom', '')
  app.decorateRequest('foundOrder', null)

  const db = deps.database.db
  const recordRefusal = createRefusedSignIns(deps)
  const ownOrigin = new URL(deps.settings.publicUrl).origin
  const cookies = { sealer: deps.sealer, isSecure: ownOrigin.startsWith('https:') }
  // Binds sessions of the administrator to the token they were made with, without containing it.
  const isAdminToken = isSecret(options.adminToken)
  const isMetricsToken =
    options.metricsToken === undefined ? undefined : isSecret(options.metricsToken)
  const adminProof = hashSecret(`session of ${options.adminToken}`)

  const sessionEntry = (
    action: 'session.started' | 'session.ended',
    request: FastifyRequest,
    principal: Principal,
    id: string,
  ): ActivityEntry => ({
    client: principal.type === 'client' ? principal.client : null,
    actor: actorOf(deps, request, principal),
    action,
    resourceId: id,
  })

  const begin: Guards['begin'] = ({ secret, sessionId, person, until }) => ({
    principal: { ...principalOf(person), sessionId },
    until,
    cookie: personCookie(secret, cookies.isSecure),
  })

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

  const session: Guards['session'] = async (request) => {
    const { headers } = request
    if (!mayUseCookie(request, ownOrigin)) return undefined
    const secret = personSecretOf(headers.cookie, cookies.isSecure)
    if (secret !== undefined) {
      const open = await findSession(deps, secret)
      return (
        open && {
          principal: { ...principalOf(open.person), sessionId: open.id },
          until: open.expiresAt,
        }
      )
    }
    const found = sessionOf(headers.cookie, cookies, deps.now())
    if (!found) return undefined
    if (!(await isSessionOpen(db, found.id, deps.now()))) return undefined
    const until = new Date(found.until)
    if (found.type === 'admin') {
      return sameSecret(found.proof, adminProof)
        ? { principal: { type: 'admin', sessionId: found.id }, until }
        : undefined
    }
    const key = await findActiveKeyById(db, found.keyId)
    if (!key) return undefined
    return { principal: { ...principalOfKey(key), sessionId: found.id }, until }
  }

  const identify = async (request: FastifyRequest): Promise<Principal | undefined> => {
    const token = request.headers['x-api-token']
    if (token !== undefined) return principalOfToken(token)
    return (await session(request))?.principal
  }

  const hasAdminToken = ({ headers }: FastifyRequest): boolean => {
    const token = headers['x-api-token']
    return typeof token === 'string' && isAdminToken(token)
  }
  const isForMetrics = (token: unknown): boolean =>
    typeof token === 'string' && isMetricsToken !== undefined && isMetricsToken(token)
  const countTry = (request: FastifyRequest) => failures.count(request.arrivedFrom)

  app.addHook('onRequest', async (request) => {
    request.arrivedAt = deps.stopwatch()
    request.arrivedFrom = callerAddress(request)
    const access = request.routeOptions.config.access
    // A page of a foreign name has no admin token.
    if (request.routeOptions.config.signsIn && !hasAdminToken(request)) {
      options.knownHosts.require(request)
    }
    if (access === undefined || access === 'public') return
    if (access === 'metrics' && isForMetrics(request.headers['x-api-token'])) return
    const finds = request.routeOptions.config.findsOrder
    const principal = await (finds ? identifyWithOrder(request) : identify(request))
    if (!principal) {
      countTry(request)
      throw new AppError('UNAUTHORIZED')
    }
    request.principal = principal
    countRequest(countedAs(principal))
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
    requireWithin(db, request, request.tenant, rule.within).then(() => done(), done)
  })

  return {
    identify,
    async check(request) {
      const principal = await identify(request)
      const { person, type } = request.principal ?? {}
      // Another role or other stores are another person, as far as what is open goes.
      const isSame = JSON.stringify(principal?.person) === JSON.stringify(person)
      if (principal?.type !== type || !isSame) throw new AppError('UNAUTHORIZED')
    },
    countTry,
    begin,
    async signInPerson(credentials, request) {
      const begun = await signInPerson(deps, credentials, fromOf(deps, request), recordRefusal)
      return begun && begin(begun)
    },
    async signIn(token, request) {
      const principal = await principalOfToken(token)
      if (!principal) {
        await recordRefusal(actorOf(deps, request, null))
        return undefined
      }
      const now = deps.now()
      const until = new Date(now.getTime() + sessionSeconds * 1000)
      const common = { id: randomUUID(), until: until.getTime() }
      const begun: Session =
        principal.type === 'admin'
          ? { type: 'admin', proof: adminProof, ...common }
          : { type: 'client', keyId: principal.keyId, ...common }
      const row = {
        id: common.id,
        key_id: principal.type === 'client' ? principal.keyId : null,
        created_at: now,
        expires_at: until,
      }
      await deps.database.transaction(async (trx) => {
        await insertSession(trx, row, maxSessions)
        await recordSuccess(deps, trx, sessionEntry('session.started', request, principal, row.id))
      })
      return { principal, until, cookie: sessionCookie(begun, cookies) }
    },
    session,
    refuseForeignPage({ headers }) {
      if (isFromOwnPage(headers, { ownOrigin, isRead: true })) return
      throw new AppError('FORBIDDEN', { message: 'Requests from other sites are refused' })
    },
    async signOut(request) {
      const secret = personSecretOf(request.headers.cookie, cookies.isSecure)
      if (secret !== undefined) return endSession(deps, secret, actorOf(deps, request, null))
      const found = sessionOf(request.headers.cookie, cookies, deps.now())
      if (!found) return
      const key = found.type === 'client' ? await findKeyById(db, found.keyId) : undefined
      const principal: Principal = key
        ? { type: 'client', client: key.client, keyId: key.id }
        : { type: 'admin' }
      await deps.database.transaction(async (trx) => {
        if (!(await deleteSession(trx, found.id))) return
        await recordSuccess(deps, trx, sessionEntry('session.ended', request, principal, found.id))
      })
    },
    signedOut: () => endedCookie(cookies.isSecure),
  }
}

/** Who is counted: a person, a key, or the administrator. */
function countedAs(principal: Principal): string {
  return principal.person?.id ?? (principal.type === 'client' ? String(principal.keyId) : 'admin')
}

const secondMs = 1_000
/** More than the number of callers in any second. Beyond it those whose second is over are forgotten. */
const callersAtMost = 5_000

/**
 * Counts the requests of each caller in seconds, which begin with the first request.
 *
 * @throws RATE_LIMITED, with the seconds until the next request is allowed.
 */
function limitRequests(most: number): (caller: string) => void {
  const seconds = new Map<string, { count: number; endsAt: number }>()
  const forgetEnded = (at: number) => {
    for (const [caller, { endsAt }] of seconds) if (endsAt <= at) seconds.delete(caller)
  }
  return (caller) => {
    const at = performance.now()
    const second = seconds.get(caller)
    if (second === undefined || second.endsAt <= at) {
      if (seconds.size >= callersAtMost) forgetEnded(at)
      seconds.set(caller, { count: 1, endsAt: at + secondMs })
      return
    }
    second.count += 1
    if (second.count <= most) return
    const retryAfterSeconds = Math.ceil((second.endsAt - at) / secondMs)
    throw new AppError('RATE_LIMITED', { extra: { retryAfterSeconds } })
  }
}

/**
 * Whether the cookie of the request counts: another page may have sent it. Other pages need a preflight for JSON, which is always
 * refused.
 */
export function mayUseCookie({ headers, method }: FastifyRequest, ownOrigin: string): boolean {
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isFromOwnPage(headers, { ownOrigin, isRead })) return false
  return isRead || /^application\/json\b/i.test(headers['content-type'] ?? '')
}

function principalOf(person: Person): Principal {
  if (person.client !== null) return { type: 'client', client: asClientName(person.client), person }
  return { type: person.role === 'administrator' ? 'admin' : 'operator', person }
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

/** Where a sign-in comes from. */
export function fromOf(deps: PaymentDeps, request: FastifyRequest): From {
  return {
    actor: actorOf(deps, request, null),
    group: addressGroup(request.arrivedFrom),
    userAgent: request.headers['user-agent'],
  }
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

/** Who made the request, for the audit log. Time and address are those of its arrival. */
export function actorOf(
  deps: PaymentDeps,
  request: FastifyRequest,
  principal: Principal | null = request.principal,
): Actor {
  return {
    ipAddress: request.arrivedFrom,
    keyId: principal?.type === 'client' ? principal.keyId : undefined,
    person: principal?.person,
    sessionId: principal?.sessionId,
    startedAt: new Date(deps.now().getTime() - Math.round(deps.stopwatch() - request.arrivedAt)),
  }
}

/** The context of this request, with the reason that a person gave. Its deadline counts from its arrival. */
export function contextOf(
  deps: PaymentDeps,
  request: FastifyRequest,
  reason?: string,
): RequestContext {
  const isConnected = async () => !(await hasDisconnected(request))
  return requestContext({ ...actorOf(deps, request), reason }, request.arrivedAt, isConnected)
}
