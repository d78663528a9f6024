import type { FastifyRequest } from 'fastify'
import { sameSecret } from '../../domain/secrets.ts'
import { AppError } from '../../errors/app-error.ts'
import { callerAddress } from '../../http/connections.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { createFailureLimit } from '../../http/failure-limit.ts'

export type ControlAccess = {
  /** `auto`: a token when one is set, else local callers only. `none`: anybody. */
  auth: 'auto' | 'none'
  /** The control API's own token, the only one that it takes. undefined: none is asked for. */
  syncToken: string | undefined
  /** TRUST_PROXY is set: a connection from loopback may be a caller from anywhere. */
  isBehindProxy: boolean
  /** Opens the figures and nothing else. */
  metricsToken: string | undefined
  authFailuresPerMinute: number
  audit: AccessAudit
}

/** Hears who shows a token, right or wrong, by the address on arrival. Neither may fail. */
export type AccessAudit = {
  accepted(address: string): Promise<void>
  refused(address: string): Promise<void>
}

const loopbackHost = /^(localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

export type ControlGuard = {
  /**
   * Whether the request may do what operators do; for public routes that tell them more. A wrong token counts as a failed
   * try: throws RATE_LIMITED.
   */
  isOperator(request: FastifyRequest): boolean
}

/**
 * Guards every route but the public ones. Without a token the listener is bound to loopback (the settings see to that), and two kinds
 * of callers are refused: those that a reverse proxy on this machine passes on, and web pages, which cannot send a request to loopback
 * without a foreign Host or the marks that browsers put on cross-site requests.
 *
 * The administrator's token, which moves money, is no token here: whoever steers flows need not have it, and it must not
 * be tried out on a second listener.
 */
export function installControlAccess(app: HttpServer, access: ControlAccess): ControlGuard {
  const failures = createFailureLimit({ perMinute: access.authFailuresPerMinute })
  const isOperator = (request: FastifyRequest): boolean => {
    if (access.auth === 'none') return true
    if (access.syncToken === undefined) {
      return !access.isBehindProxy && !isForwarded(request) && !isFromForeignPage(request)
    }
    const token = request.headers['x-api-token']
    if (token === undefined) return false
    if (typeof token === 'string' && sameSecret(token, access.syncToken)) return true
    failures.count(callerAddress(request))
    return false
  }
  const isForMetrics = (token: unknown): boolean =>
    typeof token === 'string' &&
    access.metricsToken !== undefined &&
    sameSecret(token, access.metricsToken)
  app.decorateRequest('arrivedFrom', '')
  app.addHook('onRequest', async (request) => {
    request.arrivedFrom = callerAddress(request)
    // Where nothing is there is nothing to guard: which routes there are stands in the description.
    if (request.is404 || request.routeOptions.config.access === 'public') return
    const token = request.headers['x-api-token']
    const hasToken = token !== undefined
    if (request.routeOptions.config.access === 'metrics' && isForMetrics(token)) return
    if (isOperator(request)) {
      const isAsked = access.auth !== 'none' && access.syncToken !== undefined
      if (isAsked) await access.audit.accepted(request.arrivedFrom)
      return
    }
    if (access.syncToken === undefined) {
      const isProxied = access.isBehindProxy || isForwarded(request)
      throw new AppError('FORBIDDEN', { message: isProxied ? proxiedText : foreignText })
    }
    if (hasToken) await access.audit.refused(request.arrivedFrom)
    else failures.count(request.arrivedFrom)
    throw new AppError('UNAUTHORIZED')
  })
  return { isOperator }
}

const foreignText = 'Requests from other sites are refused'
const proxiedText =
  'Requests through a proxy need a token: set SYNC_TOKEN and send it as x-api-token'

/** Headers that reverse proxies add: the caller is not on this machine then, or nobody knows. */
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

/** The page itself may call; its Origin names the same host and port. */
function isLoopbackOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host.toLowerCase() === host?.toLowerCase()
}
