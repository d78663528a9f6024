import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { OpenRequests } from '../http/open-request-limit.ts'
import { placeOwner } from './authentication.ts'

/** Retry-After for a program whose long-poll was not accepted because of the limit. */
const askAgainSeconds = 2

/**
 * Takes a place for a long-poll. Its signal aborts when the client disconnects or the service stops. Beyond the limit there is none, and
 * the answer gets a Retry-After: the present state is answered at once, since during a payment a till needs it more than a refusal.
 */
export function openWait(
  { shutdown }: FastifyInstance,
  request: FastifyRequest,
  reply: FastifyReply,
  waits: OpenRequests,
): { signal: AbortSignal; end(): void } | undefined {
  const leave = waits.take(placeOwner(request))
  if (typeof leave !== 'function') {
    reply.header('retry-after', String(askAgainSeconds))
    return undefined
  }
  const ended = new AbortController()
  const abort = () => ended.abort()
  request.raw.once('close', abort)
  const forget = shutdown.onClosing(abort)
  return {
    signal: ended.signal,
    end() {
      forget()
      leave()
    },
  }
}
