import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  createEventReader,
  type EventItem,
  type EventSource,
} from '../../src/payments/events/event-source.ts'
import { type OpenStream, openStream } from '../support/event-stream.ts'
import { cancel, deliver, openOwnShop, orderRow } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { call, charge, type Till } from '../support/till.ts'

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
  for (const stream of streams.splice(0)) stream.hangUp()
})
afterAll(() => service.stop())

/** A stream that has been told to read everything: from here on it is told what happens. */
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

/** What a stream told until it told of this order’s end, its own included. */
async function toldUntil(stream: OpenStream, orderId: string) {
  const told: { event: string; data: Record<string, unknown> }[] = []
  for (;;) {
    const next = await stream.next()
    if (!next) throw new Error('the stream ended')
    const data = next.data as Record<string, unknown>
    told.push({ event: next.event, data })
    if (data.order_id === orderId && data.status === 'canceled') return told
  }
}

test('a client is told of its own orders and of nothing else', async () => {
  const stream = await follow(acme.key)
  const foreign = await chargeAndCancel(other, 'F-1')
  const own = await chargeAndCancel(acme, 'O-1')
  const told = await toldUntil(stream, own)
  expect(told.every(({ event, data }) => event === 'order' && data.client === 'acme')).toBe(true)
  expect(told.at(-1)).toEqual({
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

test('a client may not follow another, and what it may name is itself', async () => {
  const foreign = await openStream(service.app, '/events?client=other', { 'x-api-token': acme.key })
  expect(foreign.response.status).toBe(403)
  await follow(acme.key, '?client=acme')
})

test('the administrator is told of all clients, or of the one that is named', async () => {
  const all = await follow(adminToken)
  const named = await follow(adminToken, '?client=acme')
  const first = await chargeAndCancel(other, 'A-1')
  const second = await chargeAndCancel(acme, 'A-2')
  expect((await toldUntil(all, first)).length).toBeGreaterThan(0)
  await toldUntil(all, second)
  const told = await toldUntil(named, second)
  expect(told.every(({ data }) => data.client === 'acme')).toBe(true)
  expect(named.text()).not.toContain(first)
  expect(all.text()).toContain('"action":"order.created"')
})

test('webhooks are told to the administrator, worked and refused ones, and to no client', async () => {
  const { order_id } = (await charge(service, acme, { reference: 'W-1' })).json()
  const mpOrderId = (await orderRow(service, order_id)).mp_order_id ?? ''
  const client = await follow(acme.key)
  const admin = await follow(adminToken)
  await deliver(service, { dataId: mpOrderId })
  await call(service, { url: '/webhooks?data.id=ORD1&type=order', body: {} })
  const statuses = new Set<unknown>()
  while (statuses.size < 2) {
    const told = await admin.next()
    if (told?.event === 'webhook') statuses.add((told.data as { status: unknown }).status)
  }
  expect(statuses).toEqual(new Set(['processed', 'rejected']))
  await cancel(service, acme, order_id)
  await toldUntil(client, order_id)
  expect(client.text()).not.toMatch(/webhook|activity/)
})

test('what another process does is told too', async () => {
  const duplicate = await startTestService({ twinOf: service })
  const stream = await follow(acme.key, '', duplicate)
  await toldUntil(stream, await chargeAndCancel(acme, 'P-1'))
  stream.hangUp()
  await duplicate.stop()
})

/** Events that the test makes. */
function handmade() {
  let say: Parameters<EventSource['subscribe']> | undefined
  const source: EventSource = {
    subscribe(...calls) {
      say = calls
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
  return { source, order, say: (item: EventItem) => say?.[0](item), lose: () => say?.[1]() }
}

test('a burst is told as one resync, several changes of one order as the last', () => {
  const { source, order, say, lose } = handmade()
  const reader = createEventReader(source, { isAdmin: true, client: undefined })
  let wakes = 0
  reader.watch(() => {
    wakes += 1
  })
  expect(reader.take()).toEqual({ missed: true, items: [] })
  for (let version = 1; version <= 1_000; version++) say(order(1, version))
  expect(reader.take()).toEqual({ missed: false, items: [order(1, 1_000)] })
  for (let id = 1; id <= 1_000; id++) say(order(id))
  expect(reader.take()).toEqual({ missed: true, items: [] })
  lose()
  expect(reader.take()).toEqual({ missed: true, items: [] })
  expect(reader.take()).toEqual({ missed: false, items: [] })
  expect(wakes).toBe(2_001)
})
