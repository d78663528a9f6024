import type { Logger } from 'pino'
import type { z } from 'zod'
import {
  createOutbound,
  type HttpMethod,
  type Outbound,
  OutboundError,
} from '../outbound/outbound.ts'
import { judgeRefusal } from './classify-refusal.ts'
import { type ProviderOperation, rowsOfRefusal } from './error-codes.ts'
import { ProviderError, parseErrorBody } from './provider-error.ts'
import type {
  CallOptions,
  ProviderCallLog,
  ProviderCallObserver,
  ProviderSettings,
} from './provider-types.ts'

type ProviderCall<T> = {
  /** Name of the call in the log and in the table of codes. */
  operation: ProviderOperation
  method: HttpMethod
  /** Put ids in with `segment`. */
  path: string
  query?: Record<string, string | number | undefined>
  token?: string
  /** Sent as X-Idempotency-Key. */
  key?: string
  /** Absent: no body at all. */
  body?: unknown
  schema: z.ZodType<T>
  /** A further condition on a 2xx answer; an answer that fails it is invalid. */
  accept?: (answer: T, status: number) => boolean
  options?: CallOptions | undefined
  /** Headers of this call, added to those of all calls. */
  headers?: Record<string, string>
}

type Download = Pick<ProviderCall<string>, 'operation' | 'path' | 'token'> & {
  signal?: AbortSignal | undefined
}

export type ProviderClient = {
  call<T>(call: ProviderCall<T>): Promise<T>
  /** One GET whose text is read in chunks. */
  download(call: Download): AsyncGenerator<string>
  /** The same client, whose calls end when `signal` aborts, except calls that have a signal of their own. */
  cuttableBy(signal: AbortSignal): ProviderClient
  close(): Promise<void>
}

/** Makes single calls to the provider: base address, credential, idempotency key, log and the schema of the answer. */
export function createClient(settings: ProviderSettings): ProviderClient {
  const clock = settings.now
  const outbound = createOutbound({
    timeoutMs: settings.timeoutMs,
    ...(clock && { now: () => clock().getTime() }),
    ...(settings.monotonicMs && { monotonicMs: settings.monotonicMs }),
    ...(settings.sleep && { sleep: settings.sleep }),
    ...(settings.random && { random: settings.random }),
    ...(settings.timer && { timer: settings.timer }),
  })
  const { apiUrl, observers = [], onDate } = settings
  const sending = { outbound, apiUrl: apiUrl.replace(/\/+$/, ''), observers, onDate }
  const cuttableBy = (signal: AbortSignal | undefined): ProviderClient => ({
    call: (call) => perform(sending, call, signal),
    download: (call) => download(sending, { ...call, signal: call.signal ?? signal }),
    cuttableBy,
    close: () => outbound.close(),
  })
  return cuttableBy(undefined)
}

/** An id as one part of a path. A dot segment is refused, because URL parsing would remove it. */
export function segment(id: string | number): string {
  if (/^\.{0,2}$/.test(String(id))) throw new RangeError('not an id')
  return encodeURIComponent(id)
}

const noCodes = { code: null, codes: [] }

type Sending = {
  outbound: Outbound
  apiUrl: string
  observers: readonly ProviderCallObserver[]
  onDate: ProviderSettings['onDate']
}

async function perform<T>(
  { outbound, apiUrl, observers, onDate }: Sending,
  call: ProviderCall<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const answer = await outbound
    .send({
      method: call.method,
      url: apiUrl + call.path + queryText(call.query),
      headers: headersOf(call),
      ...(call.body !== undefined && { body: call.body }),
      hasIdempotencyKey: call.key !== undefined,
      signal: call.options?.signal ?? signal,
      untilMs: call.options?.untilMs,
      maxAttempts: call.options?.maxAttempts,
      permit: call.options?.permit,
      judge: (status, body) => judgeRefusal(call.operation, status, body),
      onAttempt(report) {
        const { status } = report
        const { code, codes } = report.refusal === null ? noCodes : parseErrorBody(report.refusal)
        const isRefused = status !== null && status >= 400 && status < 500
        const entry: ProviderCallLog = {
          operation: call.operation,
          method: call.method,
          path: call.path,
          status,
          attempt: report.attempt,
          durationMs: report.durationMs,
          requestId: requestIdOf(report.headers),
          code,
          unknownCode: isRefused
            ? rowsOfRefusal(call.operation, report.status, codes).unknown
            : null,
          failure: report.failure,
          about: call.options?.about ?? null,
        }
        for (const observe of observers) observe(entry)
        const date = dateOf(report.headers)
        if (date) onDate?.({ date, durationMs: report.durationMs })
      },
    })
    .catch((error: unknown) => {
      throw error instanceof OutboundError ? fromOutbound(error, call.operation) : error
    })
  const parsed = call.schema.safeParse(answer.body)
  if (parsed.success && (call.accept?.(parsed.data, answer.status) ?? true)) return parsed.data
  throw new ProviderError(
    {
      kind: 'invalid_answer',
      effect: call.method === 'GET' ? 'none' : 'unknown',
      status: answer.status,
      failure: null,
      providerCode: null,
      codes: [],
      providerMessage: null,
      retryAfterSeconds: null,
      requestId: requestIdOf(answer.headers),
      attempts: answer.attempts,
    },
    parsed.error,
  )
}

async function* download(
  { outbound, apiUrl }: Sending,
  { operation, path, token, signal }: Download,
): AsyncGenerator<string> {
  const headers = headersOf({ method: 'GET', ...(token !== undefined && { token }) })
  try {
    yield* outbound.download({ url: apiUrl + path, headers, signal })
  } catch (error) {
    throw error instanceof OutboundError ? fromOutbound(error, operation) : error
  }
}

/**
 * An OutboundError as a ProviderError. `providerCode` is the code that the table of codes explains, else the main one. A 401 that a
 * row of the operation names is a refusal: the token is not its cause, so it is not renewed.
 */
function fromOutbound(error: OutboundError, operation: ProviderOperation): ProviderError {
  const { code, codes, message } = parseErrorBody(error.body)
  const [row] = rowsOfRefusal(operation, error.status, codes).rows
  const isNamed = row?.status === 401 && row.code !== 'CONNECTION_LOST'
  return new ProviderError(
    {
      kind: isNamed ? 'refused' : error.kind,
      effect: error.effect,
      provesAbsence: error.provesAbsence,
      status: error.status,
      failure: error.failure,
      providerCode: typeof row?.on === 'string' ? row.on : code,
      codes,
      providerMessage: message,
      retryAfterSeconds: error.retryAfterSeconds,
      requestId: requestIdOf(error.headers),
      attempts: error.attempts,
    },
    error.cause,
  )
}

/** The provider's own number of a request, for its support. */
function requestIdOf(headers: Record<string, string | string[] | undefined>): string | null {
  const header = headers['x-request-id']
  return (Array.isArray(header) ? header[0] : header) ?? null
}

/** The provider's time of an answer, in whole seconds. */
function dateOf({ date }: Record<string, string | string[] | undefined>): Date | null {
  const ms = typeof date === 'string' ? Date.parse(date) : Number.NaN
  return Number.isNaN(ms) ? null : new Date(ms)
}

function queryText(query: ProviderCall<unknown>['query']): string {
  if (!query) return ''
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(name, String(value))
  }
  return parameters.size === 0 ? '' : `?${parameters}`
}

/** A cancel and a total refund declare JSON without a body, as the official SDK does (provider file 10.1). */
function headersOf(
  call: Pick<ProviderCall<unknown>, 'method' | 'token' | 'key' | 'headers'>,
): Record<string, string> {
  return {
    'user-agent': 'tillbridge',
    ...(call.method === 'POST' && { 'content-type': 'application/json' }),
    ...(call.token !== undefined && { authorization: `Bearer ${call.token}` }),
    ...(call.key !== undefined && { 'x-idempotency-key': call.key }),
    ...call.headers,
  }
}

type ProviderHealth = {
  note: ProviderCallObserver
  read(): {
    status: 'ok' | 'degraded' | 'unknown'
    lastAnswerAt: Date | null
    lastFailureAt: Date | null
  }
}

/** Counts how the last calls ended. A refusal is an answer; a missing answer and a 5xx are failures. */
export function createProviderHealth(now: () => Date): ProviderHealth {
  let lastAnswerAt: Date | null = null
  let lastFailureAt: Date | null = null
  return {
    note(entry) {
      if (entry.status !== null && entry.status < 500) lastAnswerAt = now()
      else lastFailureAt = now()
    },
    read() {
      const isFailing =
        lastFailureAt !== null && (lastAnswerAt === null || lastFailureAt > lastAnswerAt)
      const status = isFailing ? 'degraded' : lastAnswerAt === null ? 'unknown' : 'ok'
      return { status, lastAnswerAt, lastFailureAt }
    },
  }
}

/** Slower calls are logged even if they succeeded. */
const slowCallMs = 2_000

/** Logs calls. Fast successful ones only at debug: the line of the request names the order. */
export function createCallLog(logger: Logger): ProviderCallObserver {
  return ({ about, ...call }) => {
    const { status, attempt, durationMs } = call
    const isFailed = status === null || status >= 500
    const isNoted = !isFailed && (status >= 400 || attempt > 1 || durationMs >= slowCallMs)
    const isUnknown = call.unknownCode !== null
    const level = isFailed || isUnknown ? 'warn' : isNoted ? 'info' : 'debug'
    if (!logger.isLevelEnabled(level)) return
    const { unknownCode, ...fields } = call
    const text = isUnknown ? 'provider call refused with a code that is not known' : 'provider call'
    logger[level](
      { ...fields, ...(isUnknown && { unknownCode }), ...about },
      isFailed ? 'provider call failed' : text,
    )
  }
}
