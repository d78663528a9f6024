import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { parseTraceParent } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { AlwaysOnSampler, BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FlowTrace } from '../flows/flow-trace.ts'
import type { ProviderCallLog } from '../provider/provider.ts'

type TracingOptions = {
  /** Base address of a collector for OTLP over HTTP. */
  endpoint: string
  headers: Record<string, string>
  version: string
  log: { warn(fields: object, message: string): void }
}

/** Monitoring reads them every few seconds: their traces would hide the others. */
const untraced: ReadonlySet<string> = new Set(['/health', '/metrics'])
/** A collector that hangs must not delay a stop. */
const sendWithinMs = 5_000

/**
 * Traces by OpenTelemetry: a span for each request and inside it one for each attempt of a provider call; one for each
 * poll of a flow, inside the request that started it if any; one for each attempt of a delivery. Nothing is global, and
 * nothing is loaded unless the setting asks for it. Spans contain routes, codes, order ids and flows; no token, body,
 * query or item key. No trace header is sent to other services.
 */
export class Tracing implements FlowTrace {
  readonly #provider: TracerProvider
  readonly #tracer: Tracer
  readonly #current = new AsyncLocalStorage<Span>()
  readonly #log: TracingOptions['log']

  constructor({ endpoint, headers, version, log }: TracingOptions) {
    const exporter = new OTLPTraceExporter({
      url: `${endpoint}/v1/traces`,
      headers,
      timeoutMillis: sendWithinMs,
    })
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        'service.name': 'tillbridge',
        'service.version': version,
      }),
      // A client must not decide whether its request is traced.
      sampler: new AlwaysOnSampler(),
      spanProcessors: [new BatchSpanProcessor({ exporter, exportTimeoutMillis: sendWithinMs })],
    })
    this.#tracer = this.#provider.getTracer('tillbridge', version)
    this.#log = log
  }

  /** Runs what follows of a request of a listener inside its trace. */
  traceRequest(request: FastifyRequest, reply: FastifyReply, proceed: () => void): void {
    const { url } = request.routeOptions
    if (url === undefined || untraced.has(url)) {
      proceed()
      return
    }
    const span = this.#begin(request, url)
    // After the answer, or when the client disconnected.
    reply.raw.once('close', () => end(span, reply))
    this.#current.run(span, proceed)
  }

  recordProviderCall(entry: ProviderCallLog): void {
    const { operation, method, status, attempt, durationMs, code, failure, about } = entry
    const error = code ?? failure
    this.#addEnded(`provider ${operation}`, {
      kind: SpanKind.CLIENT,
      durationMs,
      isFailure: status === null || status >= 500,
      attributes: {
        'http.request.method': method,
        'tillbridge.operation': operation,
        'tillbridge.attempt': attempt,
        ...(status !== null && { 'http.response.status_code': status }),
        ...(error !== null && { 'error.type': error }),
        ...(about && {
          'tillbridge.order_id': about.orderId,
          'tillbridge.source': about.source,
        }),
      },
    })
  }

  notePoll(poll: Parameters<FlowTrace['notePoll']>[0]): void {
    const { flow, rowsRead, changes, durationMs, failure } = poll
    this.#addEnded(`poll ${flow}`, {
      kind: SpanKind.INTERNAL,
      durationMs,
      isFailure: failure !== null,
      attributes: {
        'tillbridge.flow': flow,
        'tillbridge.rows_read': rowsRead,
        'tillbridge.changes': changes,
        ...(failure !== null && { 'error.type': failure }),
      },
    })
  }

  noteAttempt(attempt: Parameters<FlowTrace['noteAttempt']>[0]): void {
    const { flow, destination, items, delivered, durationMs, status, failure } = attempt
    this.#addEnded(`deliver ${flow}`, {
      kind: SpanKind.CLIENT,
      durationMs,
      isFailure: failure !== null,
      attributes: {
        'tillbridge.flow': flow,
        'tillbridge.destination': destination,
        'tillbridge.items': items,
        'tillbridge.delivered': delivered,
        ...(status !== null && { 'http.response.status_code': status }),
        ...(failure !== null && { 'error.type': failure }),
      },
    })
  }

  /** Sends the remaining spans, within some seconds. */
  async close(): Promise<void> {
    try {
      await this.#provider.shutdown()
    } catch (error) {
      this.#log.warn({ err: error }, 'last traces not sent')
    }
  }

  #begin(request: FastifyRequest, route: string): Span {
    const header = request.headers.traceparent
    const parent = typeof header === 'string' ? parseTraceParent(header) : null
    const context = parent
      ? trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: true })
      : ROOT_CONTEXT
    const attributes = {
      'http.request.method': request.method,
      'http.route': route,
      'tillbridge.request_id': request.id,
    }
    const options = { kind: SpanKind.SERVER, attributes }
    return this.#tracer.startSpan(`${request.method} ${route}`, options, context)
  }

  /** Adds a span of work that has just ended to its request, if any. */
  #addEnded(
    name: string,
    work: { kind: SpanKind; attributes: Attributes; durationMs: number; isFailure: boolean },
  ): void {
    const { kind, attributes, durationMs, isFailure } = work
    const parent = this.#current.getStore()
    const context = parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT
    const endedAt = Date.now()
    const options = { kind, startTime: endedAt - durationMs, attributes }
    const span = this.#tracer.startSpan(name, options, context)
    if (isFailure) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end(endedAt)
  }
}

function end(span: Span, reply: FastifyReply): void {
  const { statusCode } = reply.raw
  span.setAttribute('http.response.status_code', statusCode)
  if (reply.failure) span.setAttribute('error.type', reply.failure.code)
  if (statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
  span.end()
}
