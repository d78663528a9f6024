import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import type { Dispatcher } from 'undici'
import { codeOf } from '../domain/error-code.ts'
import type { AttemptFailure } from './retry.ts'

export type AttemptInput = {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string | URL
  headers: Record<string, string>
  /** Null sends no body. */
  body: string | Uint8Array | null
  /** From the first step to the last byte of the answer, with redirects. Without it only the signal ends the attempt. */
  timeoutMs?: number | undefined
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

/** One request, one answer, never a throw. This is the only place that sends HTTP with a bounded answer. */
export async function attemptOnce(
  dispatcher: Dispatcher,
  input: AttemptInput,
): Promise<AttemptResult> {
  const { timeoutMs, signal: caller } = input
  const exchange = new Exchange(dispatcher, input)
  let isLate = false
  const onLate = () => {
    isLate = true
    exchange.end(new DOMException('The attempt took too long', 'TimeoutError'))
  }
  const clearTimer =
    timeoutMs === undefined
      ? undefined
      : (input.timer ?? pauseTolerantTimer)(timeoutMs, onLate, input)
  const abort = () => exchange.end(caller?.reason)
  if (caller?.aborted) abort()
  else caller?.addEventListener('abort', abort, { once: true })
  try {
    const body = await exchange.run()
    const { headers, url } = exchange
    // The status is always set when the body is complete.
    return { ok: true, status: exchange.status as number, headers, body, url }
  } catch (cause) {
    const { sent, status, headers, url } = exchange
    const failure = exchange.isWithheld ? 'withheld' : nameFailure(cause, exchange, isLate, caller)
    return { ok: false, failure, sent, status, headers, url, cause }
  } finally {
    clearTimer?.()
    caller?.removeEventListener('abort', abort)
  }
}

/** A request and those that follow from its redirects. */
class Exchange {
  sent = false
  status: number | null = null
  headers: Headers = {}
  url: URL
  isWithheld = false
  readonly #dispatcher: Dispatcher
  readonly #input: AttemptInput
  #reader: AnswerReader | undefined
  #ended: { reason: unknown } | undefined

  constructor(dispatcher: Dispatcher, input: AttemptInput) {
    this.#dispatcher = dispatcher
    this.#input = input
    this.url = input.url instanceof URL ? input.url : new URL(input.url)
  }

  async run(): Promise<Buffer> {
    const { maxBytes, redirectTo } = this.#input
    for (;;) {
      this.#throwIfEnded()
      const reader = new AnswerReader(this, maxBytes)
      this.#reader = reader
      this.#dispatcher.dispatch(this.#options(), reader)
      const packed = await reader.answer
      const encoding = this.headers['content-encoding']
      const body = encoding === undefined ? packed : await unpack(packed, encoding, maxBytes)
      this.#throwIfEnded()
      const answer = { status: this.status as number, headers: this.headers }
      const target = redirectTo?.(answer, this.url)
      if (!target) return body
      this.url = target
    }
  }

  /** Rejects `run`, also while a connection is being made. */
  end(reason: unknown): void {
    this.#ended ??= { reason }
    this.#reader?.end(reason)
  }

  /** Called at the first byte of each request. */
  mayStart(): boolean {
    this.isWithheld = !(this.#input.mayStart?.() ?? true)
    if (!this.isWithheld) this.sent = true
    return !this.isWithheld
  }

  #options(): Dispatcher.DispatchOptions {
    const { method, headers, body } = this.#input
    const { origin, pathname, search } = this.url
    return {
      ...{ origin, path: pathname + search, method, headers, body },
      // The attempt has its own limit; undici's would only end it earlier.
      headersTimeout: 0,
      bodyTimeout: 0,
    }
  }

  #throwIfEnded(): void {
    if (this.#ended) throw this.#ended.reason
  }
}

type Controller = Dispatcher.DispatchController

/**
 * Reads one answer. undici reports the start of a request after the connection is made and before the first byte is written.
 * Only this moment proves that nothing can have arrived; error codes alone cannot. undici's `request` would make a stream for
 * each answer.
 */
class AnswerReader implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange
  readonly #maxBytes: number
  readonly #answer = Promise.withResolvers<Buffer>()
  #controller: Controller | undefined
  #isEnded = false
  #chunks: Buffer[] = []
  #size = 0

  constructor(exchange: Exchange, maxBytes: number) {
    this.#exchange = exchange
    this.#maxBytes = maxBytes
  }

  get answer(): Promise<Buffer> {
    return this.#answer.promise
  }

  end(reason: unknown): void {
    this.#isEnded = true
    this.#controller?.abort(reason as Error)
    this.#answer.reject(reason)
  }

  onRequestStart(controller: Controller): void {
    if (this.#isEnded) controller.abort(new Error('the attempt was given up'))
    else if (this.#exchange.mayStart()) this.#controller = controller
    else controller.abort(new Error('the right to send was lost'))
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    // 1xx announce the answer.
    if (status < 200 || this.#isEnded) return
    this.#exchange.status = status
    this.#exchange.headers = headers
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#size += chunk.length
    if (this.#size <= this.#maxBytes) this.#chunks.push(chunk)
    else controller.abort(new OversizeError())
  }

  onResponseEnd(): void {
    this.#answer.resolve(Buffer.concat(this.#chunks))
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.#answer.reject(error)
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

/** The body of the answer is larger than the limit. */
class OversizeError extends Error {}

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
  encoding: string | string[],
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

/** The result of `work`, or a rejection as soon as `signal` aborts. */
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
  progress: Pick<Exchange, 'sent' | 'status'>,
  isLate: boolean,
  caller: AbortSignal | undefined,
): AttemptFailure {
  if (caller?.aborted) return 'aborted'
  if (!progress.sent) return 'connect'
  if (isLate) return 'timeout'
  if (cause instanceof OversizeError) return 'oversize'
  return progress.status === null ? 'reset' : 'torn'
}
