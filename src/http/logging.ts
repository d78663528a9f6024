import { type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino'
import { callerAddress } from './connections.ts'
import { maskFields, redactPaths, scrub } from './scrub.ts'

const maxUrlLength = 500
const maxCauses = 5

/**
 * The logger of the process: JSON lines in which requests, answers and errors show named fields only. Secrets are
 * redacted by name, and a last scrubber masks what still looks like one.
 * @param destination standard output, unless a test reads the lines.
 */
export function createLogger(
  level: NonNullable<LoggerOptions['level']>,
  destination?: DestinationStream,
): Logger {
  const options = loggerOptions(level)
  return destination ? pino(options, destination) : pino(options)
}

export function loggerOptions(level: NonNullable<LoggerOptions['level']>): LoggerOptions {
  return {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }), log: maskFields },
    serializers: { req: describeRequest, res: describeReply, err: describeError },
    redact: { paths: [...redactPaths], censor: '[masked]' },
    hooks: { streamWrite: scrub },
  }
}

/** One line per request, at its end; Fastify's own two lines would double the volume. */
export class RequestLog extends LogController {
  constructor() {
    super({ requestIdLogLabel: 'requestId' })
  }

  override incomingRequest(): void {}

  override routeNotFound(): void {}

  override requestCompleted(
    error: Error | null | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    const fields = {
      req: request,
      res: reply,
      durationMs: Math.round(reply.elapsedTime),
      ...(request.aboutOrder && { orderId: request.aboutOrder.id }),
    }
    if (error) request.log.warn({ ...fields, err: error }, 'request aborted')
    else request.log.info(fields, 'request done')
  }
}

function describeRequest(request: FastifyRequest) {
  return {
    method: request.method,
    url: safeUrl(request.url),
    route: request.routeOptions?.url,
    remoteAddress: callerAddress(request),
  }
}

function describeReply(reply: FastifyReply) {
  return { statusCode: reply.statusCode }
}

/** The path as received, and only the names of the query: its values may be a code, a state or an invitation. */
function safeUrl(url: string): string {
  const [path = '', query] = url.split('?', 2)
  if (query === undefined) return path.slice(0, maxUrlLength)
  const names = query.split('&').map((pair) => pair.split('=', 1)[0])
  return `${path}?${names.join('&')}`.slice(0, maxUrlLength)
}

/**
 * Named fields of an error and of its causes. Own properties are left out: libraries attach requests with their
 * headers, and provider answers, to errors; PostgreSQL's `detail` has row values.
 */
export function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return typeof error === 'object' ? typeof error : error
  const { code, constraint, table, statusCode } = error as Error & Record<string, unknown>
  return {
    // A class without a name of its own has that of all errors.
    type: error.name === 'Error' ? error.constructor.name : error.name,
    message: error.message,
    ...(isPlain(code) && { code }),
    ...(isPlain(statusCode) && { statusCode }),
    ...(isPlain(constraint) && { constraint }),
    ...(isPlain(table) && { table }),
    stack: error.stack,
    ...(error.cause !== undefined &&
      depth < maxCauses && { cause: describeError(error.cause, depth + 1) }),
    ...(error instanceof AggregateError &&
      depth < maxCauses && {
        errors: error.errors.slice(0, maxCauses).map((one) => describeError(one, depth + 1)),
      }),
  }
}

function isPlain(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}
