import type { Dispatcher } from 'undici'
import { codeOf } from '../domain/error-code.ts'
import { type Reason, ReasonError } from '../texts/reason.ts'
import { RefusedAddressError } from './guarded-agent.ts'
import { parseRetryAfter } from './retry-after.ts'
import { type AttemptInput, type AttemptResult, attemptOnce, type Headers } from './send-attempt.ts'

export type RequestMethod = AttemptInput['method']

type GuardedRequest = {
  /** From createGuardedAgent, which checks the address. */
  agent: Dispatcher
  method: RequestMethod
  url: string | URL
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** From the first step to the last byte of the answer, with redirects. Without it only the signal ends the request. */
  timeoutMs?: number
  /** Largest body of an answer that is read; 65,536 when absent. */
  maxBytes?: number
  /** A larger body is dropped and is no failure, since the request is done or refused by then. */
  mayCut?: boolean
  signal?: AbortSignal | undefined
  /** `same-origin` follows up to three for GET and HEAD; `none`, the default, returns the 3xx itself. */
  redirects?: 'none' | 'same-origin'
  /** Milliseconds of the clock, for dates in Retry-After. */
  now?: () => number
  /** Called at the first byte of each request: false prevents the request. */
  mayStart?: () => boolean
}

export type GuardedAnswer = {
  status: number
  /** Names in lower case. */
  headers: Headers
  body: Buffer
  /** Seconds; null when absent or unreadable. */
  retryAfterSeconds: number | null
  /** The body was larger than `maxBytes`, and is empty here. */
  isCut?: boolean
  /** Of the answer, after redirects. */
  url: URL
}

export type Answer = Omit<GuardedAnswer, 'url'>

type RequestFailureKind = 'network' | 'timeout' | 'too_large' | 'refused_address' | 'aborted'

/** The answer is missing or incomplete. `message` contains no header, no path and no body. */
export class RequestFailure extends ReasonError {
  override readonly name = 'RequestFailure'
  readonly kind: RequestFailureKind
  /** Of the operating system or of undici. */
  readonly code: string | undefined

  constructor(kind: RequestFailureKind, why: Reason, cause?: unknown) {
    super(why, { cause })
    this.kind = kind
    this.code = codeOf(cause)
  }
}

const maxRedirects = 3
const redirectStatuses = new Set([301, 302, 303, 307, 308])

/**
 * One HTTP request with a size limit for the answer. Resolves with every status. Redirects to another origin are never
 * followed, since headers may contain secrets and the body a customer's data.
 *
 * @throws RequestFailure when the answer is missing or incomplete.
 */
export async function guardedRequest(input: GuardedRequest): Promise<GuardedAnswer> {
  const { agent, method, body = null, timeoutMs, maxBytes = 65_536, signal } = input
  // Compression saves nothing on a local network; an answer that is compressed anyway is decompressed.
  const headers = { 'accept-encoding': 'identity', ...input.headers }
  const result = await attemptOnce(agent, {
    method,
    url: httpUrlOf(input.url),
    ...{ headers, body, timeoutMs, maxBytes, signal },
    redirectTo: input.redirects === 'same-origin' ? redirectOf(method) : undefined,
    mayStart: input.mayStart,
  })
  const isCut = !result.ok && result.failure === 'oversize' && input.mayCut === true
  const { status, headers: answered, url } = result
  if (!result.ok && !isCut) throw failureOf(result, { timeoutMs, maxBytes })
  const retryAfterSeconds = parseRetryAfter(answered['retry-after'], (input.now ?? Date.now)())
  return {
    // An answer that is too large has its status.
    status: status as number,
    headers: answered,
    body: result.ok ? result.body : Buffer.alloc(0),
    ...(isCut && { isCut }),
    retryAfterSeconds,
    url,
  }
}

/** As parseHttpUrl; a refusal is a RequestFailure. */
function httpUrlOf(url: string | URL): URL {
  try {
    return parseHttpUrl(url)
  } catch (error) {
    if (!(error instanceof RefusedAddressError)) throw error
    throw new RequestFailure('refused_address', error.why, error)
  }
}

/**
 * The parsed address, with any host.
 *
 * @throws RefusedAddressError unless it is a plain http or https address.
 */
export function parseHttpUrl(url: string | URL): URL {
  const parsed = URL.parse(String(url))
  if (!parsed) throw new RefusedAddressError({ code: 'NOT_A_URL' })
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') {
    throw new RefusedAddressError({ code: 'NOT_HTTP' })
  }
  if (parsed.username || parsed.password) {
    // undici drops them silently.
    throw new RefusedAddressError({ code: 'URL_WITH_USER' })
  }
  return parsed
}

/** Where a redirect within the origin leads, up to three times. */
function redirectOf(method: RequestMethod): AttemptInput['redirectTo'] {
  let followed = 0
  return ({ status, headers: { location } }, from) => {
    if (!redirectStatuses.has(status) || followed === maxRedirects) return null
    if (method !== 'GET' && method !== 'HEAD') return null
    const target = typeof location === 'string' ? URL.parse(location, from.href) : null
    if (target?.origin !== from.origin) return null
    followed += 1
    return parseHttpUrl(target)
  }
}

const timeoutCodes = new Set(['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'])

function failureOf(
  { failure, cause, url }: Extract<AttemptResult, { ok: false }>,
  { timeoutMs = 0, maxBytes }: { timeoutMs?: number | undefined; maxBytes: number },
): RequestFailure {
  if (failure === 'aborted') {
    return new RequestFailure('aborted', { code: 'REQUEST_GIVEN_UP' }, cause)
  }
  if (cause instanceof RefusedAddressError) {
    return new RequestFailure('refused_address', cause.why, cause)
  }
  if (failure === 'oversize') {
    return new RequestFailure('too_large', { code: 'ANSWER_TOO_LARGE', data: { bytes: maxBytes } })
  }
  if (cause instanceof DOMException && cause.name === 'TimeoutError') {
    const data = { ms: timeoutMs }
    return new RequestFailure('timeout', { code: 'NO_WHOLE_ANSWER', data }, cause)
  }
  const code = codeOf(cause)
  const place = placeOf(url)
  if (code !== undefined && timeoutCodes.has(code)) {
    return new RequestFailure('timeout', { code: 'NO_CONNECTION_IN_TIME', data: { place } }, cause)
  }
  const why: Reason =
    code === undefined
      ? { code: 'NOT_CONNECTED', data: { place } }
      : { code: 'NOT_ANSWERED', data: { place, code } }
  return new RequestFailure('network', why, cause)
}

/** Host and port. */
function placeOf({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`
}
