import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { sameSecret } from '../http/constant-time.ts'
import type { HttpServer } from '../http/create-server.ts'
import { createFailureLimit } from '../http/failure-limit.ts'

export type ControlAccess = {
  /** `auto`: a token when one is set, else local callers only. `none`: anybody. */
  auth: 'auto' | 'none'
  /** The control API's own token, the only one that it takes. undefined: none is asked for. */
  syncToken: string | undefined
  authFailuresPerMinute: number
}

const loopbackHost = /^(localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

/**
 * Guards every route but the public ones. Without a token the listener is bound to loopback (the settings see to that),
 * and what remains to be kept out are web pages: they can send requests to loopback, but not without a foreign Host or
 * the marks that browsers put on cross-site requests.
 *
 * The administrator's token, which moves money, is no token here: whoever steers flows need not have it, and it must not
 * be tried out on a second listener.
 */
export function installControlAccess(app: HttpServer, access: ControlAccess): void {
  const failures = createFailureLimit({ perMinute: access.authFailuresPerMinute })
  app.addHook('onRequest', async (request) => {
    if (access.auth === 'none' || request.routeOptions.config.access === 'public') return
    if (access.syncToken === undefined) {
      refuseForeignPages(request)
      return
    }
    const token = request.headers['x-api-token']
    if (typeof token !== 'string' || !sameSecret(token, access.syncToken)) {
      failures.count(request.ip)
      throw new AppError('UNAUTHORIZED')
    }
  })
}

function refuseForeignPages(request: FastifyRequest): void {
  const { host, origin, 'sec-fetch-site': site } = request.headers
  const isForeignHost = host === undefined || !loopbackHost.test(host)
  const isForeignOrigin = origin !== undefined && !isLoopbackOrigin(origin, host)
  const isCrossSite = site !== undefined && site !== 'same-origin' && site !== 'none'
  if (isForeignHost || isForeignOrigin || isCrossSite) {
    throw new AppError('FORBIDDEN', { message: 'Requests from other sites are refused' })
  }
}

/** The page itself may call; its Origin names the same host and port. */
function isLoopbackOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host.toLowerCase() === host?.toLowerCase()
}
