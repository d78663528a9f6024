import { type Dispatcher, request } from 'undici'
import type { Effect, FailureKind } from './outbound-error.ts'
import type { AttemptFailure, HttpMethod } from './retry-decision.ts'

/**
 * What a refusal proves about this and earlier attempts of the same write. `proof`: none of them had an effect.
 * `silent`: it had no effect itself and proves nothing about the others. `ambiguous`: an effect may exist.
 */
export type Judgement = 'proof' | 'silent' | 'ambiguous'

type ReadResult =
  | { success: true; status: number; failure: null; body: unknown }
  | { success: false; status: number | null; failure: AttemptFailure | null; body: unknown }

/** A refusal counts by its status even when its body is incomplete or no JSON; a success does not. */
export function readResult(result: AttemptResult): ReadResult {
  if (!result.ok) {
    const refused = result.status !== null && (result.status < 200 || result.status > 299)
    if (refused) return { success: false, status: result.status, failure: null, body: null }
    return { success: false, status: null, failure: result.failure, body: null }
  }
  const json = parseJson(result.text)
  if (result.status < 200 || result.status > 299) {
    return { success: false, status: result.status, failure: null, body: json ?? null }
  }
  if (json === undefined) return { success: false, status: null, failure: 'not_json', body: null }
  return { success: true, status: result.status, failure: null, body: json }
}

function parseJson(text: string): unknown {
  if (text.trim() === '') return null
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** `byCode` judges the 4xx answers that the other side's own codes explain; without it their status decides. */
export function judge(
  read: ReadResult,
  sent: boolean,
  byCode: ((status: number, body: unknown) => Judgement) | undefined,
): Judgement {
  if (read.status === null) return sent ? 'ambiguous' : 'silent'
  if (read.status < 400 || read.status >= 500 || read.status === 408) return 'ambiguous'
  return byCode?.(read.status, read.body) ?? judgeByStatus(read.status)
}

/** 423 means that a request under the same key may still run. */
function judgeByStatus(status: number): Judgement {
  if (status === 423) return 'ambiguous'
  return status === 401 || status === 429 ? 'silent' : 'proof'
}

/** The failure kind of a call from its last attempt. */
export function kindOf(read: ReadResult, effect: Effect): FailureKind {
  if (read.failure === 'oversize' || read.failure === 'not_json') return 'invalid_answer'
  const lost = effect === 'unknown' ? 'ambiguous' : 'unreachable'
  if (read.status === null || read.status >= 500 || read.status === 408) return lost
  if (read.status < 400) return 'invalid_answer'
  if (read.status === 401) return 'unauthorized'
  return read.status === 429 ? 'rate_limited' : 'refused'
}

/**
 * Calls `mayStart` for each request at its first byte: false prevents the request.
 *
 * undici reports the start of a request after the connection is made and before the first byte is written. Only this
 * moment proves that nothing can have arrived; error codes alone cannot.
 */
export function atFirstByte(dispatcher: Dispatcher, mayStart: () => boolean): Dispatcher {
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

type AttemptInput = {
  method: HttpMethod
  url: string
  headers: Record<string, string>
  /** JSON text; null sends no body. */
  body: string | null
  timeoutMs: number
  signal: AbortSignal | undefined
  /** Called once, before the first byte: false prevents the request. */
  mayStart?: (() => boolean) | undefined
  timer?: AttemptTimer | undefined
}

/** Calls `end` after `ms`, unless the returned function was called before. */
export type AttemptTimer = (
  ms: number,
  end: () => void,
  attempt: Pick<AttemptInput, 'method' | 'url' | 'headers'>,
) => () => void

type Headers = Record<string, string | string[] | undefined>

/** `sent` is false only when no byte of the request was written. */
export type AttemptResult =
  | { ok: true; status: number; headers: Headers; text: string }
  | {
      ok: false
      failure: AttemptFailure
      sent: boolean
      status: number | null
      headers: Headers
      cause: unknown
    }

/** One request, one answer, never a throw. Redirects are not followed; the whole attempt ends at `timeoutMs`. */
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
  const progress = { sent: false, status: null as number | null, headers: {} as Headers }
  let withheld = false
  const mayStart = () => {
    withheld = !(input.mayStart?.() ?? true)
    if (!withheld) progress.sent = true
    return !withheld
  }
  try {
    const text = await orAborted(
      signal,
      exchange(atFirstByte(dispatcher, mayStart), input, signal, progress),
    )
    // The status is always set when the text is complete.
    return { ok: true, status: progress.status as number, headers: progress.headers, text }
  } catch (cause) {
    const failure = withheld ? 'withheld' : nameFailure(cause, progress, isLate, input.signal)
    return { ok: false, failure, ...progress, cause }
  } finally {
    clearTimer()
    input.signal?.removeEventListener('abort', abort)
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
  progress: { status: number | null; headers: Headers },
): Promise<string> {
  const answer = await request(input.url, {
    dispatcher,
    method: input.method,
    headers: input.headers,
    body: input.body,
    signal,
  })
  progress.status = answer.statusCode
  progress.headers = answer.headers
  return answer.body.text()
}

/** undici reports an abort only after the connection is made, so a hanging connect is ended here. */
function orAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  work.catch(() => undefined)
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', abort))
}

const timeoutCodes: ReadonlySet<unknown> = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
])

function nameFailure(
  cause: unknown,
  progress: { sent: boolean; status: number | null },
  isLate: boolean,
  caller: AbortSignal | undefined,
): AttemptFailure {
  if (caller?.aborted) return 'aborted'
  if (!progress.sent) return 'connect'
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  if (isLate || timeoutCodes.has(code)) return 'timeout'
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return 'oversize'
  return progress.status === null ? 'reset' : 'torn'
}

/**
 * Seconds of a `Retry-After` header: a number of seconds or an HTTP date (RFC 9110, 10.2.3); null when absent or
 * unreadable. A date in the past is 0.
 */
export function parseRetryAfter(
  header: string | string[] | undefined,
  nowMs: number,
): number | null {
  const text = (Array.isArray(header) ? header[0] : header)?.trim()
  if (!text) return null
  if (/^[0-9]{1,9}$/.test(text)) return Number(text)
  if (!/^[A-Za-z]{3,9},? /.test(text)) return null
  const at = Date.parse(text)
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - nowMs) / 1000))
}
