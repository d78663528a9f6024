import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  cancel,
  clearFaults,
  creation,
  deliver,
  type FaultRule,
  forgetRequests,
  openOwnShop,
  orderRow,
  providerRequests,
  reading,
  refund,
  setFaults,
  simulate,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** Requests and calls in the timeline: requests of callers, and each of our calls to the provider. */
let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '2000' } })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

type Entry = Record<'kind' | 'source' | 'detail' | 'note' | 'at' | 'request_id', string | null> &
  Record<'http_status' | 'count' | 'duration_ms', number | null>

async function timelineOf(till: Pick<Till, 'key'>, orderId: string) {
  const answer = await call(service, { url: `/orders/${orderId}/timeline`, token: till.key })
  expect(answer.statusCode).toBe(200)
  return answer.json() as { complete: boolean; entries: Entry[] }
}

/** Requests and calls in order, in short: `request key createOrder 201`, `call api order.create 201`. */
async function callsOf(till: Pick<Till, 'key'>, orderId: string): Promise<string[]> {
  const { entries } = await timelineOf(till, orderId)
  return entries
    .filter(({ kind }) => kind === 'request' || kind === 'call')
    .map(({ kind, source, detail, http_status, note }) =>
      [kind, source, detail, http_status ?? '-', note].filter(Boolean).join(' '),
    )
}

async function openOrder(client: string, headers: Record<string, string> = {}) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'C-1', headers })).json()
  return { till, orderId: order_id as string }
}

test('requests and failed or writing calls are listed with their answers in order; other successes appear in the order itself', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await openOrder('recorded')
  await charge(service, till, { reference: 'C-1' })
  await act(service, orderId, payByCard)
  await sweepAfter(service, 5_000)
  await deliver(service, { dataId: (await orderRow(service, orderId)).mp_order_id as string })
  await readOrder(service, till, orderId)
  await refund(service, till, orderId, '999999,00')
  await refund(service, till, orderId, '10,00')
  await cancel(service, till, orderId)
  expect(await callsOf(till, orderId)).toEqual([
    'request key createOrder 200',
    'request key refundOrder 422 REFUND_AMOUNT_EXCEEDS',
    'request key refundOrder 200',
    expect.stringMatching(/^call api order\.refund 20[01]/),
    'request key cancelOrder 409 ORDER_NOT_CANCELABLE',
  ])
  const { entries, complete } = await timelineOf(till, orderId)
  expect(complete).toBe(true)
  const times = entries.map(({ at }) => at)
  expect(times).toEqual(times.toSorted())
  const kinds = entries.map(({ kind }) => kind)
  expect(kinds.slice(0, 3)).toEqual(['asked', 'sent', 'state'])
  expect(kinds).toContain('webhook')
  // The repeated request, the sweeper, the webhook and the read by the client were status checks.
  expect(entries.find(({ kind }) => kind === 'checked')?.count).toBeGreaterThanOrEqual(4)
  const refunded = entries.find(({ detail }) => detail === 'order.refund')
  const request = entries.find(
    ({ detail, http_status }) => detail === 'refundOrder' && http_status === 200,
  )
  expect(refunded?.duration_ms).toBeGreaterThanOrEqual(0)
  expect(refunded?.duration_ms).toBeLessThanOrEqual(request?.duration_ms as number)
})

test('a slow call is listed although it succeeded', async () => {
  const { till, orderId } = await openOrder('slow')
  const call = { client: till.client as never, order: orderId, status: 200, code: null, attempt: 1 }
  const at = service.clock.now()
  const read = { ...call, kind: 'provider' as const, operation: 'order.read', caller: 'api', at }
  service.deps.calls.note({ ...read, duration_ms: 1_999, request_id: 'fast' })
  service.deps.calls.note({ ...read, duration_ms: 2_000, request_id: 'slow' })
  const { entries } = await timelineOf(till, orderId)
  expect(entries.flatMap(({ request_id }) => request_id ?? [])).toEqual(['slow'])
})

test('a call without an answer, a refused call and each repetition are listed with what happened', async () => {
  const till = await openOwnShop(service, 'broken')
  await setFaults(service, { ...creation, kind: 'drop_after', count: 1 })
  const { order_id } = (await charge(service, till, { reference: 'C-1' })).json()
  await setFaults(service, { ...reading, kind: 'status', status: 503, count: 1 })
  await readOrder(service, till, order_id)
  const { entries } = await timelineOf(till, order_id)
  const calls = entries.filter(({ kind }) => kind === 'call')
  expect(calls.map((one) => [one.detail, one.http_status, one.count])).toEqual([
    ['order.create', null, 1],
    ['order.create', 201, 2],
    ['order.read', 503, 1],
    ['order.read', 200, 2],
  ])
  expect(calls[0]?.note).toMatch(/^[a-z_]+$/)
})

test('a failed request on an order is listed with its code; a request of another client is not recorded', async () => {
  const { till, orderId } = await openOrder('failing')
  const neighbour = await openOwnShop(service, 'neighbour')
  const before = await callsOf(till, orderId)
  expect((await readOrder(service, neighbour, orderId)).statusCode).toBe(404)
  expect((await cancel(service, neighbour, orderId)).statusCode).toBe(404)
  await call(service, {
    url: '/orders/refund',
    token: till.key,
    body: { order_id: orderId, amount: '1.50' },
  })
  await call(service, { url: `/orders/${encodeURIComponent(`\u0000${orderId}`)}`, token: till.key })
  expect((await callsOf(till, orderId)).slice(before.length)).toEqual([
    'request key refundOrder 422 VALIDATION_ERROR',
  ])
  const { count } = await service.database.db
    .selectFrom('order_calls')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('client', '=', neighbour.client as never)
    .executeTakeFirstOrThrow()
  expect(count).toBe(0)
})

test('requests of the administrator and of a page are listed by source; a page that only reads is not', async () => {
  const { till, orderId } = await openOrder('watched')
  const before = await callsOf(till, orderId)
  await asAdmin(service, { url: `/orders/${orderId}?client=${encodeURIComponent(till.client)}` })
  const signedIn = await call(service, { url: '/session', body: { token: till.key } })
  const cookie = String(signedIn.headers['set-cookie']).split(';')[0] as string
  const page = { cookie, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
  expect((await call(service, { url: `/orders/${orderId}`, headers: page })).statusCode).toBe(200)
  const canceled = await call(service, {
    url: '/orders/cancel',
    headers: page,
    body: { order_id: orderId },
  })
  expect(canceled.statusCode).toBe(200)
  await simulate(service, orderId, { status: 'processed' })
  const { entries } = await timelineOf(till, orderId)
  const requests = entries.filter(({ kind }) => kind === 'request')
  expect(before).toEqual([])
  expect(requests.map(({ source, detail }) => `${source} ${detail}`)).toEqual([
    'admin readOrder',
    'page cancelOrder',
  ])
})

test('a request whose client disconnected is listed as caller_gone, also the one that created the order', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'impatient')
  const url = service.app.server.listening
    ? service.app.listeningOrigin
    : await service.app.listen({ host: '127.0.0.1', port: 0 })
  const ask = (request: string, body = '') => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const headers = `host: till\r\nx-api-token: ${till.key}\r\ncontent-type: application/json\r\n`
    socket.write(`${request} HTTP/1.1\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`)
    return socket
  }
  const reached = async (rule: Pick<FaultRule, 'path' | 'method'>) =>
    (await providerRequests(service, rule)).length

  await forgetRequests(service)
  await setFaults(service, { ...creation, kind: 'latency_after', delay_ms: 300 })
  const body = { caja_id: 'CAJA-1', external_reference: 'C-1', amount: '5,00' }
  const charging = ask('POST /orders', JSON.stringify(body))
  await expect.poll(() => reached(creation)).toBe(1)
  charging.destroy()
  const id = async () =>
    (await call(service, { url: '/orders?external_reference=C-1', token: till.key })).json()
      .orders[0]?.order_id
  await expect.poll(id).toEqual(expect.any(String))
  const orderId = await id()
  await expect
    .poll(() => callsOf(till, orderId))
    .toContainEqual('request key createOrder - caller_gone')

  const waiting = ask(`GET /orders/${orderId}?wait=30`)
  await expect.poll(() => reached(reading)).toBeGreaterThan(0)
  waiting.destroy()
  await expect
    .poll(() => callsOf(till, orderId))
    .toContainEqual('request key readOrder - caller_gone')
})

test('a record that cannot be written is logged, and the charge succeeds', async () => {
  const till = await openOwnShop(service, 'unrecorded')
  const { schema } = service.database.db
  await schema.alterTable('order_calls').renameTo('order_calls_away').execute()
  try {
    const charged = await charge(service, till, { reference: 'C-1' })
    expect(charged.statusCode).toBe(201)
    expect((await charge(service, till, { reference: 'C-1' })).statusCode).toBe(200)
    await service.deps.calls.flush()
    expect(service.logLines.filter((line) => line.includes('order calls not logged'))).toHaveLength(
      1,
    )
  } finally {
    await schema.alterTable('order_calls_away').renameTo('order_calls').execute()
  }
  const again = (await charge(service, till, { reference: 'C-1' })).json()
  expect(await callsOf(till, again.order_id)).toContain('request key createOrder 200')
})

test('requests and calls are deleted after 30 days, the order and its moves stay', async () => {
  const { till, orderId } = await openOrder('old')
  await charge(service, till, { reference: 'C-1' })
  await refund(service, till, orderId)
  const begunAt = service.clock.now().getTime()
  const left = async () => {
    const { entries } = await timelineOf(till, orderId)
    const old = entries.filter(
      ({ at, kind }) => kind !== 'checked' && Date.parse(at as string) <= begunAt,
    )
    return new Set(old.map(({ kind, detail }) => (isCall(kind) ? detail : kind)))
  }
  const isCall = (kind: string | null) => kind === 'request' || kind === 'call'
  const all = new Set(['createOrder', 'asked', 'sent', 'state', 'refundOrder', 'action'])
  expect(await left()).toEqual(all)
  const dayMs = 24 * 3_600_000
  await sweepAfter(service, 29 * dayMs)
  expect(await left()).toEqual(all)
  await sweepAfter(service, dayMs + 1_000)
  expect(await left()).toEqual(new Set(['asked', 'sent', 'state', 'action']))
})

test('of more than a thousand calls the newest thousand are shown, and the timeline is marked as incomplete', async () => {
  const { till, orderId } = await openOrder('chatty')
  await service.deps.calls.flush()
  const at = service.clock.now()
  for (let index = 0; index < 1_001; index += 1) {
    service.deps.calls.note({
      order: orderId,
      client: till.client as never,
      kind: 'request',
      at,
      duration_ms: 1,
      operation: 'refundOrder',
      caller: 'key',
      status: 200,
      code: null,
      attempt: 1,
      request_id: null,
    })
  }
  const { entries, complete } = await timelineOf(till, orderId)
  expect(complete).toBe(false)
  expect(entries.filter(({ kind }) => kind === 'request' || kind === 'call')).toHaveLength(1_000)
})

test('the provider’s request id of a call is stored, for its support', async () => {
  const { till, orderId } = await openOrder('supported')
  await setFaults(service, { ...reading, kind: 'status', status: 404, count: 1 })
  await readOrder(service, till, orderId)
  const { entries } = await timelineOf(till, orderId)
  const calls = entries.filter(({ kind }) => kind === 'call')
  expect(calls.at(-1)).toMatchObject({ detail: 'order.read', http_status: 404 })
  expect(calls.every((entry) => typeof entry.request_id === 'string')).toBe(true)
})
