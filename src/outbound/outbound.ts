import { Agent, request as ask } from 'undici'
import { type Judgement, judgeResult, kindOf, type ReadResult, readResult } from './judge-result.ts'
import { type Effect, OutboundError } from './outbound-error.ts'
import {
  type AttemptFailure,
  defaultRetryPolicy,
  type HttpMethod,
  isWrite,
  mayPass,
  type RetryPolicy,
  waitToRepeat,
} from './retry.ts'
import { parseRetryAfter } from './retry-after.ts'
import {
  type AttemptInput,
  type AttemptResult,
  type AttemptTimer,
  attemptOnce,
  type Headers,
} from './send-attempt.ts'

export type { Judgement } from './judge-result.ts'
export { type Effect, type FailureKind, OutboundError } from './outbound-error.ts'
export type { AttemptFailure, HttpMethod, RetryPolicy } from './retry.ts'
export type { AttemptTimer } from './send-attempt.ts'

export type OutboundSettings = {
  /** Longest time of one attempt. */
  timeoutMs: number
  /** Largest answer that is read; 1 MiB when absent. */
  maxResponseBytes?: number
  policy?: RetryPolicy
  /** Milliseconds since 1970, to interpret dates of the other side. */
  now?: () => number
  /** The clock of deadlines and durations. It cannot be set. */
  monotonicMs?: () => number
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  random?: () => number
  /** Ends an attempt whose time is over; for tests. */
  timer?: AttemptTimer
}

/**
 * Called before an attempt. Undefined means that it may not be sent. The returned check is repeated at the first byte, because
 * connecting may take long and the process may have been paused.
 */
export type SendPermit = () => Promise<(() => boolean) | undefined>

export type AttemptReport = {
  attempt: number
  status: number | null
  failure: AttemptFailure | null
  durationMs: number
  headers: Headers
  /** Parsed JSON of an answer that was not 2xx, else null. */
  refusal: unknown
}

export type OutboundRequest = {
  method: HttpMethod
  url: string
  headers?: Record<string, string>
  /** Sent as JSON; absent means no body. */
  body?: unknown
  /** The headers have a key under which the other side answers a repeated write with the first result. */
  hasIdempotencyKey?: boolean
  signal?: AbortSignal | undefined
  /** The deadline of all attempts and waits, by `monotonicMs`. */
  untilMs?: number | undefined
  /** 3 when absent. */
  maxAttempts?: number | undefined
  /** Judges a 4xx answer to a write by the other side's own codes; without it the status decides. */
  judge?: (status: number, body: unknown) => Judgement
  onAttempt?: (report: AttemptReport) => void
  /** Called before each attempt: whether it may be sent. */
  permit?: SendPermit | undefined
}

type OutboundAnswer = {
  status: number
  headers: Headers
  /** Parsed JSON; null for an empty body. */
  body: unknown
  attempts: number
}

type DownloadRequest = Pick<OutboundRequest, 'url' | 'headers' | 'signal'>

export type Outbound = {
  send(request: OutboundRequest): Promise<OutboundAnswer>
  /**
   * One GET whose response is read in chunks, so that memory use does not grow with it. `timeoutMs` is the longest time without data.
   * An error during the transfer is thrown to the reader.
   *
   * @throws OutboundError unless the response is a 2xx.
   */
  download(request: DownloadRequest): AsyncGenerator<string>
  /** Ends the connections after the running requests. */
  close(): Promise<void>
}

const longestConnectMs = 5_000
const shortestAttemptMs = 1_000

/**
 * An HTTP client for JSON with its own connections; redirects are not followed. `send` resolves with a 2xx whose body
 * is JSON or empty, and throws OutboundError otherwise.
 */
export function createOutbound(settings: OutboundSettings): Outbound {
  const agent = new Agent({
    connect: { timeout: Math.min(settings.timeoutMs, longestConnectMs) },
    allowH2: false,
  })
  return {
    send: (request) => send(agent, settings, request),
    download: (request) => download(agent, settings.timeoutMs, request),
    close: () => agent.close(),
  }
}

async function send(
  agent: Agent,
  settings: OutboundSettings,
  request: OutboundRequest,
): Promise<OutboundAnswer> {
  const monotonicMs = settings.monotonicMs ?? (() => performance.now())
  const deadline = request.untilMs ?? Number.POSITIVE_INFINITY
  const minAttemptMs = Math.min(settings.timeoutMs, shortestAttemptMs)
  const input = inputOf(settings, request)
  let unknownEffect = false

  for (let attempts = 1; ; attempts += 1) {
    const startedAt = monotonicMs()
    const leftMs = deadline - startedAt
    const isLate = leftMs < minAttemptMs
    const mayStart = isLate ? undefined : await request.permit?.()
    const timeoutMs = Math.ceil(Math.min(settings.timeoutMs, leftMs))
    const result =
      isLate || (request.permit && !mayStart)
        ? unsent(isLate ? 'deadline' : 'withheld', request)
        : await attemptOnce(agent, { ...input, timeoutMs, mayStart })
    const { headers } = result
    const read = readResult(result)
    request.onAttempt?.({
      attempt: attempts,
      status: read.status,
      failure: read.failure,
      // Not rounded up: the end minus the duration must not be before the start.
      durationMs: Math.floor(monotonicMs() - startedAt),
      headers,
      refusal: read.success ? null : read.body,
    })
    if (read.success) return { status: read.status, headers, body: read.body, attempts }

    const judgement = judgeResult(read, result.ok || result.sent, request.judge)
    // An attempt without an answer may arrive after a later one was refused: no refusal proves anything about it.
    unknownEffect ||= judgement === 'ambiguous'
    const isProof = judgement === 'proof' && !unknownEffect
    const proven = { isProof, effect: effectOf(request, unknownEffect) }
    const retryAfterSeconds = parseRetryAfter(headers['retry-after'], (settings.now ?? Date.now)())
    const isAgain =
      isRepeatable(request) &&
      mayPass(read.status, read.failure) &&
      (await waitToRepeat(attempts, retryAfterSeconds, {
        ...settings,
        policy: policyOf(settings, request),
        remainingMs: () => deadline - monotonicMs(),
        minAttemptMs,
        signal: request.signal,
      }))
    if (!isAgain) throw failureOf(request, result, read, { ...proven, retryAfterSeconds, attempts })
  }
}

/** What all attempts of a call send. */
function inputOf(
  { maxResponseBytes = 1_048_576, timer }: OutboundSettings,
  { method, url, headers, signal, body: json }: OutboundRequest,
): AttemptInput {
  const body = json === undefined ? null : JSON.stringify(json)
  const type = body !== null && { 'content-type': 'application/json' }
  return {
    ...{ method, url, body, signal, timer },
    headers: { accept: 'application/json', ...type, ...headers },
    maxBytes: maxResponseBytes,
  }
}

function unsent(failure: 'deadline' | 'withheld', { url }: OutboundRequest): AttemptResult {
  const nothing = { sent: false, status: null, headers: {}, cause: undefined }
  return { ok: false, failure, url: new URL(url), ...nothing }
}

/** A write repeats only under its idempotency key. */
function isRepeatable({ method, hasIdempotencyKey }: OutboundRequest): boolean {
  return hasIdempotencyKey === true || !isWrite(method)
}

function effectOf({ method }: OutboundRequest, unknownEffect: boolean): Effect {
  return isWrite(method) && unknownEffect ? 'unknown' : 'none'
}

function policyOf({ policy = defaultRetryPolicy }: OutboundSettings, request: OutboundRequest) {
  return { ...policy, maxAttempts: request.maxAttempts ?? policy.maxAttempts }
}

/** The error of a call, from its last attempt and what all attempts prove. */
function failureOf(
  { hasIdempotencyKey }: OutboundRequest,
  result: AttemptResult,
  read: ReadResult,
  all: { isProof: boolean; effect: Effect; retryAfterSeconds: number | null; attempts: number },
): OutboundError {
  const { status, failure, body } = read
  const { effect, isProof, retryAfterSeconds, attempts } = all
  return new OutboundError(
    {
      kind: kindOf(read, effect),
      effect,
      provesAbsence: isProof && hasIdempotencyKey === true,
      ...{ status, failure, body, headers: result.headers, retryAfterSeconds, attempts },
    },
    result.ok ? undefined : result.cause,
  )
}

async function* download(
  agent: Agent,
  timeoutMs: number,
  { url, headers = {}, signal }: DownloadRequest,
): AsyncGenerator<string> {
  const limits = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs, ...(signal && { signal }) }
  const answer = await ask(url, { dispatcher: agent, headers, ...limits }).catch(
    (cause: unknown) => {
      throw downloadFailure(null, {}, cause)
    },
  )
  if (answer.statusCode < 200 || answer.statusCode > 299) {
    await answer.body.dump()
    throw downloadFailure(answer.statusCode, answer.headers)
  }
  answer.body.setEncoding('utf8')
  for await (const part of answer.body) yield String(part)
}

function downloadFailure(status: number | null, headers: Headers, cause?: unknown): OutboundError {
  const failure = status === null ? 'connect' : null
  const kind = kindOf({ status, failure }, 'none')
  const nothing = { effect: 'none' as const, provesAbsence: false, body: null, attempts: 1 }
  return new OutboundError(
    { kind, status, failure, headers, retryAfterSeconds: null, ...nothing },
    cause,
  )
}
