import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { moneyOutcome } from '../errors/money-outcome.ts'
import type { OpenConnections } from './connections.ts'
import { answerFor, type ErrorStyle } from './error-body.ts'
import { commonHeaders } from './headers.ts'
import type { RefusalLog } from './refusal-log.ts'

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
    refusals,
  }: {
    connections: OpenConnections
    log: FastifyBaseLogger
    style: ErrorStyle
    refusals: RefusalLog
  },
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
  const { code } = failure
  const fields = { code, requestId, remoteAddress: socket.remoteAddress, err: error }
  if (current?.isLetIn) log.info(fields, 'request not readable')
  else refusals.note(code, (text) => log.info(fields, text))
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
