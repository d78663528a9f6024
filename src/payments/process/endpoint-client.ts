import type { AddressPolicy } from '../../outbound/address-class.ts'
import { createGuardedAgent } from '../../outbound/guarded-agent.ts'
import {
  type GuardedAnswer,
  guardedRequest,
  RequestFailure,
} from '../../outbound/guarded-request.ts'
import { webhookHeaders } from '../../outbound/standard-webhook.ts'
import type { AttemptRow } from '../../repositories/events/event-attempts.ts'

/** The standard's shortest limit: a receiver stores an event and answers, and works on it afterwards. */
const timeoutMs = 15_000
/** The characters of an answer that are kept. */
export const answerAtMost = 1_000

/** What an endpoint is sent. Two attempts with one id are the same message. */
type EndpointMessage = { id: string; body: object }

/** Where to, and what signs it. */
export type EndpointTarget = { url: string; keys: readonly Buffer[] }

/** How an attempt ended. */
export type SentMessage = {
  at: Date
  durationMs: number
  /** Null without a complete answer; then `failure` says why. */
  status: number | null
  failure: AttemptRow['failure']
  answer: string | null
  retryAfterSeconds: number | null
}

/** Sends signed messages to endpoints, over connections of its own. */
export type EndpointClient = {
  addresses: AddressPolicy
  /** One request. Undefined when `signal` ended it, or `mayStart` prevented it at its first byte. */
  send(
    target: EndpointTarget,
    message: EndpointMessage,
    may?: { signal: AbortSignal; mayStart: () => boolean },
  ): Promise<SentMessage | undefined>
  close(): Promise<void>
}

type ClientDeps = {
  now: () => Date
  stopwatch: () => number
  /** Called with each attempt that has ended. */
  recordAttempt: (sent: SentMessage) => void
}

export function createEndpointClient(
  { now, stopwatch, recordAttempt }: ClientDeps,
  addresses: AddressPolicy,
): EndpointClient {
  const agent = createGuardedAgent(addresses)
  return {
    addresses,
    async send({ url, keys }, message, may) {
      let isPrevented = false
      const at = now()
      const startedAt = stopwatch()
      const body = JSON.stringify(message.body)
      const answer = await guardedRequest({
        agent,
        method: 'POST',
        url,
        headers: {
          'content-type': 'application/json',
          'user-agent': 'tillbridge',
          ...webhookHeaders(keys, { id: message.id, at, body }),
        },
        body,
        timeoutMs,
        mayCut: true,
        signal: may?.signal,
        mayStart() {
          isPrevented = may?.mayStart() === false
          return !isPrevented
        },
        now: () => now().getTime(),
      }).catch((error: unknown) => {
        if (error instanceof RequestFailure) return error
        throw error
      })
      const isFailure = answer instanceof RequestFailure
      if (isFailure && (isPrevented || answer.kind === 'aborted')) return undefined
      const took = { at, durationMs: Math.round(stopwatch() - startedAt) }
      const sent = { ...took, ...(isFailure ? withoutAnswer(answer) : withAnswer(answer)) }
      recordAttempt(sent)
      return sent
    },
    close: () => agent.destroy(),
  }
}

type Outcome = Omit<SentMessage, 'at' | 'durationMs'>

function withAnswer({ status, body, retryAfterSeconds }: GuardedAnswer): Outcome {
  return { status, failure: null, answer: textOf(body), retryAfterSeconds }
}

function withoutAnswer({ kind }: RequestFailure): Outcome {
  const failure = kind === 'timeout' || kind === 'refused_address' ? kind : 'network'
  return { status: null, failure, answer: null, retryAfterSeconds: null }
}

/** The database takes no zero bytes. */
function textOf(body: Buffer): string {
  const text = body.toString('utf8').replaceAll('\0', '')
  return Array.from(text).slice(0, answerAtMost).join('')
}
