import type { Agent } from 'undici'
import { decideRetry, type RetryPolicy } from '../../outbound/retry-decision.ts'
import { describeRefusal } from '../destinations/http-excerpt.ts'
import { type GuardedAnswer, guardedRequest, RequestFailure } from '../net/request.ts'
import { SourceError } from '../types.ts'
import { parseExactJson } from './exact-json.ts'

export type JsonClient = {
  agent: Agent
  /** Names in lower case. */
  headers: Record<string, string>
  /** Of one request, redirects included. */
  timeoutMs: number
  /** Texts that no message may show, which a server may repeat. */
  secrets: readonly string[]
  now: () => Date
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

export type JsonAnswer = {
  document: unknown
  /** The Link header. */
  link: string | string[] | undefined
  /** Of the answer, after redirects. */
  url: URL
}

/** A page is held in memory several times over while it is read: as bytes, as text and as records. */
export const maxPageBytes = 32 * 1024 * 1024
const maxAttempts = 4
/** A server that wants a longer pause than a minute is left until the next poll. */
const pauses: RetryPolicy = { baseMs: 1_000, floorMs: 100, ceilingMs: 60_000 }

/**
 * Reads JSON by GET. 408, 423, 429, 5xx, silence and broken connections are tried again, four times in all, with the
 * pause that the server asks for. Undefined when `isNothing` says so of the answer. Redirects within the origin are
 * followed. Throws SourceError or RequestFailure.
 */
export async function getJson(
  client: JsonClient,
  url: string,
  isNothing: (answer: GuardedAnswer) => boolean,
  signal: AbortSignal,
): Promise<JsonAnswer | undefined> {
  const answer = await getPatiently(client, url, signal)
  if (isNothing(answer)) return undefined
  if (answer.status !== 200) throw new SourceError(refusalOf(answer, client.secrets))
  return { document: parse(answer), link: answer.headers.link, url: answer.url }
}

export function isJson(answer: GuardedAnswer): boolean {
  const type = String(answer.headers['content-type'] ?? '')
  return /^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(type.trim())
}

async function getPatiently(
  client: JsonClient,
  url: string,
  signal: AbortSignal,
): Promise<GuardedAnswer> {
  const { agent, headers, timeoutMs, now, sleep } = client
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await guardedRequest({
      agent,
      method: 'GET',
      url,
      headers,
      timeoutMs,
      maxBytes: maxPageBytes,
      redirects: 'same-origin',
      signal,
      now: () => now().getTime(),
    }).catch((error: unknown) => {
      if (error instanceof RequestFailure && isPassing(error)) return error
      throw error
    })
    const isFailure = outcome instanceof RequestFailure
    const decision = decideRetry({
      method: 'GET',
      hasIdempotencyKey: false,
      status: isFailure ? null : outcome.status,
      failure: isFailure ? (outcome.kind === 'timeout' ? 'timeout' : 'reset') : null,
      attempt,
      maxAttempts,
      retryAfterSeconds: isFailure ? null : outcome.retryAfterSeconds,
      remainingMs: Number.POSITIVE_INFINITY,
      minAttemptMs: 0,
      // A flow has one reader at a time: there is nothing to spread.
      jitter: 1,
      policy: pauses,
    })
    if (decision.retry) await sleep(decision.waitMs, signal)
    else if (isFailure) throw outcome
    else return outcome
  }
}

function isPassing({ kind, code }: RequestFailure): boolean {
  // A header that no request can hold will not be held by the next one either.
  return kind === 'timeout' || (kind === 'network' && code !== 'UND_ERR_INVALID_ARG')
}

function refusalOf(answer: GuardedAnswer, secrets: readonly string[]): string {
  const { status, retryAfterSeconds } = answer
  const isRedirect = status >= 300 && status <= 399
  const told = [
    `HTTP ${status}`,
    describeRefusal(answer, secrets),
    isRedirect && '(redirects to another host are not followed)',
    retryAfterSeconds !== null && `(it asks for a pause of ${retryAfterSeconds} s)`,
  ]
  return told.filter(Boolean).join(' ')
}

function parse(answer: GuardedAnswer): unknown {
  const type = String(answer.headers['content-type'] ?? '')
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(type)?.[1] ?? 'utf-8'
  let text: string
  try {
    text = new TextDecoder(charset, { fatal: true }).decode(answer.body)
  } catch {
    throw new SourceError(`the answer is not text in ${charset.slice(0, 40)}`)
  }
  try {
    return parseExactJson(text)
  } catch {
    // What JSON.parse says quotes the text, which is somebody's data.
    throw new SourceError(
      answer.body.length === 0 ? 'the answer is empty' : 'the answer is not JSON',
    )
  }
}
