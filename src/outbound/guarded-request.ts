import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import { type Dispatcher, request } from 'undici'
import { codeOf } from '../domain/error-code.ts'
import { type Reason, ReasonError } from '../texts/reason.ts'
import { RefusedAddressError } from './guarded-agent.ts'
import { atFirstByte, parseRetryAfter } from './send-attempt.ts'

export type RequestMethod = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export type GuardedRequest = {
  /** From createGuardedAgent, which checks the address. */
  agent: Dispatcher
  method: RequestMethod
  url: string | URL
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** From the first step to the last byte of the answer, with redirects. */
  timeoutMs: number
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
  headers: Record<string, string | string[] | undefined>
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
  const clock = AbortSignal.timeout(input.timeoutMs)
  const signal = input.signal ? AbortSignal.any([clock, input.signal]) : clock
  try {
    return await orAborted(signal, followRedirects(input, signal))
  } catch (error) {
    throw failureOf(error, clock, input)
  }
}

async function followRedirects(input: GuardedRequest, signal: AbortSignal): Promise<GuardedAnswer> {
  let url = parseHttpUrl(input.url)
  for (let followed = 0; ; followed += 1) {
    const answer = await once(input, url, signal)
    const target = followed < maxRedirects ? redirectTarget(input, answer, url) : null
    if (!target) return answer
    url = target
  }
}

async function once(input: GuardedRequest, url: URL, signal: AbortSignal): Promise<GuardedAnswer> {
  const answer = await request(url, {
    dispatcher: input.mayStart ? atFirstByte(input.agent, input.mayStart) : input.agent,
    method: input.method,
    // Compression saves nothing on a local network; an answer that is compressed anyway is decompressed below.
    headers: { 'accept-encoding': 'identity', ...input.headers },
    body: input.body ?? null,
    // `timeoutMs` covers the whole exchange; undici's own timeouts would only end it earlier.
    headersTimeout: 0,
    bodyTimeout: 0,
    signal,
  })
  const { statusCode: status, headers } = answer
  const nowMs = (input.now ?? Date.now)()
  const retryAfterSeconds = parseRetryAfter(headers['retry-after'], nowMs)
  const maxBytes = input.maxBytes ?? 65_536
  try {
    const packed = await readBounded(answer, maxBytes)
    const body = await unpack(packed, headers['content-encoding'], maxBytes)
    return { status, headers, body, retryAfterSeconds, url }
  } catch (error) {
    const isJustLarge = error instanceof RequestFailure && error.kind === 'too_large'
    if (!input.mayCut || !isJustLarge) throw error
    return { status, headers, body: Buffer.alloc(0), isCut: true, retryAfterSeconds, url }
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

const unpackers = new Map([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
])

/** A body that does not match its header is returned as it is: the status of the answer still counts. */
async function unpack(
  body: Buffer,
  encoding: string | string[] | undefined,
  maxBytes: number,
): Promise<Buffer> {
  const unpacker = unpackers.get(String(encoding).trim().toLowerCase())
  if (!unpacker || body.length === 0) return body
  try {
    return await unpacker(body, { maxOutputLength: maxBytes })
  } catch (error) {
    if (codeOf(error) !== 'ERR_BUFFER_TOO_LARGE') return body
    throw tooLarge(maxBytes)
  }
}

function tooLarge(maxBytes: number): RequestFailure {
  return new RequestFailure('too_large', { code: 'ANSWER_TOO_LARGE', data: { bytes: maxBytes } })
}

async function readBounded(answer: Dispatcher.ResponseData, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  // A throw out of the loop destroys the body and with it the connection.
  for await (const chunk of answer.body) {
    size += chunk.length
    if (size > maxBytes) throw tooLarge(maxBytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function redirectTarget(input: GuardedRequest, answer: GuardedAnswer, from: URL): URL | null {
  if (input.redirects !== 'same-origin' || !redirectStatuses.has(answer.status)) return null
  if (input.method !== 'GET' && input.method !== 'HEAD') return null
  const { location } = answer.headers
  const target = typeof location === 'string' ? URL.parse(location, from.href) : null
  return target?.origin === from.origin ? parseHttpUrl(target) : null
}

/**
 * The result of `work`, or a rejection as soon as `signal` aborts. undici reports an abort only after the connection is
 * made, so a hanging connect is ended here.
 */
export function orAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  work.catch(() => undefined)
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', abort))
}

const timeoutCodes = new Set(['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'])

function failureOf(
  error: unknown,
  clock: AbortSignal,
  input: Pick<GuardedRequest, 'signal' | 'timeoutMs'>,
): RequestFailure {
  if (error instanceof RequestFailure) return error
  if (input.signal?.aborted) {
    return new RequestFailure('aborted', { code: 'REQUEST_GIVEN_UP' }, error)
  }
  if (error instanceof RefusedAddressError) {
    return new RequestFailure('refused_address', error.why, error)
  }
  if (clock.aborted) {
    const data = { ms: input.timeoutMs }
    return new RequestFailure('timeout', { code: 'NO_WHOLE_ANSWER', data }, error)
  }
  const code = codeOf(error)
  if (code !== undefined && timeoutCodes.has(code)) {
    return new RequestFailure('timeout', { code: 'NO_CONNECTION_IN_TIME' }, error)
  }
  const why: Reason =
    code === undefined ? { code: 'NOT_CONNECTED' } : { code: 'NOT_ANSWERED', data: { code } }
  return new RequestFailure('network', why, error)
}
