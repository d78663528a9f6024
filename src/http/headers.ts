import { randomUUID } from 'node:crypto'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import helmet from 'helmet'
import { AppError } from '../errors/app-error.ts'

/** Of the interface as a whole: paths have no version, changes only add. */
const apiVersion = '1'

const requestIdShape = /^[A-Za-z0-9._-]{1,64}$/

/**
 * One policy for all answers, dashboards and /docs included: nothing inline, nothing from other origins. Without
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

/** Computed once and not by @fastify/helmet, which sets them in a hook: some answers are made before any hook runs. */
const securityHeaders = askHelmet({
  contentSecurityPolicy,
  xFrameOptions: { action: 'deny' },
  // This service cannot decide whether subdomains of the host support https.
  strictTransportSecurity: { includeSubDomains: false },
})

const fixedHeaders = { ...securityHeaders, 'x-api-version': apiVersion }

function askHelmet(options: Parameters<typeof helmet>[0]): Readonly<Record<string, string>> {
  const request = new IncomingMessage(new Socket())
  const response = new ServerResponse(request)
  helmet(options)(request, response, () => {})
  return Object.fromEntries(
    Object.entries(response.getHeaders()).map(([name, value]) => [name, String(value)]),
  )
}

/** The client's own id if it is a plain one, so that its log and ours can be compared. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && requestIdShape.test(given) ? given : randomUUID()
}

/** The headers of all answers: security, `x-api-version` and `x-request-id`. */
export function commonHeaders(requestId: string): Record<string, string> {
  return { ...fixedHeaders, 'x-request-id': requestId }
}

/**
 * Why a request with no Host, or with two, is refused: Node would refuse the first with an empty answer and without our headers; of
 * two a proxy may take the one and this service the other (RFC 9112, 3.2).
 */
export function hostProblem({ headers, raw }: FastifyRequest): AppError | undefined {
  if (headers.host === undefined && raw.httpVersion === '1.1') {
    return new AppError('BAD_REQUEST', { message: 'The header Host is missing' })
  }
  return hasTwoHosts(raw)
    ? new AppError('BAD_REQUEST', { message: 'The header Host is there more than once' })
    : undefined
}

/** In `headers` a second Host is left out, so only the raw list shows it. */
function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0
  for (let place = 0; place < rawHeaders.length; place += 2) {
    const name = rawHeaders[place] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  return hosts > 1
}

/** Puts them on an answer. */
export function setAnswerHeaders(reply: FastifyReply, requestId: string): void {
  reply.headers(fixedHeaders).header('x-request-id', requestId)
}
