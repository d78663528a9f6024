import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type OpenStream, openStream } from '../support/event-stream.ts'
import {
  cancel,
  clearFaults,
  deliver,
  orderRow,
  ordersAtProvider,
  reading,
  refund,
  sandboxRefund,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  enrol,
  openShop,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'

let service: TestService
let shop: Till
const streams: OpenStream[] = []
beforeAll(async () => {
  service = await startTestService({ streams: { pollMs: 50 } })
  shop = await openShop(service, 'acme')
})
afterEach(async () => {
  for (const stream of streams.splice(0)) stream.disconnect()
  await expect.poll(() => service.deps.changes.waiting()).toBe(0)
  // The next test needs the terminal.
  await cancel(service, shop, lastOrder)
})
afterAll(() => service.stop())

let references = 0
let lastOrder = ''
async function newOrder(): Promise<string> {
  references += 1
  const answer = await charge(service, shop, { reference: `S-${references}` })
  expect(answer.statusCode).toBe(201)
  lastOrder = answer.json().order_id
  return lastOrder
}

async function follow(orderId: string, headers: Record<string, string> = {}, at = service) {
  const token = 'cookie' in headers ? {} : { 'x-api-token': shop.key }
  const stream = await openStream(at.app, `/orders/${orderId}/events`, { ...token, ...headers })
  streams.push(stream)
  return stream
}

async function pay(orderId: string) {
  await act(service, orderId, payByCard)
}

test('the stream sends the order as GET shows it, and the payment when the webhook comes', async () => {
  const orderId = await newOrder()
  const stream = await follow(orderId)
  const order = (await readOrder(service, shop, orderId)).json()
  expect(await stream.next()).toEqual({ event: 'order', id: order.version, data: order })
  await pay(orderId)
  await deliver(service, { dataId: order.mp_order_id })
  const paid = await stream.next()
  expect(paid).toMatchObject({ event: 'order', data: { status: 'processed', outcome: 'charged' } })
  expect(paid?.data).toEqual((await readOrder(service, shop, orderId)).json())
  await refund(service, shop, orderId)
  // A fully refunded order has ended.
  const end = await stream.rest()
  expect(end.at(-2)).toMatchObject({ event: 'order', data: { status: 'refunded' } })
  expect(end.at(-1)).toEqual({ event: 'end', data: { reason: 'final' } })
})

test('without webhooks the stream sends what the sweeper finds on new and old orders, and a refund made elsewhere', async () => {
  const swept = await newOrder()
  const stream = await follow(swept)
  await stream.next()
  await pay(swept)
  await sweepAfter(service, 2_500)
  expect(await stream.next()).toMatchObject({ data: { status: 'processed' } })

  const orderId = await newOrder()
  // After ten minutes the sweeper checks an order less often, unless a subscriber watches it.
  await sweepAfter(service, 11 * 60_000)
  const watched = await follow(orderId)
  await watched.next()
  await pay(orderId)
  const { next_check_at } = await orderRow(service, orderId)
  expect(next_check_at?.getTime()).toBeLessThanOrEqual(service.clock.now().getTime() + 5_000)
  await sweepAfter(service, 5_000)
  expect(await watched.next()).toMatchObject({ data: { status: 'processed' } })

  const { mp_order_id } = await orderRow(service, orderId)
  const providerOrder = ordersAtProvider(service, shop).find(({ id }) => id === mp_order_id)
  if (!providerOrder) throw new Error('the provider has no such order')
  await sandboxRefund(service, providerOrder)
  service.clock.advance(30_000)
  expect(await watched.next()).toMatchObject({ data: { status: 'refunded' } })
})

test('a client that reconnects receives no state twice, and the newest state of what it missed', async () => {
  const orderId = await newOrder()
  const first = await follow(orderId)
  const { id } = (await first.next()) ?? {}
  first.disconnect()

  const unchanged = await follow(orderId, { 'last-event-id': String(id) })
  const next = unchanged.next()
  await pay(orderId)
  await deliver(service, { dataId: (await orderRow(service, orderId)).mp_order_id ?? '' })
  const paid = await next
  expect(paid).toMatchObject({ event: 'order', data: { status: 'processed' } })
  expect(paid?.id).toBeGreaterThan(id ?? 0)

  const late = await follow(orderId, { 'last-event-id': String(id) })
  expect(await late.next()).toEqual(paid)
  for (const wrong of ['abc', '99999', '-1', '1, 2']) {
    const stream = await follow(orderId, { 'last-event-id': wrong })
    expect(await stream.next(), wrong).toEqual(paid)
  }
})

test('an ended order is sent once, then the stream answers 204, so that EventSource stops reconnecting', async () => {
  const orderId = await newOrder()
  await cancel(service, shop, orderId)
  const events = await (await follow(orderId)).rest()
  expect(events).toMatchObject([
    { event: 'order', data: { status: 'canceled' } },
    { event: 'end', data: { reason: 'final' } },
  ])
  const again = await follow(orderId, { 'last-event-id': String(events[0]?.id) })
  expect(again.response.status).toBe(204)
})

test('while the provider does not answer the stream sends the last known order, marked as stale, and then the new one', async () => {
  const orderId = await newOrder()
  await setFaults(service, { ...reading, kind: 'status', status: 500 })
  const stream = await follow(orderId)
  expect(await stream.next()).toMatchObject({
    event: 'order',
    data: { status: 'created', stale: true },
  })
  await clearFaults(service)
  await act(service, orderId, payByCard)
  await deliver(service, { dataId: ordersAtProvider(service, shop).at(-1)?.id ?? '' })
  expect(await stream.next()).toMatchObject({ data: { status: 'processed', stale: false } })
})

test('the stream sends a change that another process made', async () => {
  const duplicate = await startTestService({ twinOf: service, streams: { pollMs: 60_000 } })
  const orderId = await newOrder()
  const stream = await follow(orderId, {}, duplicate)
  await stream.next()
  await cancel(service, shop, orderId)
  expect(await stream.next()).toMatchObject({ data: { status: 'canceled' } })
  stream.disconnect()
  await duplicate.stop()
})

test('the administrator and a browser session may subscribe, in the language of their request', async () => {
  const orderId = await newOrder()
  const signedIn = await call(service, { url: '/session', body: { token: shop.key } })
  const cookie = String(signedIn.headers['set-cookie']).split(';')[0] ?? ''
  const bySession = await follow(orderId, { cookie, 'accept-language': 'en' })
  expect(await bySession.next()).toMatchObject({
    data: { cashier: { message: expect.stringMatching(/terminal/) } },
  })
  const byAdmin = await openStream(service.app, `/orders/${orderId}/events?client=acme`, {
    'x-api-token': adminToken,
  })
  streams.push(byAdmin)
  expect(await byAdmin.next()).toMatchObject({ event: 'order' })
})

test('T5: a stream ends when its key is revoked, and sends nothing afterwards', async () => {
  const other = await enrol(service, 'other', '4711')
  const mine = await openShop(service, 'leaving', '4712')
  const { order_id } = (await charge(service, mine, { reference: 'L-1' })).json()
  const stream = await openStream(service.app, `/orders/${order_id}/events`, {
    'x-api-token': mine.key,
  })
  await stream.next()
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'leaving' } })
  await act(service, order_id, payByCard)
  await deliver(service, { dataId: (await orderRow(service, order_id)).mp_order_id ?? '' })
  expect(await stream.rest()).toEqual([{ event: 'end', data: { reason: 'access' } }])
  const foreign = await call(service, { url: `/orders/${order_id}/events`, token: other.key })
  expect(foreign.statusCode).toBe(404)
})

test('a client above its limit of streams gets 429 in the shape of other errors', async () => {
  const strict = await startTestService({ twinOf: service, streams: { perOwner: 1 } })
  const orderId = await newOrder()
  const first = await follow(orderId, {}, strict)
  const refused = await follow(orderId, {}, strict)
  expect(refused.response.status).toBe(429)
  expect(await refused.response.json()).toMatchObject({
    code: 'RATE_LIMITED',
    request_id: expect.any(String),
  })
  first.disconnect()
  await expect.poll(async () => (await follow(orderId, {}, strict)).response.status).toBe(200)
  for (const stream of streams.splice(0)) stream.disconnect()
  await strict.stop()
})

test('a stop of the service ends its streams at once', async () => {
  const duplicate = await startTestService({ twinOf: service })
  const stream = await follow(await newOrder(), {}, duplicate)
  await stream.next()
  const startedAt = performance.now()
  const stopping = duplicate.stop()
  expect(await stream.rest()).toEqual([{ event: 'end', data: { reason: 'stopping' } }])
  await stopping
  expect(performance.now() - startedAt).toBeLessThan(2_000)
})
