import { type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino'
import { Counter, Histogram, type Registry } from 'prom-client'
import { callerAddress } from './connections.ts'

const masked = '[masked]'

/** Names whose values must not be in a log, at any depth and in any text. */
const secretNames = [
  'x-api-token',
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'x-signature',
  'access_token',
  'accessToken',
  'refresh_token',
  'refreshToken',
  'client_secret',
  'clientSecret',
  'code_verifier',
  'codeVerifier',
  'api_key',
  'apiKey',
  'adminToken',
  'syncToken',
  'encryptionKeys',
  'webhookSecrets',
  'password',
  'secret',
  'token',
]

/** Names that are secret in a URL or a form only: elsewhere `code` is an error code and `state` an order's. */
const secretParameters = [...secretNames, 'code', 'state', 'invitation', 'signature', 'key']

const names = (list: readonly string[]) =>
  list.map((name) => name.replace(/[-_]/g, '[-_]')).join('|')

const replacements: readonly [RegExp, string][] = [
  [/\bmk_[0-9a-f]{64}\b/gi, `mk_${masked}`],
  [/\b(APP_USR|TEST|TG)-[A-Za-z0-9_-]{4,}/g, `$1-${masked}`],
  [/\b(Bearer|Basic)\s+[^\s"'\\,]+/gi, `$1 ${masked}`],
  // name=value in URLs, forms and messages.
  [
    new RegExp(`(?<![A-Za-z0-9_-])(${names(secretParameters)})=[^&\\s"'\\\\,;]+`, 'gi'),
    `$1=${masked}`,
  ],
  // "name":"value" of JSON inside a string.
  [
    new RegExp(
      `(\\\\*"(?:${names(secretNames)})\\\\*"\\s*:\\s*\\\\*")(?:[^"\\\\]|\\\\[^"])+`,
      'gi',
    ),
    `$1${masked}`,
  ],
  // "name":1 of this line.
  [new RegExp(`(?<!\\\\)("(?:${names(secretNames)})":)-?\\d[\\d.e+-]*`, 'gi'), `$1"${masked}"`],
  // Passwords in connection addresses.
  [/(:\/\/[^:@/\s"\\]*):[^@/\s"\\]+@/g, `$1:${masked}@`],
]

/** Characters that JSON allows, but a terminal or a log viewer could take for a new line or a command. */
const unsafe = /[\u007f-\u009f\u2028\u2029]/g

/**
 * The last measure: masks what looks like a secret in a finished log line, by a name or by its form, at any depth and in any
 * text.
 */
export function scrub(line: string): string {
  let clean = maskValues(line)
  for (const [pattern, replacement] of replacements) clean = clean.replace(pattern, replacement)
  return clean.replace(unsafe, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const secretField = new RegExp(`(?<!\\\\)"(?:${names(secretNames)})":(?=[[{"])`, 'gi')

/** Masks texts, lists and objects under a secret name, as a whole. */
function maskValues(line: string): string {
  let clean = ''
  let from = 0
  for (const { 0: name, index } of line.matchAll(secretField)) {
    if (index < from) continue
    const begin = index + name.length
    clean += `${line.slice(from, begin)}"${masked}"`
    from = endOfValue(line, begin)
  }
  return clean + line.slice(from)
}

/** The position after the text, list or object at `begin`; the end of the line when it is cut. */
function endOfValue(line: string, begin: number): number {
  let depth = 0
  let isText = false
  for (let at = begin; at < line.length; at += 1) {
    const character = line[at] ?? ''
    if (isText && character === '\\') at += 1
    else if (character === '"') isText = !isText
    else if (isText) continue
    else if ('[{'.includes(character)) depth += 1
    else if (']}'.includes(character)) depth -= 1
    if (depth === 0 && !isText) return at + 1
  }
  return line.length
}

/** Paths for pino's redaction at the top; its wildcards would cost 50 us a line (measured), and `scrub` finds what is deeper. */
const redactPaths: readonly string[] = secretNames.map((name) => `["${name}"]`)

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
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { req: describeRequest, res: describeReply, err: describeError },
    redact: { paths: [...redactPaths], censor: '[masked]' },
    hooks: { streamWrite: scrub },
  }
  return destination ? pino(options, destination) : pino(options)
}

/**
 * One line per request, at its end; Fastify's own two lines would double the volume. None for a refused request of an unknown caller
 * (refusal-log.ts).
 */
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
    const isCounted = reply.failure !== null && reply.statusCode < 500 && !request.isLetIn
    if (isCounted && !error) return
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

/** From the reads of the embedded database to the 25 s within which an ERP gets its answer. */
const secondsUpTo = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25]
/** For requests that match no route: clients choose the path freely, and each one would be a series. */
const noRoute = 'none'

/** Counts the requests of a listener by route and status, and the refusals by their code. */
export const requestMetrics = fastifyPlugin<{ registry: Registry }>(
  async (app, { registry }) => {
    const registers = [registry]
    const requests = new Counter({
      name: 'tillbridge_http_requests_total',
      help: 'Requests by route and status; status "gone": the client disconnected before the answer',
      labelNames: ['method', 'route', 'status'],
      registers,
    })
    const seconds = new Histogram({
      name: 'tillbridge_http_request_duration_seconds',
      help: 'Time to the end of the answer; without streams and long-polls, which wait on purpose',
      labelNames: ['method', 'route'],
      buckets: secondsUpTo,
      registers,
    })
    const failures = new Counter({
      name: 'tillbridge_http_errors_total',
      help: 'Error answers by route and code',
      labelNames: ['method', 'route', 'code'],
      registers,
    })
    app.onRequestEnd((request, reply, isGone) => {
      const labels = { method: request.method, route: request.routeOptions.url ?? noRoute }
      requests.inc({ ...labels, status: isGone ? 'gone' : String(reply.raw.statusCode) })
      if (reply.failure) failures.inc({ ...labels, code: reply.failure.code })
      if (!isGone && !waits(request, reply)) seconds.observe(labels, reply.elapsedTime / 1000)
    })
  },
  { name: 'request-metrics' },
)

function waits({ query }: FastifyRequest, reply: FastifyReply): boolean {
  const isStream = String(reply.raw.getHeader('content-type')).startsWith('text/event-stream')
  return isStream || (typeof query === 'object' && query !== null && 'wait' in query)
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
function describeError(error: unknown, depth = 0): unknown {
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
