import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  cancel,
  clearFaults,
  deliver,
  forgetRequests,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder } from '../support/till.ts'

let service: TestService
let proxy: ProviderProxy
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '500' },
    hangsAreShort: true,
    provider: { apiUrl: proxy.url },
  })
  proxy.target = service.sandbox.url
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})
afterEach(async () => {
  proxy.alter = undefined
  await clearFaults(service)
})

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'D-1' })).json()
  return { till, orderId: order_id as string }
}

test.each([
  ['at_terminal', { do: 'fetch' }, 'unknown'],
  ['processed', payByCard, 'charged'],
  ['canceled', { do: 'cancel' }, 'not_charged'],
  ['failed', { do: 'decline', status_detail: 'insufficient_amount' }, 'not_charged'],
  ['expired', { do: 'expire' }, 'not_charged'],
  ['action_required', { do: 'hold' }, 'unknown'],
])(
  'a read follows the provider to %s and stores it',
  { tags: ['long'] },
  async (status, action, outcome) => {
    const { till, orderId } = await openOrder(`follow ${status}`)
    const before = (await readOrder(service, till, orderId)).json()
    await act(service, orderId, action)
    const after = (await readOrder(service, till, orderId)).json()
    expect(after).toMatchObject({ status, outcome, stale: false })
    expect(after.version).toBeGreaterThan(before.version)
    expect((await orderRow(service, orderId)).status).toBe(status)
    const again = (await readOrder(service, till, orderId)).json()
    expect(again).toEqual(after)
  },
)

test.each([
  ['insufficient_amount', 'fondos'],
  ['card_disabled', 'tarjeta'],
  ['required_call_for_authorize', 'banco'],
  ['max_attempts_exceeded', 'intentos'],
  ['rejected_by_issuer', 'rechazado'],
])(
  'a payment declined for %s is shown as rejected, with a message for the cashier',
  async (detail, word) => {
    const { till, orderId } = await openOrder(`declined ${detail}`)
    await act(service, orderId, { do: 'decline', status_detail: detail })
    const order = (await readOrder(service, till, orderId)).json()
    expect(order.payments).toMatchObject([
      { status: 'rejected', status_detail: detail, paid_amount: null },
    ])
    expect(order.cashier).toMatchObject({ action: 'other_payment_method', retry_safe: true })
    expect(order.cashier.message).toContain(word)
  },
)

test('an ended order is read from the database, a paid one from the provider', async () => {
  for (const [action, reads] of [
    [{ do: 'cancel' }, 0],
    [{ do: 'decline' }, 0],
    [{ do: 'expire' }, 0],
    [payByCard, 1],
  ] as const) {
    const { till, orderId } = await openOrder(`ended ${action.do}`)
    await act(service, orderId, action)
    await readOrder(service, till, orderId)
    await forgetRequests(service)
    await readOrder(service, till, orderId)
    expect(await providerRequests(service, reading), action.do).toHaveLength(reads)
  }
})

test('the id of this service and the provider’s id find the same order', async () => {
  const { till, orderId } = await openOrder('both ids')
  const mpOrderId = ordersAtProvider(service, till)[0]?.id ?? ''
  for (const id of [orderId, orderId.toUpperCase(), mpOrderId]) {
    expect((await readOrder(service, till, id)).json().order_id).toBe(orderId)
  }
  const admin = await asAdmin(service, { url: `/orders/${mpOrderId}?client=both%20ids` })
  expect(admin.json().order_id).toBe(orderId)
})

test.each([
  ['%00', 422],
  ['a%00b', 422],
  ['%', 400],
  ['%zz', 400],
  ['%25', 404],
  ['..%2f..%2fadmin', 404],
  ['%0a', 422],
  ['%ed%a0%80', 400],
  ["' or 1=1--", 404],
  ['x'.repeat(100), 404],
  ['x'.repeat(101), 422],
  ['x'.repeat(2000), 404],
  ['ORD', 404],
  ['null', 404],
])('a hostile id (%s) is answered in the error shape', async (id, status) => {
  const { till } = await cached()
  const response = await call(service, { url: `/orders/${id}`, token: till.key })
  expect(response.statusCode).toBe(status)
  expect(response.json()).toMatchObject({ error: expect.any(String), code: expect.any(String) })
})

let known: Awaited<ReturnType<typeof openOrder>> | undefined
async function cached() {
  known ??= await openOrder('cached')
  return known
}

test('hostile ids in a body are refused or not found, and cause no 5xx', async () => {
  const { till } = await cached()
  for (const id of ['\u0000', 'a\u0000b', '\ud800', '%', '../..', "' or 1=1--", '\n']) {
    for (const url of ['/orders/cancel', '/orders/refund']) {
      const response = await call(service, { url, token: till.key, body: { order_id: id } })
      expect([404, 422]).toContain(response.statusCode)
      const { outcome } = response.json()
      expect(outcome).toBe(response.statusCode === 404 ? 'not_charged' : 'unknown')
    }
  }
})

test.each([
  ['500', { kind: '500' }],
  ['429', { kind: '429' }],
  ['hang', { kind: 'hang_before' }],
  ['drop', { kind: 'drop_after' }],
  ['torn', { kind: 'torn_body' }],
])(
  'while the provider cannot be reached (%s) the stored order is answered as stale',
  async (name, fault) => {
    const { till, orderId } = await openOrder(`stale ${name}`)
    await act(service, orderId, payByCard)
    await setFaults(service, { ...reading, ...fault })
    const response = await readOrder(service, till, orderId)
    expect([response.statusCode, response.headers['x-order-stale']]).toEqual([200, 'true'])
    expect(response.json()).toMatchObject({ status: 'created', stale: true, outcome: 'unknown' })
    await clearFaults(service)
    const fresh = await readOrder(service, till, orderId)
    expect(fresh.headers).not.toHaveProperty('x-order-stale')
    expect(fresh.json()).toMatchObject({ status: 'processed', stale: false })
  },
)

test('without a connection the stored order is answered as stale', async () => {
  const { till, orderId } = await openOrder('no connection')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  const response = await readOrder(service, till, orderId)
  expect([response.statusCode, response.headers['x-order-stale'], response.json().stale]).toEqual([
    200,
    'true',
    true,
  ])
})

test('an order that the provider has deleted is answered from the database, not as stale', async () => {
  const { till, orderId } = await openOrder('forgotten')
  await act(service, orderId, payByCard)
  await readOrder(service, till, orderId)
  await setFaults(service, { ...reading, kind: 'status', status: 404, code: 'order_not_found' })
  const response = await readOrder(service, till, orderId)
  expect(response.headers).not.toHaveProperty('x-order-stale')
  expect(response.json()).toMatchObject({ status: 'processed', stale: false })
})

test('concurrent reads share one call to the provider', async () => {
  const { till, orderId } = await openOrder('shared read')
  await forgetRequests(service)
  const { deps } = service
  const { once } = deps
  const { get } = deps.provider.orders
  const { promise: allAsk, resolve: lastAsks } = Promise.withResolvers<void>()
  let asking = 0
  deps.once = (key, work) => {
    asking += 1
    if (asking === 20) lastAsks()
    return once(key, work)
  }
  // The provider answers when all 20 reads have asked.
  deps.provider.orders.get = async (...args) => {
    const evidence = await get(...args)
    await allAsk
    return evidence
  }
  try {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => readOrder(service, till, orderId)),
    )
    expect(new Set(answers.map((answer) => answer.body)).size).toBe(1)
    expect(await providerRequests(service, reading)).toHaveLength(1)
  } finally {
    deps.once = once
    deps.provider.orders.get = get
  }
})

test.each([
  [
    'another amount',
    {
      transactions: {
        payments: [
          {
            id: 'P',
            amount: '1.00',
            paid_amount: '1.00',
            status: 'processed',
            payment_method: { type: 'x' },
          },
        ],
      },
    },
    'amount',
  ],
  ['another reference', { external_reference: 'OTHER' }, 'reference'],
  ['another account', { user_id: '1' }, 'account'],
])('an answer with %s moves nothing and is flagged', async (name, fields, word) => {
  const { till, orderId } = await openOrder(`mutated ${name}`)
  await readOrder(service, till, orderId)
  proxy.alter = ({ status, body }, { method, path }) =>
    method === 'GET' && path.startsWith('/v1/orders/')
      ? { status, body: { ...body, status: 'processed', status_detail: 'accredited', ...fields } }
      : undefined
  const order = (await readOrder(service, till, orderId)).json()
  expect(order).toMatchObject({ status: 'created', payments: [], outcome: 'unknown' })
  expect((await orderRow(service, orderId)).conflict).toContain(word)
})

test.each([
  ['no status', { status: null }],
  ['the id of another order', { id: `ORDTST${'0'.repeat(26)}` }],
  [
    'an invalid amount',
    { transactions: { payments: [{ id: 'P', amount: '1e9', status: 'processed' }] } },
  ],
  ['a list in place of an object', { transactions: [] }],
])('an answer with %s leaves the order unchanged', async (name, fields) => {
  const { till, orderId } = await openOrder(`odd ${name}`)
  proxy.alter = ({ status, body }, { method, path }) =>
    method === 'GET' && path.startsWith('/v1/orders/')
      ? { status, body: { ...body, ...fields } }
      : undefined
  const before = await orderRow(service, orderId)
  const response = await readOrder(service, till, orderId)
  expect([response.statusCode, response.json().status]).toEqual([200, 'created'])
  expect((await orderRow(service, orderId)).version).toBe(before.version)
})

test('an unknown state of the provider moves nothing, and the cashier waits until it ends', async () => {
  const { till, orderId } = await openOrder('odd state')
  proxy.alter = ({ status, body }, { method, path }) =>
    method === 'GET' && path.startsWith('/v1/orders/')
      ? { status, body: { ...body, status: 'under_review' } }
      : undefined
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'created',
    status_detail: 'under_review',
    outcome: 'unknown',
    cashier: { action: 'wait' },
  })
  expect((await orderRow(service, orderId)).conflict).toBe(null)
  expect(service.logLines.some((line) => line.includes('under_review'))).toBe(true)
  proxy.alter = undefined
  await readOrder(service, till, orderId)
  expect((await orderRow(service, orderId)).status_detail).toBe('created')
})

test('a long poll ends when a webhook brings the change', async () => {
  const { till, orderId } = await openOrder('waits for webhook')
  const { version } = (await readOrder(service, till, orderId)).json()
  const started = performance.now()
  const poll = call(service, { url: `/orders/${orderId}?wait=20`, token: till.key })
  await expect.poll(() => service.deps.changes.waiting()).toBe(1)
  await act(service, orderId, payByCard)
  await deliver(service, { dataId: ordersAtProvider(service, till)[0]?.id ?? '' })
  const response = await poll
  expect(performance.now() - started).toBeLessThan(15_000)
  expect(response.json()).toMatchObject({ status: 'processed', stale: false })
  expect(response.json().version).toBeGreaterThan(version)
  expect(service.deps.changes.waiting()).toBe(0)
})

test('a state that arrives during a long poll is not stale, although the provider did not answer before', async () => {
  const { till, orderId } = await openOrder('waits while the provider fails')
  await setFaults(service, { ...reading, kind: '500' })
  const poll = call(service, { url: `/orders/${orderId}?wait=20`, token: till.key })
  await expect.poll(() => service.deps.changes.waiting()).toBe(1)
  await clearFaults(service)
  await act(service, orderId, payByCard)
  await deliver(service, { dataId: ordersAtProvider(service, till)[0]?.id ?? '' })
  const response = await poll
  expect(response.json()).toMatchObject({ status: 'processed', stale: false })
  expect(response.headers).not.toHaveProperty('x-order-stale')
})

test('a long poll ends when the sweeper finds the change', async () => {
  const { till, orderId } = await openOrder('waits for sweeper')
  const poll = call(service, { url: `/orders/${orderId}?wait=20`, token: till.key })
  await expect.poll(() => service.deps.changes.waiting()).toBe(1)
  await act(service, orderId, payByCard)
  await sweepAfter(service, 5_000)
  expect((await poll).json().status).toBe('processed')
})

test.each([0, 3, 11])(
  'without webhooks a waiting client gets the end of a charge %i minutes old within 10 s',
  { tags: ['long'] },
  async (minutes) => {
    const { till, orderId } = await openOrder(`waits ${minutes} without webhooks`)
    service.clock.advance(minutes * 60_000)
    const poll = call(service, { url: `/orders/${orderId}?wait=20`, token: till.key })
    await expect.poll(() => service.deps.changes.waiting()).toBe(1)
    // The sweeper finds no change and plans its next check; the payment comes after that.
    await sweepAfter(service, 5_500)
    const checkedAt = service.clock.now().getTime()
    await expect
      .poll(async () => (await orderRow(service, orderId)).next_check_at?.getTime())
      .toBeLessThan(checkedAt + 8_000)
    await act(service, orderId, payByCard)
    for (let seconds = 0; seconds < 8; seconds += 2) await sweepAfter(service, 2_000)
    expect((await orderRow(service, orderId)).status).toBe('processed')
    expect((await poll).json().status).toBe('processed')
  },
)

test('a long poll with an old version is answered at once, and so is one of an ended order', async () => {
  const { till, orderId } = await openOrder('old version')
  const { version } = (await readOrder(service, till, orderId)).json()
  const read = (query: string) =>
    call(service, { url: `/orders/${orderId}?${query}`, token: till.key })
  const started = performance.now()
  expect((await read(`wait=30&version=${version - 1}`)).json().version).toBe(version)
  await cancel(service, till, orderId)
  const { version: last } = (await readOrder(service, till, orderId)).json()
  expect((await read(`wait=30&version=${last}`)).json().status).toBe('canceled')
  expect(performance.now() - started).toBeLessThan(5_000)
})

test('a long poll without a version is answered at once when the order has ended, however early it was paid', async () => {
  const { till, orderId } = await openOrder('paid before it waits')
  await act(service, orderId, payByCard)
  await deliver(service, { dataId: ordersAtProvider(service, till)[0]?.id ?? '' })
  await expect.poll(async () => (await orderRow(service, orderId)).status).toBe('processed')
  const response = await call(service, { url: `/orders/${orderId}?wait=30`, token: till.key })
  expect(response.json()).toMatchObject({ status: 'processed', outcome: 'charged' })
  expect(service.deps.changes.waiting()).toBe(0)
})

test('a long poll without a change ends after its time', { tags: ['long'] }, async () => {
  const { till, orderId } = await openOrder('times out')
  const started = performance.now()
  const response = await call(service, { url: `/orders/${orderId}?wait=1`, token: till.key })
  expect(performance.now() - started).toBeGreaterThanOrEqual(950)
  expect([response.statusCode, response.json().status]).toEqual([200, 'created'])
})

test.each([
  ['wait=0', 'wait'],
  ['wait=31', 'wait'],
  ['wait=1.5', 'wait'],
  ['wait=x', 'wait'],
  ['wait=1&version=0', 'version'],
  ['wait=1&version=x', 'version'],
])('a read with %s is refused, and the error names the field', async (query, path) => {
  const { till, orderId } = await cached()
  const response = await call(service, { url: `/orders/${orderId}?${query}`, token: till.key })
  expect([response.statusCode, response.json().details[0].path]).toEqual([422, path])
})

test('a revoked key ends its long polls early, without the order', { tags: ['long'] }, async () => {
  const { till, orderId } = await openOrder('revoked while waiting')
  const started = performance.now()
  const poll = call(service, { url: `/orders/${orderId}?wait=20`, token: till.key })
  await expect.poll(() => service.deps.changes.waiting()).toBe(1)
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: till.client } })
  const response = await poll
  expect(performance.now() - started).toBeLessThan(15_000)
  expect([response.statusCode, response.json().code]).toEqual([401, 'UNAUTHORIZED'])
})

test('over a socket a long poll waits, ends when its client disconnects, and ends at shutdown', {
  tags: ['long'],
}, async () => {
  const own = await startTestService()
  let closed = false
  try {
    const till = await openOwnShop(own, 'sockets')
    const { order_id } = (await charge(own, till, { reference: 'S-1' })).json()
    await own.app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = own.app.server.address() as AddressInfo
    const open = (path: string) => {
      const socket = httpRequest({ port, path, headers: { 'x-api-token': till.key } })
      const ended = new Promise<number | undefined>((resolve) => {
        socket.on('response', (response) => {
          response.resume()
          response.on('end', () => resolve(response.statusCode))
        })
        socket.on('error', () => resolve(undefined))
      })
      socket.end()
      return { socket, ended }
    }
    const disconnecting = open(`/orders/${order_id}?wait=30`)
    const waiting = open(`/orders/${order_id}?wait=30`)
    while (own.deps.changes.waiting() < 2) await wait(10)
    disconnecting.socket.destroy()
    while (own.deps.changes.waiting() > 1) await wait(10)
    const started = performance.now()
    closed = true
    await own.app.close()
    expect(await waiting.ended).toBe(200)
    expect(performance.now() - started).toBeLessThan(5_000)
    expect(own.deps.changes.waiting()).toBe(0)
  } finally {
    if (closed) await own.close()
    await own.stop().catch(() => undefined)
  }
})

test('the administrator may use a long poll too', { tags: ['long'] }, async () => {
  const { orderId } = await openOrder('admin poll')
  const response = await call(service, {
    url: `/orders/${orderId}?wait=1&client=admin%20poll`,
    token: adminToken,
  })
  expect(response.statusCode).toBe(200)
})
