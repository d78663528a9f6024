import { setTimeout as sleepFor } from 'node:timers/promises'
import { Agent } from 'undici'
import { type Effect, OutboundError } from './outbound-error.ts'
import {
  type AttemptFailure,
  decideRetry,
  defaultRetryPolicy,
  type HttpMethod,
  isWrite,
  type RetryPolicy,
} from './retry-decision.ts'
import {
  type AttemptResult,
  type AttemptTimer,
  attemptOnce,
  type Judgement,
  judge,
  kindOf,
  parseRetryAfter,
  readResult,
} from './send-attempt.ts'

export { type Effect, type FailureKind, OutboundError } from './outbound-error.ts'
export type { AttemptFailure, HttpMethod, RetryPolicy } from './retry-decision.ts'
export type { AttemptTimer, Judgement } from './send-attempt.ts'

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

type AnswerHeaders = Record<string, string | string[] | undefined>

export type AttemptReport = {
  attempt: number
  status: number | null
  failure: AttemptFailure | null
  durationMs: number
  headers: AnswerHeaders
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
  headers: AnswerHeaders
  /** Parsed JSON; null for an empty body. */
  body: unknown
  attempts: number
}

export type Outbound = {
  send(request: OutboundRequest): Promise<OutboundAnswer>
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
    headersTimeout: settings.timeoutMs,
    bodyTimeout: settings.timeoutMs,
    maxResponseSize: settings.maxResponseBytes ?? 1_048_576,
    allowH2: false,
  })
  return {
    send: (request) => send(agent, settings, request),
    close: () => agent.close(),
  }
}

async function send(
  agent: Agent,
  settings: OutboundSettings,
  request: OutboundRequest,
): Promise<OutboundAnswer> {
  const now = settings.now ?? Date.now
  const monotonicMs = settings.monotonicMs ?? (() => performance.now())
  const sleep = settings.sleep ?? defaultSleep
  const deadline = request.untilMs ?? Number.POSITIVE_INFINITY
  const minAttemptMs = Math.min(settings.timeoutMs, shortestAttemptMs)
  let unknownEffect = false

  for (let attempt = 1; ; attempt += 1) {
    const startedAt = monotonicMs()
    const leftMs = deadline - startedAt
    const timeoutMs = Math.ceil(Math.min(settings.timeoutMs, leftMs))
    const result =
      leftMs < minAttemptMs
        ? unsent('deadline')
        : await attemptIfPermitted(agent, request, { timeoutMs, timer: settings.timer })
    const read = readResult(result)
    const endedAt = monotonicMs()
    request.onAttempt?.({
      attempt,
      status: read.status,
      failure: read.failure,
      // Not rounded up: the end minus the duration must not be before the start.
      durationMs: Math.floor(endedAt - startedAt),
      headers: result.headers,
      refusal: read.success ? null : read.body,
    })
    if (read.success) {
      return { status: read.status, headers: result.headers, body: read.body, attempts: attempt }
    }

    const judgement = judge(read, result.ok || result.sent, request.judge)
    // An attempt without an answer may arrive after a later one was refused: no refusal proves anything about it.
    unknownEffect ||= judgement === 'ambiguous'
    const effect: Effect = isWrite(request.method) && unknownEffect ? 'unknown' : 'none'
    const retryAfterSeconds = parseRetryAfter(result.headers['retry-after'], now())
    const decision = decideRetry({
      method: request.method,
      hasIdempotencyKey: request.hasIdempotencyKey ?? false,
      status: read.status,
      failure: read.failure,
      attempt,
      maxAttempts: request.maxAttempts ?? 3,
      retryAfterSeconds,
      remainingMs: deadline - endedAt,
      minAttemptMs,
      jitter: (settings.random ?? Math.random)(),
      policy: settings.policy ?? defaultRetryPolicy,
    })
    const waited = decision.retry && (await waitUnlessAborted(sleep, decision.waitMs, request))
    if (waited) continue
    throw new OutboundError(
      {
        kind: kindOf(read, effect),
        effect,
        provesAbsence:
          judgement === 'proof' && !unknownEffect && (request.hasIdempotencyKey ?? false),
        status: read.status,
        failure: read.failure,
        body: read.body,
        headers: result.headers,
        retryAfterSeconds,
        attempts: attempt,
      },
      result.ok ? undefined : result.cause,
    )
  }
}

function unsent(failure: 'deadline' | 'withheld'): AttemptResult {
  return { ok: false, failure, sent: false, status: null, headers: {}, cause: undefined }
}

async function attemptIfPermitted(
  agent: Agent,
  { method, url, headers, body, signal, permit }: OutboundRequest,
  limit: { timeoutMs: number; timer: AttemptTimer | undefined },
): Promise<AttemptResult> {
  const text = body === undefined ? null : JSON.stringify(body)
  const mayStart = permit && (await permit())
  if (permit && !mayStart) return unsent('withheld')
  return attemptOnce(agent, {
    method,
    url,
    headers: {
      accept: 'application/json',
      ...(text !== null && { 'content-type': 'application/json' }),
      ...headers,
    },
    body: text,
    signal,
    mayStart,
    timeoutMs: limit.timeoutMs,
    timer: limit.timer,
  })
}

/** False when the caller aborted before or during the wait. */
async function waitUnlessAborted(
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>,
  waitMs: number,
  request: OutboundRequest,
): Promise<boolean> {
  if (request.signal?.aborted) return false
  try {
    await sleep(waitMs, request.signal)
  } catch (error) {
    if (request.signal?.aborted) return false
    throw error
  }
  return !request.signal?.aborted
}

async function defaultSleep(ms: number, signal?: AbortSignal): Promise<void> {
  await sleepFor(ms, undefined, signal ? { signal } : {})
}
