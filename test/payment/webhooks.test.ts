import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  auditOf,
  cancel,
  clearFaults,
  creation,
  deliver,
  forgetRequests,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  sandboxRefund,
  setFaults,
  signature,
} from '../support/money.ts'
import { rounds } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, connect, payByCard, readOrder } from '../support/till.ts'

const vectorSecret = 'sandbox-webhook-secret-0001'

let service: TestService
beforeAll(async () => {
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '2000' },
    webhookSecrets: ['the-secret-before', vectorSecret],
  })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'W-1' })).json()
  const mpOrderId = ordersAtProvider(service, till)[0]?.id ?? ''
  return { till, orderId: order_id as string, mpOrderId }
}

function post(url: string, headers: Record<string, string>, body: unknown = {}) {
  return call(service, { method: 'POST', url, headers, body })
}

type Log = Record<string, unknown>

async function logs(): Promise<Log[]> {
  return (await asAdmin(service, { url: '/admin/webhooks/logs?limit=200' })).json().logs
}

const logsOf = async (mpOrderId: string) =>
  (await logs()).filter((log) => log.resource_id === mpOrderId).toReversed()

const statesOf = async (mpOrderId: string) =>
  (await logsOf(mpOrderId)).map((log) => log.status as string)

/** The stored status, read without a call to the provider. */
async function localStatus(till: { key: string }): Promise<string> {
  const { orders } = (await call(service, { url: '/orders', token: till.key })).json()
  return orders[0].status
}

const requestId = '7c1f0b52-3a44-4f0e-9d2a-5b6c7d8e9f01'
const dataId = 'ORDTST01K8ZQ4M7N2P5R6S7T8V9W0X1Y'

// The vectors of provider file 6.4.
test.each([
  [
    'lower',
    dataId,
    requestId,
    '1790000000000',
    '5daba6bd40e5d4e2248cac87db274e86c6a0a00939895f974e94ec186d84d892',
  ],
  [
    'as_received',
    dataId,
    requestId,
    '1790000000000',
    '57d16c937886bafde2d66df35ebd5b0e7290ded16f9d8fcafb83cb7fe1dd74f6',
  ],
  [
    'lower',
    dataId,
    undefined,
    '1790000000000',
    '23e92123c6484a8eacac1722b42b1da66b773e55f77b5fc27b97da681d36d1a2',
  ],
  [
    'lower',
    undefined,
    requestId,
    '1790000000000',
    '3a71bba6e1ea97cb9d0660c1e5fc201568aa6fd18ca713d33d19f772e6c7f869',
  ],
  [
    'lower',
    undefined,
    undefined,
    '1790000000000',
    '148e433d0a3ca4de0b58d9f1636936513b1df226f2f156e21a06a34858c7f529',
  ],
  [
    'lower',
    '123456789',
    requestId,
    '1790000000',
    'ec631512d13e718a44e088f6476bfa526e8ade22350641d9c1ab3bc3b3b1bf11',
  ],
])(
  'a genuine signature is accepted: %s, id %s, request %s, ts %s',
  async (_form, id, request, ts, v1) => {
    const before = service.clock.now().getTime()
    service.clock.advance(1_790_000_005_000 - before)
    try {
      const query = id === undefined ? '' : `?data.id=${id}&type=order`
      const response = await post(`/webhooks${query}`, {
        'x-signature': `ts=${ts},v1=${v1}`,
        ...(request !== undefined && { 'x-request-id': request }),
      })
      expect([response.statusCode, response.json()]).toEqual([200, { received: true }])
      await service.inbox.idle()
      // The order is read at the provider and belongs to no client.
      expect(
        (await logs()).filter(
          (log) =>
            log.resource_id === (id ?? null) &&
            log.request_id === (request ?? null) &&
            log.signature_valid === true,
        ),
      ).toMatchObject([{ status: 'ignored' }])
    } finally {
      service.clock.advance(before - 1_790_000_005_000)
    }
  },
)

test('T20: missing, forged, moved, repeated and old signatures are 401, logged as rejected, and change nothing', async () => {
  // The log takes a limited number a minute.
  service.clock.advance(120_000)
  const { till, orderId, mpOrderId } = await openOrder('forged')
  await act(service, orderId, payByCard)
  await forgetRequests(service)
  const nowMs = service.clock.now().getTime()
  const ts = String(nowMs)
  const sign = (
    parts: { dataId?: string; requestId?: string; ts: string },
    secret = vectorSecret,
  ) => signature(secret, parts)
  const good = { dataId: mpOrderId, requestId, ts }
  const dayMs = 24 * 3600_000
  const old = { ...good, ts: String(nowMs - 3 * dayMs) }
  const oldSeconds = { ...good, ts: String(Math.floor((nowMs - 3 * dayMs) / 1000)) }
  const early = { ...good, ts: String(nowMs + dayMs) }
  const bad: [string, Record<string, string>, string?][] = [
    ['none', {}],
    ['empty', { 'x-signature': '' }],
    ['words', { 'x-signature': 'let me in' }],
    ['no v1', { 'x-signature': `ts=${ts}` }],
    ['no ts', { 'x-signature': sign(good).replace(/^ts=\d+,/, '') }],
    ['short', { 'x-signature': sign(good).slice(0, -2) }],
    ['long', { 'x-signature': `${sign(good)}00` }],
    ['upper case', { 'x-signature': sign(good).toUpperCase() }],
    ['multibyte', { 'x-signature': `ts=${ts},v1=${'\u00e9'.repeat(64)}` }],
    ['two of them', { 'x-signature': `${sign(good)},${sign(good)}` }],
    ['wrong secret', { 'x-signature': sign(good, 'not-the-secret') }],
    ['empty secret', { 'x-signature': sign(good, '') }],
    ['another id', { 'x-signature': sign({ ...good, dataId: 'ORDTST01OTHER' }) }],
    ['another request', { 'x-signature': sign({ ...good, requestId: 'another' }) }],
    ['another time', { 'x-signature': sign(good).replace(ts, String(nowMs - 1)) }],
    ['id in the body only', { 'x-signature': sign(good) }, '/webhooks?type=order'],
    [
      'id twice',
      { 'x-signature': sign(good) },
      `/webhooks?data.id=${mpOrderId}&data.id=${mpOrderId}`,
    ],
    ['old', { 'x-signature': sign(old) }],
    ['old, in seconds', { 'x-signature': sign(oldSeconds) }],
    ['of tomorrow', { 'x-signature': sign(early) }],
  ]
  const known = new Set((await logs()).map(({ id }) => id))
  for (const [name, headers, url] of bad) {
    const response = await post(
      url ?? `/webhooks?data.id=${mpOrderId}&type=order`,
      { 'x-request-id': requestId, ...headers },
      { action: 'order.processed', data: { id: mpOrderId, status: 'processed' } },
    )
    expect([response.statusCode, response.json().code], name).toEqual([401, 'UNAUTHORIZED'])
  }
  await service.inbox.idle()
  expect(await providerRequests(service)).toEqual([])
  expect(await localStatus(till)).toBe('created')
  const rejected = (await logs()).filter(({ id }) => !known.has(id))
  expect(rejected).toHaveLength(bad.length)
  for (const log of rejected) {
    expect(log).toMatchObject({
      status: 'rejected',
      signature_valid: false,
      client: null,
      order_id: null,
      payload: null,
    })
  }
  // A rejected webhook cannot be replayed, not even by the administrator.
  const replay = await asAdmin(service, {
    method: 'POST',
    url: `/admin/webhooks/${rejected[0]?.id}/replay`,
  })
  expect(replay.statusCode).toBe(404)
  // A delivery that the provider repeats a day later is accepted.
  const yesterday = { ...good, ts: String(nowMs - dayMs) }
  expect(
    (
      await post(`/webhooks?data.id=${mpOrderId}&type=order`, {
        'x-request-id': requestId,
        'x-signature': sign(yesterday),
      })
    ).statusCode,
  ).toBe(200)
  await service.inbox.idle()
  expect(await localStatus(till)).toBe('processed')
})

test('T37: a flood of forged webhooks is refused and fills no table', async () => {
  const countRejected = async () => {
    const { count } = await service.database.db
      .selectFrom('webhook_log')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('status', '=', 'rejected')
      .executeTakeFirstOrThrow()
    return Number(count)
  }
  service.clock.advance(120_000)
  const before = await countRejected()
  const since = service.clock.now().getTime()
  for (let round = 0; round < rounds(10); round += 1) {
    const answers = await Promise.all(
      Array.from({ length: 25 }, (_, index) =>
        post(`/webhooks?data.id=ORDTST${round}X${index}&type=order`, {
          'x-signature': 'ts=1,v1=0',
        }),
      ),
    )
    expect(new Set(answers.map((answer) => answer.statusCode))).toEqual(new Set([401]))
  }
  // The log takes at most 60 a minute, however many come.
  const minutes = 1 + Math.floor((service.clock.now().getTime() - since) / 60_000)
  expect((await countRejected()) - before).toBeLessThanOrEqual(60 * minutes)
})

test('a signed webhook brings the payment, and the log shows its fields', async () => {
  const { till, orderId, mpOrderId } = await openOrder('plain')
  await act(service, orderId, payByCard)
  const body = {
    action: 'order.processed',
    type: 'order',
    user_id: String(till.mpUserId),
    live_mode: false,
    data: { id: mpOrderId, status: 'processed', version: 3 },
  }
  const response = await deliver(service, { dataId: mpOrderId, body })
  expect(response.json()).toEqual({ received: true })
  expect(await localStatus(till)).toBe('processed')
  expect(await logsOf(mpOrderId)).toMatchObject([
    {
      client: 'plain',
      mp_user_id: till.mpUserId,
      topic: 'order',
      action: 'order.processed',
      order_id: orderId,
      live_mode: false,
      status: 'processed',
      error_message: null,
      payload: body,
      deliveries: 1,
      processed_at: expect.any(String),
    },
  ])
  const filtered = await asAdmin(service, { url: '/admin/webhooks/logs?client=plain' })
  expect(filtered.json()).toMatchObject({ total: 1, logs: [{ resource_id: mpOrderId }] })
})

test('a webhook with an oversized body is processed, and the body is not stored', async () => {
  const { till, orderId, mpOrderId } = await openOrder('stuffed')
  await act(service, orderId, payByCard)
  const body = { type: 'order', data: { id: mpOrderId }, more: 'x'.repeat(200_000) }
  expect((await deliver(service, { dataId: mpOrderId, body })).statusCode).toBe(200)
  expect(await localStatus(till)).toBe('processed')
  expect(await logsOf(mpOrderId)).toMatchObject([{ status: 'processed', payload: null }])
})

test('T21: the body decides nothing: not the state, not the order, not what is a duplicate', {
  tags: ['long'],
}, async () => {
  const { till, orderId, mpOrderId } = await openOrder('liar')
  const other = await openOrder('victim')
  const forgedBody = {
    action: 'order.refunded',
    type: 'payment',
    user_id: String(other.till.mpUserId),
    data: { id: other.mpOrderId, status: 'processed', version: 999, total_paid_amount: '0.01' },
  }
  // A service that trusted the body would read this payment now.
  await act(service, other.orderId, payByCard)
  await forgetRequests(service)
  await deliver(service, { dataId: mpOrderId, body: forgedBody })
  expect([await localStatus(till), await localStatus(other.till)]).toEqual(['created', 'created'])
  // A delivery that was signed without an id does not get one from its body.
  const ts = String(service.clock.now().getTime())
  const request = randomUUID()
  const unnamed = {
    'x-request-id': request,
    'x-signature': signature(vectorSecret, { requestId: request, ts }),
  }
  expect((await post('/webhooks?type=order', unnamed, forgedBody)).statusCode).toBe(200)
  await service.inbox.idle()
  expect(await localStatus(other.till)).toBe('created')
  const asked = JSON.stringify(await providerRequests(service))
  expect([asked.includes(mpOrderId), asked.includes(other.mpOrderId)]).toEqual([true, false])
  expect((await logs()).some((log) => log.resource_id === other.mpOrderId)).toBe(false)
  for (const body of ['', 'null', '[[[[', '{"__proto__":{"x":1}}', '{"a":"\\u0000"}', 'é']) {
    const ts = String(service.clock.now().getTime())
    const request = randomUUID()
    const answer = await service.app.inject({
      method: 'POST',
      url: `/webhooks?data.id=${mpOrderId}&type=order`,
      headers: {
        'content-type': 'application/json',
        'x-request-id': request,
        'x-signature': signature(vectorSecret, { dataId: mpOrderId, requestId: request, ts }),
      },
      payload: body,
    })
    expect(answer.statusCode, body).toBe(200)
  }
  await service.inbox.idle()
  // The genuine delivery after the forged body still counts, although its version is lower.
  await act(service, orderId, payByCard)
  await deliver(service, { dataId: mpOrderId, body: { data: { id: mpOrderId, version: 3 } } })
  expect(await localStatus(till)).toBe('processed')
  await deliver(service, { dataId: other.mpOrderId })
  expect(await localStatus(other.till)).toBe('processed')
})

test('T21: a captured delivery replayed 60 times with other bodies causes no read, and the genuine one counts', async () => {
  const { till, orderId, mpOrderId } = await openOrder('captured')
  const captured = {
    dataId: mpOrderId,
    requestId: randomUUID(),
    ts: String(service.clock.now().getTime()),
  }
  await deliver(service, captured)
  await forgetRequests(service)
  const states = ['processed', 'refunded', 'canceled', 'expired', 'created']
  for (let round = 0; round < 6; round += 1) {
    await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        deliver(service, {
          ...captured,
          body: {
            action: `order.${states[index % 5]}`,
            user_id: String(index),
            data: { id: mpOrderId, status: states[index % 5], version: 1_000 * round + index },
          },
        }),
      ),
    )
  }
  expect(await providerRequests(service)).toEqual([])
  expect(await localStatus(till)).toBe('created')
  expect(await logsOf(mpOrderId)).toMatchObject([{ deliveries: 61 }])
  // A lower version than that of every replay.
  await act(service, orderId, payByCard)
  await deliver(service, { dataId: mpOrderId, body: { data: { id: mpOrderId, version: 2 } } })
  expect(await localStatus(till)).toBe('processed')
})

test('the same delivery again is counted and not processed again; another one for the same state is a duplicate', async () => {
  const { till, orderId, mpOrderId } = await openOrder('repeats')
  await act(service, orderId, payByCard)
  const same = {
    dataId: mpOrderId,
    requestId: randomUUID(),
    ts: String(service.clock.now().getTime()),
  }
  await deliver(service, same)
  await forgetRequests(service)
  for (let time = 0; time < 5; time += 1) {
    const body = { action: `order.${time}`, data: { version: time } }
    expect((await deliver(service, { ...same, body })).statusCode).toBe(200)
  }
  expect(await providerRequests(service)).toEqual([])
  await deliver(service, { dataId: mpOrderId })
  expect(await logsOf(mpOrderId)).toMatchObject([
    { status: 'processed', deliveries: 6 },
    { status: 'duplicate', deliveries: 1 },
  ])
  expect((await readOrder(service, till, orderId)).json().version).toBe(3)
})

test('T17: the administrator can replay a webhook repeatedly, and the state stays that of the provider', async () => {
  const { till, orderId, mpOrderId } = await openOrder('replayed')
  await act(service, orderId, payByCard)
  await setFaults(service, { ...reading, kind: '500' })
  await deliver(service, { dataId: mpOrderId })
  const [failed] = await logsOf(mpOrderId)
  expect(failed).toMatchObject({
    status: 'failed',
    error_message: expect.stringMatching(/^PROVIDER_ERROR: ./),
  })
  const replay = async () => {
    const url = `/admin/webhooks/${failed?.id}/replay`
    const response = await asAdmin(service, { method: 'POST', url })
    return [response.statusCode, response.json().webhook.status]
  }
  expect(await replay()).toEqual([200, 'failed'])
  await clearFaults(service)
  for (let time = 0; time < 4; time += 1) expect(await replay()).toEqual([200, 'processed'])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    version: 3,
  })
  const replays = await auditOf(service, till.client, 'webhook.replayed')
  expect(replays.map((entry) => entry.resource_id)).toEqual(Array(4).fill(failed?.id))
  const url = '/admin/activity?action=webhook.replayed&status=failed&limit=200'
  const { logs } = (await asAdmin(service, { url })).json()
  expect(
    logs.filter((entry: { resource_id: string }) => entry.resource_id === failed?.id),
  ).toMatchObject([
    { status: 'failed', error_message: expect.stringMatching(/^PROVIDER_ERROR: ./) },
  ])
  const unknown = await asAdmin(service, {
    method: 'POST',
    url: `/admin/webhooks/${randomUUID()}/replay`,
  })
  expect([unknown.statusCode, unknown.json().code]).toEqual([404, 'NOT_FOUND'])
})

test('a webhook that comes before the answer to the creation confirms the order', async () => {
  const till = await openOwnShop(service, 'overtaken')
  await setFaults(service, { ...creation, kind: 'latency_after', delay_ms: 100, count: 1 })
  const charging = charge(service, till, { reference: 'W-2' })
  await expect
    .poll(() => ordersAtProvider(service, till).length, { interval: 5, timeout: 10_000 })
    .toBe(1)
  const mpOrderId = ordersAtProvider(service, till)[0]?.id ?? ''
  await deliver(service, { dataId: mpOrderId })
  expect(await statesOf(mpOrderId)).toEqual(['processed'])
  const response = await charging
  expect(response.statusCode).toBe(201)
  expect((await orderRow(service, response.json().order_id)).mp_order_id).toBe(mpOrderId)
})

test('a webhook confirms an order whose answer was lost, whatever account its body names', async () => {
  const till = await openOwnShop(service, 'adopted')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'W-3' })).json()
  await clearFaults(service)
  const mpOrderId = ordersAtProvider(service, till)[0]?.id ?? ''
  await deliver(service, { dataId: mpOrderId, body: { user_id: '1' } })
  expect(await logsOf(mpOrderId)).toMatchObject([
    { status: 'processed', client: till.client, order_id },
  ])
  expect(await orderRow(service, order_id)).toMatchObject({
    creation: 'confirmed',
    mp_order_id: mpOrderId,
  })
  const created = await auditOf(service, till.client, 'order.created')
  expect(created.map((entry) => entry.status)).toEqual(['failed', 'success'])
})

test('T30: webhooks out of order end in the provider’s state, and never go back', async () => {
  const { till, orderId, mpOrderId } = await openOrder('shuffled')
  await act(service, orderId, payByCard)
  await sandboxRefund(service, ordersAtProvider(service, till)[0] as never)
  for (const action of ['order.refunded', 'order.processed', 'order.action_required']) {
    await deliver(service, { dataId: mpOrderId, body: { action, data: { id: mpOrderId } } })
  }
  expect(await localStatus(till)).toBe('refunded')
  expect(await statesOf(mpOrderId)).toEqual(['processed', 'duplicate', 'duplicate'])
})

test('a payment that a webhook finds after a cancel is shown as paid_after_close', async () => {
  const { till, orderId, mpOrderId } = await openOrder('paid late')
  await cancel(service, till, orderId)
  await act(service, orderId, { ...payByCard, force: true })
  await deliver(service, { dataId: mpOrderId })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'canceled',
    paid_after_close: true,
    outcome: 'charged',
    retry_safe: false,
  })
})

test('a payment made while the shop was disconnected is found after it is connected again, a day later', {
  tags: ['long'],
}, async () => {
  const { till, orderId, mpOrderId } = await openOrder('unplugged and paid')
  await cancel(service, till, orderId)
  await act(service, orderId, { ...payByCard, force: true })
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  await deliver(service, { dataId: mpOrderId })
  for (let tries = 0; tries < 24; tries += 1) {
    service.clock.advance(3600_000)
    await service.inbox.workDue()
  }
  expect(await statesOf(mpOrderId)).toEqual(['failed'])
  await connect(service, till.client, String(till.mpUserId))
  service.clock.advance(3600_000)
  await service.inbox.workDue()
  expect(await statesOf(mpOrderId)).toEqual(['processed'])
  expect(await orderRow(service, orderId)).toMatchObject({ paid_after_close: true })
})

test('a webhook that cannot be processed is given up after three days', async () => {
  const { till, mpOrderId } = await openOrder('unplugged for good')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  await deliver(service, { dataId: mpOrderId })
  service.clock.advance(73 * 3600_000)
  expect(await service.inbox.workDue()).toBe(1)
  service.clock.advance(3600_000)
  expect(await service.inbox.workDue()).toBe(0)
  expect(await statesOf(mpOrderId)).toEqual(['failed'])
})

test('an unknown order, another topic and an odd id are accepted, logged and ignored', async () => {
  await forgetRequests(service)
  for (const [id, type] of [
    ['ORDTST01NOBODYKNOWSTHISONE0000', 'order'],
    ['112233445566', 'payment'],
    ['../../etc/passwd', 'order'],
    ['x'.repeat(900), 'order'],
  ] as const) {
    expect((await deliver(service, { dataId: id, type })).statusCode, id).toBe(200)
    expect((await logs())[0]).toMatchObject({ status: 'ignored', order_id: null, topic: type })
  }
})

test('a webhook finds that the connection was revoked at the provider', async () => {
  const till = await openOwnShop(service, 'unlinked')
  await fetch(`${service.sandbox.url}/_sandbox/users/${till.mpUserId}/revoke`, { method: 'POST' })
  await deliver(service, { dataId: String(till.mpUserId), type: 'mp-connect' })
  const { oauth } = (await asAdmin(service, { url: '/admin/clients/unlinked' })).json()
  expect(oauth.authenticated).toBe(false)
  await connect(service, 'unlinked', String(till.mpUserId))
})

test('a revoked connection is found by the user_id of the body when data.id names something else', async () => {
  const till = await openOwnShop(service, 'unlinked by seller')
  await fetch(`${service.sandbox.url}/_sandbox/users/${till.mpUserId}/revoke`, { method: 'POST' })
  const body = { action: 'application.deauthorized', user_id: till.mpUserId, type: 'mp-connect' }
  await deliver(service, { dataId: 'resource-1', type: 'mp-connect', body })
  const { oauth } = (
    await asAdmin(service, { url: '/admin/clients/unlinked%20by%20seller' })
  ).json()
  expect(oauth.authenticated).toBe(false)
  await connect(service, 'unlinked by seller', String(till.mpUserId))
})

test('a flood of genuine webhooks is processed with at most one read each', {
  tags: ['long'],
}, async () => {
  const { till, orderId, mpOrderId } = await openOrder('flooded')
  await act(service, orderId, payByCard)
  await forgetRequests(service)
  await setFaults(service, { ...reading, kind: 'latency', delay_ms: 200, count: 8 })
  const deliveries = 24
  const answers = await Promise.all(
    Array.from({ length: deliveries }, () => deliver(service, { dataId: mpOrderId })),
  )
  expect(new Set(answers.map((answer) => answer.statusCode))).toEqual(new Set([200]))
  const states = await statesOf(mpOrderId)
  expect(states).toHaveLength(deliveries)
  expect(new Set(states)).toEqual(new Set(['processed', 'duplicate']))
  expect((await providerRequests(service, reading)).length).toBeLessThanOrEqual(deliveries)
  expect((await readOrder(service, till, orderId)).json().version).toBe(3)
})

test('the next process finishes what a crash left, and a failed webhook is tried again', async () => {
  const { till, orderId, mpOrderId } = await openOrder('crashed')
  await act(service, orderId, payByCard)
  // The state that a process leaves when it crashes right after its answer.
  await setFaults(service, { ...reading, kind: '500' })
  await deliver(service, { dataId: mpOrderId })
  await service.database.db
    .updateTable('webhook_log')
    .set({ status: 'received', attempts: 0, processed_at: null, error_message: null })
    .where('resource_id', '=', mpOrderId)
    .execute()
  service.clock.advance(31_000)
  await service.inbox.workDue()
  expect(await statesOf(mpOrderId)).toEqual(['failed'])
  await clearFaults(service)
  service.clock.advance(31_000)
  await service.inbox.workDue()
  expect(await statesOf(mpOrderId)).toEqual(['processed'])
  expect(await localStatus(till)).toBe('processed')
})

test('a webhook beyond the limit of concurrent work gives its lease back and is processed later', async () => {
  const till = await openOwnShop(service, 'Sin lugar')
  const { order_id } = (await charge(service, till, { reference: 'no room' })).json()
  await act(service, order_id, payByCard)
  const dataId = String((await orderRow(service, order_id)).mp_order_id)
  const { promise: released, resolve: goOn } = Promise.withResolvers<void>()
  const { promise: asked, resolve: reached } = Promise.withResolvers<void>()
  const { get } = service.deps.provider.orders
  service.deps.provider.orders.get = async (...args) => {
    reached()
    await released
    return get(...args)
  }
  try {
    const first = deliver(service, { dataId })
    await asked
    // For the same order, which is being read: it may announce a change after that read.
    const second = deliver(service, { dataId })
    const states = () =>
      service.database.db
        .selectFrom('webhook_log')
        .select(['status', 'next_attempt_at'])
        .where('resource_id', '=', dataId)
        .orderBy('received_at')
        .execute()
    await expect.poll(async () => (await states()).length).toBe(2)
    service.deps.provider.orders.get = get
    goOn()
    await Promise.all([first, second])
    // One of the two found the order moved, the other is a duplicate.
    for (const { status } of await states()) expect(['processed', 'duplicate']).toContain(status)
    expect((await states()).map((row) => row.next_attempt_at)).toEqual([null, null])
  } finally {
    service.deps.provider.orders.get = get
    goOn()
  }
})
