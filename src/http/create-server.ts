import type { IncomingMessage, ServerResponse } from 'node:http'
import cookie from '@fastify/cookie'
import {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
  type RawServerDefault,
} from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { LoggerOptions } from 'pino'
import { AppError } from '../errors/app-error.ts'
import { OperatorError } from '../errors/operator-error.ts'
import { requireAudience } from './audiences.ts'
import { answerClientError } from './client-errors.ts'
import {
  callerAddress,
  installShutdown,
  type OpenConnections,
  refuseDisconnected,
  trackConnections,
  whileStopping,
} from './connections.ts'
import type { CompleteFailure, ErrorStyle } from './error-body.ts'
import { installErrorHandler, sendFailure } from './error-handler.ts'
import { hostProblem, requestIdOf, setAnswerHeaders } from './headers.ts'
import {
  bodyLimitBytes,
  installJsonBody,
  refuseHostileAddress,
  serializerCompiler,
  validatorCompiler,
} from './json-body.ts'
import { RequestLog } from './logging.ts'
import { createRefusalLog } from './refusal-log.ts'

/** A listener whose routes are typed by their Zod schemas. */
export type HttpServer = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

export type ServerOptions = {
  /** The process's logger, options for a new one (see logging.ts), or none. */
  logger: FastifyBaseLogger | LoggerOptions | false
  /** Addresses, CIDR ranges or `loopback` whose X-Forwarded-For is trusted; empty trusts none. */
  trustProxy?: readonly string[]
  /** The path that browsers know, such as `/caja`, when a proxy forwards what is below it. */
  publicPath?: string
  /** Shape of error answers; `coded` when absent. */
  errorStyle?: ErrorStyle
  /** The text of an error for users, in the `plain` shape. */
  complete?: CompleteFailure
  /** Whether an error means that the database cannot be reached: 503 instead of 500. */
  isUnavailable?: (error: unknown) => boolean
  tracing?: RequestTracing | undefined
  /** The clock of deadlines. */
  stopwatch?: () => number
  /** How long a request may take to arrive; for tests. */
  slowClient?: { requestMs: number; headersMs: number; checkMs: number }
  /** How many connections may be open; for tests. */
  connections?: number
}

type RequestTracing = {
  /** Runs what follows of a request inside its trace. */
  traceRequest(request: FastifyRequest, reply: FastifyReply, proceed: () => void): void
}

declare module 'fastify' {
  interface FastifyInstance {
    errorStyle: ErrorStyle
    /** The prefix of our paths in a browser; usually empty. */
    publicPath: string
  }
  interface FastifyRequest {
    /** When the request arrived, by the stopwatch of the server. */
    arrivedAt: number
    /** The caller's address at arrival: a closed connection has none. */
    arrivedFrom: string
  }
}

const maxParamLength = 1024
/** More open connections than any shop has boxes. */
const connectionsByDefault = 10_000

/**
 * A body has the larger of the first two, and the check runs at intervals: a client that drips its request is cut after
 * 3 to 4 s (measured). With the request time alone, the 60 s default of the headers would count.
 */
const slowClientDefaults = { requestMs: 3000, headersMs: 2000, checkMs: 1000 }

/**
 * The common part of both listeners. It limits slow, huge and malformed requests, and validates with Zod. It sets the
 * shape of error answers, security headers and request ids. It makes no changes for disconnected clients, and shuts
 * down with a deadline. Each route stands in a scope with an audience, or the service does not start.
 */
export function createServer({
  logger,
  trustProxy = [],
  publicPath = '',
  errorStyle = 'coded',
  complete,
  isUnavailable = () => false,
  tracing,
  stopwatch = () => performance.now(),
  slowClient = slowClientDefaults,
  connections: connectionLimit = connectionsByDefault,
}: ServerOptions): HttpServer {
  const refusals = createRefusalLog(() => app.log)
  const errors = { style: errorStyle, isUnavailable, complete, refusals }
  let connections: OpenConnections

  const app = fastify({
    ...loggerOption(logger),
    logController: new RequestLog(),
    genReqId: requestIdOf,
    ...(publicPath !== '' && {
      rewriteUrl: ({ url = '/' }: IncomingMessage) => withoutPrefix(url, publicPath),
    }),
    bodyLimit: bodyLimitBytes,
    requestTimeout: slowClient.requestMs,
    http: {
      headersTimeout: slowClient.headersMs,
      connectionsCheckingInterval: slowClient.checkMs,
      // Refused by hostProblem.
      requireHostHeader: false,
    },
    routerOptions: { maxParamLength, ignoreTrailingSlash: false },
    trustProxy: trustProxy.length > 0 ? [...trustProxy] : false,
    // A HEAD on a route that acts on GET, such as the OAuth callback, would act too.
    exposeHeadRoutes: false,
    // Fastify's own 503 has another shape; whileStopping refuses instead.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) =>
      answerClientError(error, socket, { connections, log: app.log, style: errorStyle, refusals }),
    frameworkErrors: (error, request, reply) => {
      setAnswerHeaders(reply, request.id)
      sendFailure(error, request, reply, errors)
    },
  })

  connections = trackConnections(app, connectionLimit)
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.decorate('errorStyle', errorStyle)
  app.decorate('publicPath', publicPath)
  app.decorateRequest('arrivedAt', 0)
  app.decorateRequest('arrivedFrom', '')
  installErrorHandler(app, errors)
  // Node refuses an unknown Expect by itself; it may be served (RFC 9110, 10.1.1).
  app.server.on('checkExpectation', (request, response) =>
    app.server.emit('request', request, response),
  )
  installShutdown(app, {
    onStop() {
      connections.closeUnused()
      refusals.end()
    },
  })
  installJsonBody(app)

  addHooks(app, { connections, publicPath, stopwatch, tracing })
  void app.register(cookie)
  return app.withTypeProvider<ZodTypeProvider>()
}

type ForHooks = Pick<ServerOptions, 'tracing'> & {
  connections: OpenConnections
  publicPath: string
  stopwatch: () => number
}

/** What holds for every route and request of the listener. Scopes add what holds for theirs. */
function addHooks(
  app: FastifyInstance,
  { connections, publicPath, stopwatch, tracing }: ForHooks,
): void {
  app.addHook('onRoute', function (route) {
    requireAudience(this, route)
    refuseOwnPath(publicPath, route.url)
  })
  app.addHook('onRequest', (request, reply, done) => {
    connections.begin(request, reply)
    setAnswerHeaders(reply, request.id)
    request.arrivedAt = stopwatch()
    request.arrivedFrom = callerAddress(request)
    const refusal =
      hostProblem(request) ??
      (app.shutdown.closing ? whileStopping(request) : undefined) ??
      // Here, so that the body is not read.
      (request.is404 ? new AppError('NOT_FOUND') : undefined)
    if (refusal || !tracing) return done(refusal)
    tracing.traceRequest(request, reply, done)
  })
  app.addHook('preValidation', refuseHostileAddress)
  app.addHook('preHandler', refuseDisconnected)
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
    if (app.shutdown.closing) reply.header('connection', 'close')
    done(null, payload)
  })
}

/** A proxy may forward a path with the prefix or without it; monitors on this machine send none. */
function withoutPrefix(url: string, prefix: string): string {
  if (!url.startsWith(prefix)) return url
  const rest = url.slice(prefix.length)
  if (rest === '' || rest.startsWith('?')) return `/${rest}`
  return rest.startsWith('/') ? rest : url
}

/** A prefix that is also the beginning of a route would be removed from a path that the proxy has already shortened. */
function refuseOwnPath(prefix: string, url: string): void {
  if (prefix === '' || (url !== prefix && !url.startsWith(`${prefix}/`))) return
  throw new OperatorError(
    `The service cannot be reached under ${prefix}, which is a route of the service (${url}): choose another path in PUBLIC_URL or SYNC_PUBLIC_URL`,
  )
}

/** The path of an address, in the form that createServer expects. */
export function publicPathOf(publicUrl: string): string {
  return new URL(publicUrl).pathname.replace(/\/$/, '')
}

function loggerOption(logger: ServerOptions['logger']) {
  if (logger === false) return { logger: false as const }
  return 'child' in logger ? { loggerInstance: logger } : { logger }
}
