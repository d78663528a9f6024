import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError, type ErrorCode, OutcomeError, withExtra } from '../errors/app-error.ts'
import { answerFor, type CompleteFailure, type ErrorStyle } from './error-body.ts'
import type { RefusalLog } from './refusal-log.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the guard of a listener that lets the caller in; a refusal of any other is only counted in the log. */
    isLetIn: boolean
  }
  interface FastifyReply {
    /** What the answer is about, when it is no success. */
    failure: AppError | null
  }
}

type ErrorHandlerOptions = {
  style: ErrorStyle
  /** Whether the error means that the database cannot be reached, so that a retry makes sense. */
  isUnavailable: (error: unknown) => boolean
  /** For requests of callers that no guard has let in. */
  refusals: RefusalLog
  /** The text of an error for users, in the `plain` shape. */
  complete?: CompleteFailure | undefined
}

/** Fastify's own refusals. Any other `statusCode` on an error comes from elsewhere, such as the provider, and is ignored. */
const frameworkCodes: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_BAD_URL: 'BAD_REQUEST',
  FST_ERR_CTP_BODY_TOO_LARGE: 'PAYLOAD_TOO_LARGE',
  // An empty body is no error (json-body.ts): this one is a byte order mark and nothing else.
  FST_ERR_CTP_EMPTY_JSON_BODY: 'BAD_REQUEST',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'BAD_REQUEST',
  FST_ERR_CTP_INVALID_JSON_BODY: 'BAD_REQUEST',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_MAX_PARAM_LENGTH: 'NOT_FOUND',
  FST_STATIC_FORBIDDEN_PATH: 'NOT_FOUND',
}

/** When a client should retry what is impossible now, for example without the database. */
const unavailableRetrySeconds = 5

/**
 * Answers each error of the app in the documented shape. Any error but an AppError becomes a constant 500: its text is
 * for the log only.
 */
export function installErrorHandler(app: FastifyInstance, options: ErrorHandlerOptions): void {
  app.decorateReply('failure', null)
  app.decorateRequest('isLetIn', false)
  app.setErrorHandler((error, request, reply) => sendFailure(error, request, reply, options))
  app.setNotFoundHandler((request, reply) =>
    sendFailure(new AppError('NOT_FOUND'), request, reply, options),
  )
}

/** Logs the error and sends its answer. The body is a string, so no response schema can turn it into another error. */
export function sendFailure(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  options: ErrorHandlerOptions,
): FastifyReply {
  const failure = toFailure(error, request, options.isUnavailable)
  logFailure(failure, request, options.refusals)
  reply.failure = failure
  const { status, body } = answerFor(failure, {
    style: options.style,
    requestId: request.id,
    money: request.routeOptions.config.money,
    acceptLanguage: request.headers['accept-language'],
    complete: options.complete,
  })
  const { retryAfterSeconds = status === 503 ? unavailableRetrySeconds : undefined } = failure.extra
  if (retryAfterSeconds !== undefined) {
    reply.header('retry-after', String(Math.max(1, Math.ceil(retryAfterSeconds))))
  }
  reply
    .code(status)
    .header('cache-control', 'no-store')
    .removeHeader('etag')
    .removeHeader('last-modified')
  const page = request.routeOptions.config.errorPage?.(failure, request)
  return page === undefined
    ? reply.type('application/json; charset=utf-8').send(JSON.stringify(body))
    : reply.type('text/html; charset=utf-8').send(page)
}

function toFailure(
  error: unknown,
  request: FastifyRequest,
  isUnavailable: (error: unknown) => boolean,
): AppError {
  if (error instanceof AppError) return error
  if (error instanceof OutcomeError) {
    return withExtra(toFailure(error.cause, request, isUnavailable), error.extra)
  }
  const known = error instanceof Error && 'code' in error && frameworkCodes[String(error.code)]
  if (known) return new AppError(known, { cause: error })
  // The client disconnected, or was cut off, in the middle of its body.
  if (request.raw.errored && error === request.raw.errored) {
    return new AppError('BAD_REQUEST', { cause: error })
  }
  if (isUnavailable(error)) {
    return new AppError('SERVICE_UNAVAILABLE', { cause: error })
  }
  return new AppError('INTERNAL_ERROR', { cause: error })
}

function logFailure(failure: AppError, request: FastifyRequest, refusals: RefusalLog): void {
  const { code, cause } = failure
  const fields = { code, details: failure.details, ...(cause ? { err: cause } : {}) }
  if (failure.status >= 500) {
    request.log.error({ code, err: failure }, 'request failed')
  } else if (request.isLetIn) {
    request.log.info(fields, 'request refused')
  } else {
    refusals.note(code, (text) => request.log.info({ ...fields, req: request }, text))
  }
}
