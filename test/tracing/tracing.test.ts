import { afterAll, beforeAll, expect, test } from 'vitest'
import { Tracing } from '../../src/tracing/tracing.ts'
import { openHttpReceiver } from '../notifications/receivers.ts'
import { jsonFlow, startTarget, startTestFlows } from '../support/flows.ts'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, charge } from '../support/till.ts'

/** Traces as a collector for OTLP over HTTP gets them. */
type Attribute = { key: string; value: Record<string, unknown> }
type Span = {
  name: string
  traceId: string
  spanId: string
  parentSpanId?: string
  attributes: Attribute[]
}

let collector: Awaited<ReturnType<typeof openHttpReceiver>>
let service: TestService
let tracing: Tracing
beforeAll(async () => {
  collector = await openHttpReceiver()
  tracing = new Tracing({
    endpoint: collector.url,
    headers: { authorization: 'Bearer collector-canary' },
    version: '1.2.3',
    log: { warn: () => undefined },
  })
  service = await startTestService({ tracing })
})
afterAll(async () => {
  await service.stop()
  await collector.close()
})

function spansOf(of: typeof collector): Span[] {
  return of
    .bodies()
    .flatMap(({ resourceSpans }) => resourceSpans)
    .flatMap(({ scopeSpans }) => scopeSpans)
    .flatMap(({ spans }) => spans) as Span[]
}

function value(span: Span | undefined, key: string): unknown {
  return Object.values(span?.attributes.find((one) => one.key === key)?.value ?? {})[0]
}

const parent = '4bf92f3577b34da6a3ce929d0e0e4736'

test('a charge is one trace: the request of the till, and in it the calls to the provider', async () => {
  const till = await openOwnShop(service, 'Trazado')
  const answer = await charge(service, till, {
    reference: 'T-1',
    headers: { traceparent: `00-${parent}-00f067aa0ba902b7-00` },
  })
  expect(answer.statusCode, answer.body).toBe(201)
  await call(service, { url: '/orders/none', token: till.key })
  await call(service, { url: '/health' })
  await tracing.close()

  expect(collector.calls.map(({ url }) => url)).toContain('/v1/traces')
  expect(collector.calls[0]?.headers.authorization).toBe('Bearer collector-canary')
  const spans = spansOf(collector)
  const own = spans.filter(({ traceId }) => traceId === parent)
  const request = own.find(({ name }) => name === 'POST /orders')
  expect(request?.parentSpanId).toBe('00f067aa0ba902b7')
  const created = own.find(({ name }) => name === 'provider order.create')
  expect(created?.parentSpanId).toBe(request?.spanId)
  expect(value(request, 'http.response.status_code')).toBe(201)
  expect(value(created, 'tillbridge.order_id')).toBe(answer.json().order_id)
  const missed = spans.find(({ name }) => name === 'GET /orders/:orderId')
  expect(value(missed, 'error.type')).toBe('NOT_FOUND')
  expect(spans.filter(({ name }) => name.includes('/health'))).toEqual([])
  const everything = collector.calls.map(({ body }) => body).join('')
  for (const canary of [till.key, 'APP_USR', 'T-1']) expect(everything).not.toContain(canary)
})

test('polls and deliveries of flows are traced, a poll inside the request that asked for it, and no key of an item', async () => {
  const receiver = await openHttpReceiver()
  const own = new Tracing({
    endpoint: receiver.url,
    headers: {},
    version: '1.2.3',
    log: { warn: () => undefined },
  })
  const target = await startTarget()
  const flows = await startTestFlows({
    service,
    tracing: own,
    files: {
      'articulos.flow.yaml': jsonFlow('articulos', target.url),
      'articulos.json': [{ id: 'KEY-CANARY', price: 1 }],
      'rotos.flow.yaml': jsonFlow('rotos', target.url),
      'rotos.json': '{ no json',
    },
  })
  await flows.call('POST', '/sync/articulos?force=true')
  await flows.delivered()
  await flows.call('POST', '/sync/rotos?force=true')
  await flows.stop()
  await target.close()
  await own.close()

  const spans = spansOf(receiver)
  const request = spans.find(({ name }) => name === 'POST /sync/:name')
  const poll = spans.find(({ name }) => name === 'poll articulos')
  expect(poll?.traceId).toBe(request?.traceId)
  expect(value(poll, 'tillbridge.changes')).toBe(1)
  const delivery = spans.find(({ name }) => name === 'deliver articulos')
  expect(value(delivery, 'tillbridge.destination')).toBe('web')
  expect(value(delivery, 'tillbridge.delivered')).toBe(1)
  expect(value(delivery, 'http.response.status_code')).toBe(200)
  const broken = spans.find(({ name }) => name === 'poll rotos')
  expect(value(broken, 'error.type')).toBe('SourceError')
  expect(JSON.stringify(receiver.bodies())).not.toContain('CANARY')
  await receiver.close()
})
