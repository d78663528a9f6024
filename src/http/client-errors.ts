import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyInstance, FastifySchemaCompiler } from 'fastify'
import type { z } from 'zod'
import { AppError, type ErrorDetail } from '../errors/app-error.ts'
import { moneyOutcome } from '../errors/money-outcome.ts'
import type { Connections } from './connections.ts'
import { answerFor, type ErrorStyle } from './error-body.ts'
import { commonHeaders } from './headers.ts'

/** An attacker's body of many thousand unknown keys must not cause an answer of the same size. */
const maxDetails = 50
const maxPathLength = 200

/** The `path` of a detail when the whole part is wrong, for example a missing body. */
const partNames: Readonly<Record<string, string>> = { querystring: 'query' }

/** Validates requests with Zod. A refusal is the 422 with `details`, whose paths are dotted: `pos.0.name`. */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> = ({
  schema,
  httpPart = 'body',
}) => {
  const part = partNames[httpPart] ?? httpPart
  return (data: unknown) => {
    const result = schema.safeParse(data)
    if (result.success) return { value: result.data }
    const details = result.error.issues.flatMap((issue) => detailsOf(issue, part))
    return { error: new AppError('VALIDATION_ERROR', { details: details.slice(0, maxDetails) }) }
  }
}

function detailsOf(issue: z.core.$ZodIssue, part: string): ErrorDetail[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: dotted([...issue.path, key], part),
      message: 'is not a known field',
    }))
  }
  return [{ path: dotted(issue.path, part), message: issue.message }]
}

function dotted(path: readonly PropertyKey[], part: string): string {
  return path.length === 0 ? part : path.map(String).join('.').slice(0, maxPathLength)
}

/**
 * Answers a request that Node could not read, in the documented shape, then closes the socket. 408: it did not arrive
 * in time. 400: broken HTTP.
 */
export function answerClientError(
  error: Error & { code?: string },
  socket: Socket,
  {
    connections,
    log,
    style,
  }: { connections: Connections; log: FastifyBaseLogger; style: ErrorStyle },
): void {
  const requests = [...connections.requestsOn(socket)]
  // An earlier request on this socket has no answer yet. The client would take this text for that answer, and believe
  // that its charge was refused.
  const answering = requests.some((request) => request.raw.complete)
  if (error.code === 'ECONNRESET' || !socket.writable || answering) {
    socket.destroy()
    return
  }
  const slow = error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  const [current] = requests
  const requestId = current?.id ?? randomUUID()
  // A request whose path did not arrive may have been a charge, perhaps a repeated one.
  const isUnread = slow && current === undefined
  const failure = new AppError(slow ? 'REQUEST_TIMEOUT' : 'BAD_REQUEST', {
    ...(isUnread && { extra: moneyOutcome('notBegun') }),
  })
  log.info(
    { code: failure.code, requestId, remoteAddress: socket.remoteAddress, err: error },
    'request not readable',
  )
  const { status, body } = answerFor(failure, {
    style,
    requestId,
    money: current?.routeOptions.config.money,
  })
  const text = JSON.stringify(body)
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'content-type: application/json; charset=utf-8',
      `content-length: ${Buffer.byteLength(text)}`,
      'cache-control: no-store',
      ...Object.entries(commonHeaders(requestId)).map(([name, value]) => `${name}: ${value}`),
      'connection: close',
      '',
      text,
    ].join('\r\n'),
    // A client that keeps sending would otherwise keep its side open.
    () => socket.destroy(),
  )
}

/**
 * Node refuses two requests by itself, with an empty answer and without our headers: one without Host, and one with an
 * unknown Expect. Here the first is refused in the documented shape; the second may be served (RFC 9110, 10.1.1).
 */
export function answerInsteadOfNode(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ headers, raw }) => {
    if (headers.host === undefined && raw.httpVersion === '1.1') {
      throw new AppError('BAD_REQUEST', { message: 'The header Host is missing' })
    }
  })
  app.server.on('checkExpectation', (request, response) =>
    app.server.emit('request', request, response),
  )
}
