import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { parseTraceParent } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { AlwaysOnSampler, BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FlowTrace } from '../flows/flow-trace.ts'
import type { ProviderCallObserver } from '../provider/provider.ts'

export type Tracing = FlowTrace & {
  /** Traces the requests of a listener. Call it before adding hooks that should be part of a request. */
  observe(app: FastifyInstance): void
  recordProviderCall: ProviderCallObserver
  /** Sends the remaining spans, within some seconds. */
  close(): Promise<void>
}

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
export function startTracing({ endpoint, headers, version, log }: TracingOptions): Tracing {
  const exporter = new OTLPTraceExporter({
    url: `${endpoint}/v1/traces`,
    headers,
    timeoutMillis: sendWithinMs,
  })
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'tillbridge', 'service.version': version }),
    // A client must not decide whether its request is traced.
    sampler: new AlwaysOnSampler(),
    spanProcessors: [new BatchSpanProcessor({ exporter, exportTimeoutMillis: sendWithinMs })],
  })
  const tracer = provider.getTracer('tillbridge', version)
  const current = new AsyncLocalStorage<Span>()

  const begin = (request: FastifyRequest, route: string): Span => {
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
    return tracer.startSpan(
      `${request.method} ${route}`,
      { kind: SpanKind.SERVER, attributes },
      context,
    )
  }

  const end = (span: Span, reply: FastifyReply) => {
    const { statusCode } = reply.raw
    span.setAttribute('http.response.status_code', statusCode)
    if (reply.failureCode !== null) span.setAttribute('error.type', reply.failureCode)
    if (statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end()
  }

  /** Adds a span of work that has just ended to its request, if any. */
  const endNow = (
    name: string,
    options: { kind: SpanKind; attributes: Attributes; durationMs: number; isFailure: boolean },
  ) => {
    const { kind, attributes, durationMs, isFailure } = options
    const parent = current.getStore()
    const context = parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT
    const endedAt = Date.now()
    const span = tracer.startSpan(
      name,
      { kind, startTime: endedAt - durationMs, attributes },
      context,
    )
    if (isFailure) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end(endedAt)
  }

  return {
    observe(app) {
      app.addHook('onRequest', (request, reply, done) => {
        const { url } = request.routeOptions
        if (url === undefined || untraced.has(url)) return done()
        const span = begin(request, url)
        // After the answer, or when the client disconnected.
        reply.raw.once('close', () => end(span, reply))
        current.run(span, done)
      })
    },
    recordProviderCall({ operation, method, status, attempt, durationMs, code, failure, about }) {
      const error = code ?? failure
      endNow(`provider ${operation}`, {
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
    },
    notePoll({ flow, rowsRead, changes, durationMs, failure }) {
      endNow(`poll ${flow}`, {
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
    },
    noteAttempt({ flow, destination, items, delivered, durationMs, status, failure }) {
      endNow(`deliver ${flow}`, {
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
    },
    close: () =>
      provider.shutdown().catch((error: unknown) => {
        log.warn({ err: error }, 'last traces not sent')
      }),
  }
}
