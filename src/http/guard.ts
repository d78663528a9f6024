import type { FastifyRequest, onRequestAsyncHookHandler, RouteOptions } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { type Confinement, mayCall, type Permission, type Person } from '../domain/permissions.ts'
import type { Audience } from './audiences.ts'
import type { KnownHosts } from './known-hosts.ts'

/** How a listener finds out who calls. Each listener has a plugin of the name `authentication` that decorates it with one. */
export type Authentication = {
  knownHosts: KnownHosts
  /** Whether the request has a token that no page of a foreign name has. */
  hasOwnToken(request: FastifyRequest): boolean
  isMetricsToken(token: string): boolean
  /**
   * Finds out who calls, and sets it for the routes. Returns the person, if it is one.
   *
   * @throws the refusal of who is not let in
   */
  letIn(request: FastifyRequest): Promise<Person | null>
  /** The refusal of a person whose role lacks what the route needs. */
  forbid(person: Person): Error
  /** @throws the refusal of a known caller who does not belong to the audience */
  admit(request: FastifyRequest, audience: Audience): Promise<void>
  /**
   * Checks that a request that was let in still would be; for streams and long-polls.
   *
   * @throws UNAUTHORIZED
   */
  check(request: FastifyRequest): Promise<void>
}

declare module 'fastify' {
  interface FastifyInstance {
    authentication: Authentication
  }
  interface FastifyContextConfig {
    /** What the role of a person must allow. */
    needs?: Permission
    /** How a person of some stores is kept to them. */
    within?: Confinement
  }
}

/** What a route must say about people: of an audience in which there are some of a client, also how they are kept to their stores. */
const mustSay: Readonly<Record<Audience, readonly ('needs' | 'within')[]>> = {
  public: [],
  admin: ['needs'],
  metrics: ['needs'],
  client: ['needs', 'within'],
  managers: ['needs', 'within'],
  person: ['needs', 'within'],
}

/**
 * Gives a scope its audience, and checks each of its requests before the body is read. A route that does not say what it needs stops
 * the start.
 */
export const guard = fastifyPlugin<{ audience: Audience }>(
  async (scope, { audience }) => {
    scope.decorate('audience', audience)
    scope.addHook('onRoute', (route) => requirePermission(audience, route))
    scope.addHook('onRequest', checkCaller(scope.authentication, audience))
  },
  { name: 'guard', dependencies: ['authentication'] },
)

function requirePermission(audience: Audience, { method, url, config }: RouteOptions): void {
  const missing = mustSay[audience].filter((key) => config?.[key] === undefined)
  if (missing.length === 0) return
  throw new Error(`${method} ${url} does not say ${missing.join(' and ')}`)
}

/** Prometheus before 2.55 sends a token in `Authorization` only. */
function tokensOfScrape({ headers }: FastifyRequest): string[] {
  const bearer = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1]
  return [headers['x-api-token'], bearer].filter((token) => typeof token === 'string')
}

function checkCaller(
  { knownHosts, hasOwnToken, isMetricsToken, letIn, forbid, admit }: Authentication,
  audience: Audience,
): onRequestAsyncHookHandler {
  return async (request) => {
    const { config } = request.routeOptions
    if (config.signsIn && !hasOwnToken(request)) knownHosts.require(request)
    if (audience === 'public') return
    if (audience === 'metrics' && tokensOfScrape(request).some(isMetricsToken)) {
      request.isLetIn = true
      return
    }
    const person = await letIn(request)
    request.isLetIn = true
    if (person && !mayCall(person, config)) throw forbid(person)
    await admit(request, audience)
  }
}
