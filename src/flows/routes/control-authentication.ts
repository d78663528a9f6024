import type { FastifyInstance, FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { mayCall, maySeeFlows, type Person } from '../../domain/permissions.ts'
import { sameSecret } from '../../domain/secret-hash.ts'
import { AppError } from '../../errors/app-error.ts'
import type { KnownHosts } from '../../http/known-hosts.ts'
import type { Reason } from '../../texts/reason.ts'
import { controlError } from '../control-errors.ts'

export type ControlAccess = {
  /** `auto`: a token if one is set, otherwise local callers only. `none`: any caller. */
  auth: 'auto' | 'none'
  /** The control API's own token, the only one that it accepts. Undefined: none is required. */
  syncToken: string | undefined
  /** TRUST_PROXY is set: a connection from loopback may carry requests from anywhere. */
  isBehindProxy: boolean
  /** Gives access to the metrics only. */
  metricsToken: string | undefined
  knownHosts: KnownHosts
  audit: AccessAudit
  /** The person of the request's session, if any. A session counts only if a page of this listener sent it. */
  findPerson(request: FastifyRequest): Promise<Person | undefined>
}

/** Records callers that show a token, right or wrong, by the address of the connection. Neither function may fail. */
export type AccessAudit = {
  accepted(address: string): Promise<void>
  refused(address: string): Promise<void>
}

const loopbackHost = /^(localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Whether the request may read what operators read; for public routes that then show more. A wrong token counts as
     * a failed try.
     * @throws RATE_LIMITED
     */
    isOperator(request: FastifyRequest): Promise<boolean>
  }
  interface FastifyRequest {
    /** The person who signed in with a name and a password; null for a token, and if none is required. */
    person: Person | null
    /** True if the caller showed neither a session nor the token, because none is required. */
    isAnonymous: boolean
  }
}

/**
 * Who calls the control API: a person by a session, or who has the SYNC_TOKEN. Without a token the listener is bound to loopback by
 * the settings. Then two kinds of callers are refused. The first are requests through a reverse proxy on this machine. The second are
 * web pages: they cannot call loopback without a foreign Host or cross-site headers. The administrator's token moves
 * money and is not accepted here: operators of flows need not have it, and no second listener should allow guessing
 * it.
 */
export const controlAuthentication = fastifyPlugin<ControlAccess>(authenticateCallers, {
  name: 'authentication',
  dependencies: ['auth-failure-limit', '@fastify/cookie'],
})

async function authenticateCallers(app: FastifyInstance, access: ControlAccess): Promise<void> {
  app.decorateRequest('person', null)
  app.decorateRequest('isAnonymous', false)
  const isAsked = access.auth !== 'none' && access.syncToken !== undefined

  /** A token in the header decides alone, as on the other listener. */
  const personOf = async (request: FastifyRequest): Promise<Person | null> =>
    (request.headers['x-api-token'] === undefined && (await access.findPerson(request))) || null
  const hasAccess = async (request: FastifyRequest): Promise<boolean> => {
    if (access.auth === 'none') return true
    if (access.syncToken === undefined) {
      return !access.isBehindProxy && !isForwarded(request) && !isFromForeignPage(request)
    }
    const token = request.headers['x-api-token']
    if (token === undefined) return false
    if (typeof token === 'string' && sameSecret(token, access.syncToken)) return true
    await app.countTry(request)
    return false
  }
  const refuse = async (request: FastifyRequest): Promise<Error> => {
    if (access.syncToken === undefined) {
      const isProxied = access.isBehindProxy || isForwarded(request)
      return controlError('FORBIDDEN', { code: isProxied ? 'PROXY_WITHOUT_TOKEN' : 'OTHER_SITE' })
    }
    const hasToken = request.headers['x-api-token'] !== undefined
    if (hasToken) await access.audit.refused(request.arrivedFrom)
    else await app.countTry(request)
    return new AppError('UNAUTHORIZED')
  }

  app.decorate('isOperator', async (request: FastifyRequest) => {
    const person = await personOf(request)
    return person ? maySeeFlows(person) : await hasAccess(request)
  })
  app.decorate('authentication', {
    knownHosts: access.knownHosts,
    hasOwnToken: () => false,
    isMetricsToken: (token) =>
      access.metricsToken !== undefined && sameSecret(token, access.metricsToken),
    async letIn(request) {
      request.person = await personOf(request)
      if (request.person) return request.person
      if (!(await hasAccess(request))) throw await refuse(request)
      request.isAnonymous = !isAsked
      if (isAsked) await access.audit.accepted(request.arrivedFrom)
      return null
    },
    forbid: (person) => controlError('FORBIDDEN', whyNotAllowed(person)),
    admit: async () => undefined,
    // A token does not change while the process lives.
    async check(request) {
      if (!request.person) return
      const person = await personOf(request)
      if (person && mayCall(person, request.routeOptions.config)) return
      throw new AppError('UNAUTHORIZED')
    },
  })
}

function whyNotAllowed(person: Person): Reason {
  return maySeeFlows(person)
    ? { code: 'ROLE_READS_ONLY', data: { role: person.role } }
    : { code: 'ROLE_WITHOUT_FLOWS' }
}

/** Headers that reverse proxies add. Then the caller may not be on this machine. */
const proxyHeaders = [
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'forwarded', 'via'],
]

function isForwarded({ headers }: FastifyRequest): boolean {
  return proxyHeaders.some((name) => headers[name] !== undefined)
}

function isFromForeignPage(request: FastifyRequest): boolean {
  const { host, origin, 'sec-fetch-site': site } = request.headers
  const isForeignHost = host === undefined || !loopbackHost.test(host)
  const isForeignOrigin = origin !== undefined && !isLoopbackOrigin(origin, host)
  const isCrossSite = site !== undefined && site !== 'same-origin' && site !== 'none'
  return isForeignHost || isForeignOrigin || isCrossSite
}

/** The page itself may call: its Origin has the same host and port. */
function isLoopbackOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host.toLowerCase() === host?.toLowerCase()
}

/**
 * The actor for logs: the person, or the address of the connection. Tokens are shared, and a closed connection has no
 * address.
 */
export function actorNameOf(request: FastifyRequest): string {
  return request.person?.name ?? request.arrivedFrom
}
