import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type FastifyBaseLogger,
  type FastifyInstance,
  fastify,
  type RawServerDefault,
} from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { LoggerOptions } from 'pino'
import { OperatorError } from '../errors/operator-error.ts'
import { requireAccessClass } from './access-classes.ts'
import { answerClientError } from './client-errors.ts'
import {
  type Connections,
  installShutdown,
  refuseDisconnected,
  trackConnections,
} from './connections.ts'
import type { CompleteFailure, ErrorStyle } from './error-body.ts'
import { installErrorHandler, sendFailure } from './error-handler.ts'
import { identify, installHeaders, requestIdOf } from './headers.ts'
import {
  bodyLimitBytes,
  installJsonBody,
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
  /** How long a request may take to arrive; for tests. */
  slowClient?: { requestMs: number; headersMs: number; checkMs: number }
  /** How many connections may be open; for tests. */
  connections?: number
}

declare module 'fastify' {
  interface FastifyInstance {
    errorStyle: ErrorStyle
    /** The prefix of our paths in a browser; usually empty. */
    publicPath: string
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
 * down with a deadline. Each route declares `config.access`, or the app does not become ready.
 */
export function createServer({
  logger,
  trustProxy = [],
  publicPath = '',
  errorStyle = 'coded',
  complete,
  isUnavailable = () => false,
  slowClient = slowClientDefaults,
  connections: connectionLimit = connectionsByDefault,
}: ServerOptions): HttpServer {
  const refusals = createRefusalLog(() => app.log)
  const errors = { style: errorStyle, isUnavailable, complete, refusals }
  let connections: Connections

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
      // Refused by installHeaders.
      requireHostHeader: false,
    },
    routerOptions: { maxParamLength, ignoreTrailingSlash: false },
    trustProxy: trustProxy.length > 0 ? [...trustProxy] : false,
    // A HEAD on a route that acts on GET, such as the OAuth callback, would act too.
    exposeHeadRoutes: false,
    // Fastify's own 503 has another shape; installShutdown refuses instead.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) =>
      answerClientError(error, socket, { connections, log: app.log, style: errorStyle, refusals }),
    frameworkErrors: (error, request, reply) => {
      identify(reply, request.id)
      sendFailure(error, request, reply, errors)
    },
  })

  connections = trackConnections(app, connectionLimit)
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.decorate('errorStyle', errorStyle)
  app.decorate('publicPath', publicPath)
  if (publicPath !== '') refuseOwnPaths(app, publicPath)
  installErrorHandler(app, errors)
  installHeaders(app)
  app.addHook('onClose', async () => refusals.flush())
  // Node refuses an unknown Expect by itself; it may be served (RFC 9110, 10.1.1).
  app.server.on('checkExpectation', (request, response) =>
    app.server.emit('request', request, response),
  )
  installShutdown(app, connections)
  installJsonBody(app)
  requireAccessClass(app)
  refuseDisconnected(app)
  return app.withTypeProvider<ZodTypeProvider>()
}

/** A proxy may forward a path with the prefix or without it; monitors on this machine send none. */
function withoutPrefix(url: string, prefix: string): string {
  if (!url.startsWith(prefix)) return url
  const rest = url.slice(prefix.length)
  if (rest === '' || rest.startsWith('?')) return `/${rest}`
  return rest.startsWith('/') ? rest : url
}

/** A prefix that is also the beginning of a route would be removed from a path that the proxy has already shortened. */
function refuseOwnPaths(app: FastifyInstance, prefix: string): void {
  app.addHook('onRoute', ({ url }) => {
    if (url !== prefix && !url.startsWith(`${prefix}/`)) return
    throw new OperatorError(
      `The service cannot be reached under ${prefix}, which is a route of the service (${url}): choose another path in PUBLIC_URL or SYNC_PUBLIC_URL`,
    )
  })
}

/** The path of an address, in the form that createServer expects. */
export function publicPathOf(publicUrl: string): string {
  return new URL(publicUrl).pathname.replace(/\/$/, '')
}

function loggerOption(logger: ServerOptions['logger']) {
  if (logger === false) return { logger: false as const }
  return 'child' in logger ? { loggerInstance: logger } : { logger }
}
