import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  createEventReader,
  type EventItem,
  type EventSource,
} from '../../src/payments/process/event-source.ts'
import { type OpenStream, openStream } from '../support/event-stream.ts'
import { cancel, deliver, openOwnShop, orderRow } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, charge, type Till } from '../support/till.ts'

let service: TestService
let acme: Till
let other: Till
const streams: OpenStream[] = []
beforeAll(async () => {
  service = await startTestService({ streams: { pollMs: 50 } })
  acme = await openOwnShop(service, 'acme')
  other = await openOwnShop(service, 'other')
})
afterEach(() => {
  for (const stream of streams.splice(0)) stream.disconnect()
})
afterAll(() => service.stop())

/** A stream that has sent its first resync: from here on it sends each event. */
async function follow(token: string, query = '', at = service) {
  const stream = await openStream(at.app, `/events${query}`, { 'x-api-token': token })
  streams.push(stream)
  expect(await stream.next()).toEqual({ event: 'resync', data: {} })
  return stream
}

async function chargeAndCancel(till: Till, reference: string): Promise<string> {
  const { order_id } = (await charge(service, till, { reference })).json()
  await cancel(service, till, order_id)
  return order_id
}

/** The events of a stream up to the end of this order, that one included. */
async function eventsUntil(stream: OpenStream, orderId: string) {
  const events: { event: string; data: Record<string, unknown> }[] = []
  for (;;) {
    const next = await stream.next()
    if (!next) throw new Error('the stream ended')
    const data = next.data as Record<string, unknown>
    events.push({ event: next.event, data })
    if (data.order_id === orderId && data.status === 'canceled') return events
  }
}

test('a client receives events of its own orders and of nothing else', {
  tags: ['long'],
}, async () => {
  const stream = await follow(acme.key)
  const foreign = await chargeAndCancel(other, 'F-1')
  const own = await chargeAndCancel(acme, 'O-1')
  const events = await eventsUntil(stream, own)
  expect(events.every(({ event, data }) => event === 'order' && data.client === 'acme')).toBe(true)
  expect(events.at(-1)).toEqual({
    event: 'order',
    data: {
      order_id: own,
      client: 'acme',
      caja_id: 'CAJA-1',
      status: 'canceled',
      version: expect.any(Number),
    },
  })
  expect(stream.text()).not.toContain(foreign)
  expect(stream.text()).not.toContain('other')
})

test('a client may name only itself in a subscription', async () => {
  const foreign = await openStream(service.app, '/events?client=other', { 'x-api-token': acme.key })
  expect(foreign.response.status).toBe(403)
  await follow(acme.key, '?client=acme')
})

test('the administrator receives events of all clients, or of the named one', {
  tags: ['long'],
}, async () => {
  const all = await follow(adminToken)
  const named = await follow(adminToken, '?client=acme')
  const first = await chargeAndCancel(other, 'A-1')
  const second = await chargeAndCancel(acme, 'A-2')
  expect((await eventsUntil(all, first)).length).toBeGreaterThan(0)
  await eventsUntil(all, second)
  const events = await eventsUntil(named, second)
  expect(events.every(({ data }) => data.client === 'acme')).toBe(true)
  expect(named.text()).not.toContain(first)
  expect(all.text()).toContain('"action":"order.created"')
})

test('the administrator receives events of processed and refused webhooks; a client receives none', {
  tags: ['long'],
}, async () => {
  const { order_id } = (await charge(service, acme, { reference: 'W-1' })).json()
  const mpOrderId = (await orderRow(service, order_id)).mp_order_id ?? ''
  const client = await follow(acme.key)
  const admin = await follow(adminToken)
  await deliver(service, { dataId: mpOrderId })
  await call(service, { url: '/webhooks?data.id=ORD1&type=order', body: {} })
  const statuses = new Set<unknown>()
  while (statuses.size < 2) {
    const event = await admin.next()
    if (event?.event === 'webhook') statuses.add((event.data as { status: unknown }).status)
  }
  expect(statuses).toEqual(new Set(['processed', 'rejected']))
  await cancel(service, acme, order_id)
  await eventsUntil(client, order_id)
  expect(client.text()).not.toMatch(/webhook|activity/)
})

test('a subscriber receives events of changes that another process made', {
  tags: ['long'],
}, async () => {
  const duplicate = await startTestService({ twinOf: service })
  const stream = await follow(acme.key, '', duplicate)
  await eventsUntil(stream, await chargeAndCancel(acme, 'P-1'))
  stream.disconnect()
  await duplicate.stop()
})

test('a browser session may subscribe', async () => {
  const signedIn = await call(service, { url: '/session', body: { token: acme.key } })
  const cookie = String(signedIn.headers['set-cookie']).split(';')[0] ?? ''
  const stream = await openStream(service.app, '/events', { cookie })
  streams.push(stream)
  expect(await stream.next()).toEqual({ event: 'resync', data: {} })
})

test('T5: a stream ends when its key is revoked, and sends nothing afterwards', {
  tags: ['long'],
}, async () => {
  const leaving = await openOwnShop(service, 'leaving')
  const stream = await follow(leaving.key)
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'leaving' } })
  expect(await stream.rest()).toEqual([{ event: 'end', data: { reason: 'access' } }])
})

test('a client above its limit of streams gets 429 in the shape of other errors', async () => {
  const strict = await startTestService({ twinOf: service, streams: { perOwner: 1 } })
  const first = await follow(acme.key, '', strict)
  const refused = await openStream(strict.app, '/events', { 'x-api-token': acme.key })
  expect(refused.response.status).toBe(429)
  expect(await refused.response.json()).toMatchObject({
    code: 'RATE_LIMITED',
    request_id: expect.any(String),
  })
  first.disconnect()
  await strict.stop()
})

test('a stop of the service ends its streams at once', async () => {
  const duplicate = await startTestService({ twinOf: service })
  const stream = await follow(acme.key, '', duplicate)
  const startedAt = performance.now()
  const stopping = duplicate.stop()
  expect(await stream.rest()).toEqual([{ event: 'end', data: { reason: 'stopping' } }])
  await stopping
  expect(performance.now() - startedAt).toBeLessThan(2_000)
})

/** An event source that the test controls. */
function handmade() {
  let calls: Parameters<EventSource['subscribe']> | undefined
  const source: EventSource = {
    subscribe(...given) {
      calls = given
      return () => {}
    },
    close: async () => {},
  }
  const order = (id: number, version = 1): EventItem => ({
    kind: 'order',
    key: `order ${id}`,
    client: 'acme',
    data: {
      order_id: String(id),
      client: 'acme',
      caja_id: 'CAJA-1',
      status: 'created',
      version,
    },
  })
  return { source, order, emit: (item: EventItem) => calls?.[0](item), lose: () => calls?.[1]() }
}

test('a burst of events becomes one resync, and several changes of one order become the last one', () => {
  const { source, order, emit, lose } = handmade()
  const reader = createEventReader(source, { isAdmin: true, client: undefined })
  let wakes = 0
  reader.watch(() => {
    wakes += 1
  })
  expect(reader.take()).toEqual({ missed: true, items: [] })
  for (let version = 1; version <= 1_000; version++) emit(order(1, version))
  expect(reader.take()).toEqual({ missed: false, items: [order(1, 1_000)] })
  for (let id = 1; id <= 1_000; id++) emit(order(id))
  expect(reader.take()).toEqual({ missed: true, items: [] })
  lose()
  expect(reader.take()).toEqual({ missed: true, items: [] })
  expect(reader.take()).toEqual({ missed: false, items: [] })
  expect(wakes).toBe(2_001)
})
