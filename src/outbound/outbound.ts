import { Agent, request as ask } from 'undici'
import { type Judgement, judge, kindOf, readResult } from './judge-result.ts'
import { type Effect, OutboundError } from './outbound-error.ts'
import {
  type AttemptFailure,
  defaultRetryPolicy,
  type HttpMethod,
  isWrite,
  mayPass,
  type RetryPolicy,
  repeat,
} from './retry.ts'
import { parseRetryAfter } from './retry-after.ts'
import { type AttemptResult, type AttemptTimer, attemptOnce, type Headers } from './send-attempt.ts'

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

export type DownloadRequest = Pick<OutboundRequest, 'url' | 'headers' | 'signal'>

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

type Failed = ConstructorParameters<typeof OutboundError>[0]
/** `again`: the attempt deserves another one. */
type Attempted =
  | { answer: OutboundAnswer; again?: undefined }
  | { failed: Failed; cause: unknown; again?: Pick<Failed, 'retryAfterSeconds'> | undefined }

async function send(
  agent: Agent,
  settings: OutboundSettings,
  request: OutboundRequest,
): Promise<OutboundAnswer> {
  const now = settings.now ?? Date.now
  const monotonicMs = settings.monotonicMs ?? (() => performance.now())
  const deadline = request.untilMs ?? Number.POSITIVE_INFINITY
  const minAttemptMs = Math.min(settings.timeoutMs, shortestAttemptMs)
  const isKeyed = request.hasIdempotencyKey ?? false
  let unknownEffect = false

  const attempt = async (attempts: number): Promise<Attempted> => {
    const startedAt = monotonicMs()
    const leftMs = deadline - startedAt
    const timeoutMs = Math.ceil(Math.min(settings.timeoutMs, leftMs))
    const result =
      leftMs < minAttemptMs
        ? unsent('deadline', request)
        : await attemptIfPermitted(agent, settings, request, timeoutMs)
    const read = readResult(result)
    const { headers } = result
    request.onAttempt?.({
      attempt: attempts,
      status: read.status,
      failure: read.failure,
      // Not rounded up: the end minus the duration must not be before the start.
      durationMs: Math.floor(monotonicMs() - startedAt),
      headers,
      refusal: read.success ? null : read.body,
    })
    if (read.success) return { answer: { status: read.status, headers, body: read.body, attempts } }

    const judgement = judge(read, result.ok || result.sent, request.judge)
    // An attempt without an answer may arrive after a later one was refused: no refusal proves anything about it.
    unknownEffect ||= judgement === 'ambiguous'
    const effect: Effect = isWrite(request.method) && unknownEffect ? 'unknown' : 'none'
    const retryAfterSeconds = parseRetryAfter(headers['retry-after'], now())
    const { status, failure, body } = read
    // A write repeats only under its idempotency key.
    const isRepeatable = isKeyed || !isWrite(request.method)
    return {
      failed: {
        kind: kindOf(read, effect),
        effect,
        provesAbsence: judgement === 'proof' && !unknownEffect && isKeyed,
        ...{ status, failure, body, headers, retryAfterSeconds, attempts },
      },
      cause: result.ok ? undefined : result.cause,
      again: isRepeatable && mayPass(status, failure) ? { retryAfterSeconds } : undefined,
    }
  }

  const policy = settings.policy ?? defaultRetryPolicy
  const { maxAttempts = policy.maxAttempts } = request
  const last = await repeat(attempt, {
    policy: { ...policy, maxAttempts },
    remainingMs: () => deadline - monotonicMs(),
    minAttemptMs,
    random: settings.random,
    sleep: settings.sleep,
    signal: request.signal,
  })
  if ('answer' in last) return last.answer
  throw new OutboundError(last.failed, last.cause)
}

function unsent(failure: 'deadline' | 'withheld', { url }: OutboundRequest): AttemptResult {
  const nothing = { sent: false, status: null, headers: {}, cause: undefined }
  return { ok: false, failure, url: new URL(url), ...nothing }
}

async function attemptIfPermitted(
  agent: Agent,
  { maxResponseBytes = 1_048_576, timer }: OutboundSettings,
  request: OutboundRequest,
  timeoutMs: number,
): Promise<AttemptResult> {
  const { method, url, headers, signal, permit } = request
  const body = request.body === undefined ? null : JSON.stringify(request.body)
  const mayStart = permit && (await permit())
  if (permit && !mayStart) return unsent('withheld', request)
  return attemptOnce(agent, {
    method,
    url,
    headers: {
      accept: 'application/json',
      ...(body !== null && { 'content-type': 'application/json' }),
      ...headers,
    },
    body,
    timeoutMs,
    maxBytes: maxResponseBytes,
    signal,
    mayStart,
    timer,
  })
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
