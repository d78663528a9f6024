import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import { type Dispatcher, request } from 'undici'
import { codeOf } from '../domain/error-code.ts'
import type { AttemptFailure } from './retry.ts'

export type AttemptInput = {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string | URL
  headers: Record<string, string>
  /** Null sends no body. */
  body: string | Uint8Array | null
  /** From the first step to the last byte of the answer, with redirects. */
  timeoutMs: number
  /** Largest body of an answer that is read, counted after its decompression too. */
  maxBytes: number
  signal: AbortSignal | undefined
  /** Where a redirect of this answer is followed to; a redirect is returned as it is when absent. */
  redirectTo?: ((answer: { status: number; headers: Headers }, from: URL) => URL | null) | undefined
  /** Called at the first byte of each request: false prevents the request. */
  mayStart?: (() => boolean) | undefined
  timer?: AttemptTimer | undefined
}

/** Calls `end` after `ms`, unless the returned function was called before. */
export type AttemptTimer = (
  ms: number,
  end: () => void,
  attempt: Pick<AttemptInput, 'method' | 'url' | 'headers'>,
) => () => void

export type Headers = Record<string, string | string[] | undefined>

/** `sent` is false only when no byte of the request was written. `url`: of the answer, after redirects. */
export type AttemptResult =
  | { ok: true; status: number; headers: Headers; body: Buffer; url: URL }
  | {
      ok: false
      failure: AttemptFailure
      sent: boolean
      status: number | null
      headers: Headers
      url: URL
      cause: unknown
    }

type Progress = { sent: boolean; status: number | null; headers: Headers; url: URL }

/** One request, one answer, never a throw. This is the only place that sends HTTP with a bounded answer. */
export async function attemptOnce(
  dispatcher: Dispatcher,
  input: AttemptInput,
): Promise<AttemptResult> {
  const end = new AbortController()
  const { signal } = end
  let isLate = false
  const clearTimer = (input.timer ?? pauseTolerantTimer)(
    input.timeoutMs,
    () => {
      isLate = true
      end.abort(new DOMException('The attempt took too long', 'TimeoutError'))
    },
    input,
  )
  // AbortSignal.any would do the same at several times the cost.
  const abort = () => end.abort(input.signal?.reason)
  if (input.signal?.aborted) abort()
  else input.signal?.addEventListener('abort', abort, { once: true })
  const progress: Progress = { sent: false, status: null, headers: {}, url: new URL(input.url) }
  let withheld = false
  const mayStart = () => {
    withheld = !(input.mayStart?.() ?? true)
    if (!withheld) progress.sent = true
    return !withheld
  }
  try {
    const body = await orAborted(
      signal,
      exchange(atFirstByte(dispatcher, mayStart), input, signal, progress),
    )
    const { headers, url } = progress
    // The status is always set when the body is complete.
    return { ok: true, status: progress.status as number, headers, body, url }
  } catch (cause) {
    const failure = withheld ? 'withheld' : nameFailure(cause, progress, isLate, input.signal)
    return { ok: false, failure, ...progress, cause }
  } finally {
    clearTimer()
    input.signal?.removeEventListener('abort', abort)
  }
}

/**
 * Calls `mayStart` for each request at its first byte: false prevents the request.
 *
 * undici reports the start of a request after the connection is made and before the first byte is written. Only this
 * moment proves that nothing can have arrived; error codes alone cannot.
 */
function atFirstByte(dispatcher: Dispatcher, mayStart: () => boolean): Dispatcher {
  // All that undici's `request` uses of a dispatcher; `compose` would make a proxy for each request.
  const asked: Pick<Dispatcher, 'dispatch'> = {
    dispatch: (options, handler) =>
      dispatcher.dispatch(options, new FirstByteHandler(handler, mayStart)),
  }
  return asked as Dispatcher
}

type Handler = Dispatcher.DispatchHandler
type Args<Name extends keyof Handler> = Parameters<NonNullable<Handler[Name]>>

class FirstByteHandler implements Handler {
  readonly #handler: Handler
  readonly #mayStart: () => boolean

  constructor(handler: Handler, mayStart: () => boolean) {
    this.#handler = handler
    this.#mayStart = mayStart
  }

  onRequestStart(...[controller, context]: Args<'onRequestStart'>): void {
    if (this.#mayStart()) this.#handler.onRequestStart?.(controller, context)
    else controller.abort(new Error('the right to send was lost'))
  }

  onRequestUpgrade(...args: Args<'onRequestUpgrade'>): void {
    this.#handler.onRequestUpgrade?.(...args)
  }

  onResponseStart(...args: Args<'onResponseStart'>): void {
    this.#handler.onResponseStart?.(...args)
  }

  onResponseData(...args: Args<'onResponseData'>): void {
    this.#handler.onResponseData?.(...args)
  }

  onResponseEnd(...args: Args<'onResponseEnd'>): void {
    this.#handler.onResponseEnd?.(...args)
  }

  onResponseError(...args: Args<'onResponseError'>): void {
    this.#handler.onResponseError?.(...args)
  }
}

/** A timer with this delay means that the process was paused. */
const delayedMs = 250
/** How long responses that arrived during the pause may take to be read. */
const catchUpMs = 500

/**
 * Like AbortSignal.timeout, but after a pause of the process received data is read first, although timers run before sockets.
 * A response that arrived in time must not be lost: it may contain the only valid refresh token.
 */
const pauseTolerantTimer: AttemptTimer = (ms, end) => {
  const begunMs = performance.now()
  let timer = setTimeout(() => {
    if (performance.now() - begunMs < ms + delayedMs) end()
    else timer = setTimeout(end, catchUpMs).unref()
  }, ms).unref()
  return () => clearTimeout(timer)
}

async function exchange(
  dispatcher: Dispatcher,
  input: AttemptInput,
  signal: AbortSignal,
  progress: Progress,
): Promise<Buffer> {
  for (;;) {
    const answer = await request(progress.url, {
      dispatcher,
      method: input.method,
      headers: input.headers,
      body: input.body,
      // The timer covers the whole exchange; undici's own timeouts would only end it earlier.
      headersTimeout: 0,
      bodyTimeout: 0,
      signal,
    })
    progress.status = answer.statusCode
    progress.headers = answer.headers
    const packed = await readBounded(answer.body, input.maxBytes)
    const body = await unpack(packed, answer.headers['content-encoding'], input.maxBytes)
    const status = answer.statusCode
    const target = input.redirectTo?.({ status, headers: answer.headers }, progress.url)
    if (!target) return body
    progress.url = target
  }
}

/** The body of the answer is larger than the limit. */
class OversizeError extends Error {}

async function readBounded(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  // A throw out of the loop destroys the body and with it the connection.
  for await (const chunk of body) {
    size += chunk.length
    if (size > maxBytes) throw new OversizeError()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const unpackers = new Map([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
])

/**
 * A body that does not match its header is returned as it is: the status of the answer still counts. undici's interceptor would
 * end the request as failed.
 */
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
    throw new OversizeError()
  }
}

/**
 * The result of `work`, or a rejection as soon as `signal` aborts. undici reports an abort only after the connection is
 * made, so a hanging connect is ended here.
 */
export function orAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  work.catch(() => undefined)
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', abort))
}

function nameFailure(
  cause: unknown,
  progress: Progress,
  isLate: boolean,
  caller: AbortSignal | undefined,
): AttemptFailure {
  if (caller?.aborted) return 'aborted'
  if (!progress.sent) return 'connect'
  if (isLate) return 'timeout'
  if (cause instanceof OversizeError) return 'oversize'
  return progress.status === null ? 'reset' : 'torn'
}
