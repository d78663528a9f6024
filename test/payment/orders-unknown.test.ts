import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { encodeReference } from '../../src/domain/provider-names.ts'
import {
  auditOf,
  cancel,
  canceling,
  clearFaults,
  creation,
  type FaultRule,
  forgetRequests,
  newAccount,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  readResolved,
  refund,
  setFaults,
  simulate,
  sweepAfter,
} from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  call,
  changeAccount,
  charge,
  connect,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

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
  proxy.target = service.sandbox.url
  await clearFaults(service)
})

/** Every way to lose the answer to a creation, and whether the provider has the order then. */
const lost: [string, Omit<FaultRule, 'path'>, boolean][] = [
  ['the connection drops before the effect', { kind: 'drop_before' }, false],
  ['the connection drops after the effect', { kind: 'drop_after' }, true],
  ['the answer is torn', { kind: 'torn_body' }, true],
  ['the provider hangs before the effect', { kind: 'hang_before' }, false],
  ['the provider hangs after the effect', { kind: 'hang_after' }, true],
  ['the provider answers 500', { kind: '500' }, false],
  ['the provider answers 503', { kind: '503' }, false],
  [
    'the provider cannot check the key',
    { kind: 'status', status: 500, code: 'idempotency_validation_failed' },
    false,
  ],
  [
    'the provider still processes it',
    { kind: 'status', status: 423, code: 'resource_locked' },
    false,
  ],
  [
    'the provider reports the key as used',
    { kind: 'status', status: 409, code: 'idempotency_key_already_used' },
    false,
  ],
]

test.each(lost)(
  'when %s on every attempt, the charge is unknown and stays one order',
  { tags: ['long'] },
  async (name, fault, made) => {
    const till = await openOwnShop(service, `lost ${name}`)
    await setFaults(service, { ...creation, ...fault })
    const response = await charge(service, till, { reference: 'U-1' })
    expect(response.statusCode).toBe(504)
    expect(response.json()).toMatchObject({
      code: 'PROVIDER_TIMEOUT',
      outcome: 'unknown',
      retry_safe: true,
      order_id: expect.any(String),
      status: 'created',
    })
    const { order_id } = response.json()
    const repeated = await charge(service, till, { reference: 'U-1' })
    expect([repeated.statusCode, repeated.json().order_id]).toEqual([504, order_id])

    const unresolved = await readOrder(service, till, order_id)
    expect([unresolved.statusCode, unresolved.headers['x-order-stale']]).toEqual([200, 'true'])
    expect(unresolved.json()).toMatchObject({
      status: 'created',
      status_detail: null,
      outcome: 'unknown',
      retry_safe: false,
      stale: true,
      payments: [],
      mp_order_id: null,
      cashier: { action: 'wait', retry_safe: false },
    })
    expect(ordersAtProvider(service, till)).toHaveLength(made ? 1 : 0)

    await clearFaults(service)
    await sweepAfter(service, 60_000)
    expect(ordersAtProvider(service, till)).toHaveLength(1)
    expect((await readOrder(service, till, order_id)).json()).toMatchObject({
      status: 'created',
      status_detail: 'created',
      mp_order_id: ordersAtProvider(service, till)[0]?.id,
      stale: false,
    })
    const again = await charge(service, till, { reference: 'U-1' })
    expect([again.statusCode, again.json().order_id]).toEqual([200, order_id])
    const audit = await auditOf(service, till.client, 'order.created')
    expect(audit.map((entry) => entry.status)).toEqual(['failed', 'failed', 'success'])
  },
)

test.each(lost)('when %s once, a retry under the same key succeeds', async (name, fault) => {
  const till = await openOwnShop(service, `once ${name}`)
  await forgetRequests(service)
  await setFaults(service, { ...creation, ...fault, count: 1 })
  const response = await charge(service, till, { reference: 'U-2' })
  const sent = await providerRequests(service, creation)
  expect(new Set(sent.map((request) => request.headers['x-idempotency-key'])).size).toBe(1)
  expect(new Set(sent.map((request) => JSON.stringify(request.body))).size).toBe(1)
  // A key reported as used is not repeated at once: time or a person must settle it.
  const repeatable = fault.code !== 'idempotency_key_already_used'
  expect(response.statusCode).toBe(repeatable ? 201 : 504)
  expect(sent).toHaveLength(repeatable ? 2 : 1)
  expect(ordersAtProvider(service, till)).toHaveLength(repeatable ? 1 : 0)
})

test.each([
  ['429', { kind: '429' }, 429, 'RATE_LIMITED'],
  [
    'an unknown property',
    { kind: 'status', status: 400, code: 'unsupported_properties' },
    502,
    'PROVIDER_REJECTED',
  ],
  [
    'a foreign terminal',
    { kind: 'status', status: 403, code: 'forbidden_checking_terminal_owner' },
    404,
    'TERMINAL_NOT_FOUND',
  ],
  [
    'blocked credentials',
    { kind: 'status', status: 403, code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES' },
    502,
    'PROVIDER_REJECTED',
  ],
] as const)(
  'a definite refusal (%s) of the first call is not charged and may be tried again',
  { tags: ['long'] },
  async (name, fault, status, code) => {
    const till = await openOwnShop(service, `refused ${name}`)
    await setFaults(service, { ...creation, ...fault })
    const response = await charge(service, till, { reference: 'U-3' })
    expect(response.statusCode).toBe(status)
    expect(response.json()).toMatchObject({ code, outcome: 'not_charged', retry_safe: true })
    expect(response.body).not.toContain('The sandbox is set')
    const [local] = (await call(service, { url: '/orders', token: till.key })).json().orders
    expect(local).toMatchObject({
      status: 'failed',
      status_detail: 'not_created',
      outcome: 'not_charged',
      retry_safe: true,
      cashier: { action: 'charge_again' },
    })
    await clearFaults(service)
    await sweepAfter(service, 60_000)
    expect(ordersAtProvider(service, till)).toHaveLength(0)
    expect((await charge(service, till, { reference: 'U-3' })).statusCode).toBe(201)
  },
)

test('a charge is not_charged when the provider cannot be reached, and is never sent later', async () => {
  const till = await openOwnShop(service, 'unreachable')
  proxy.alter = (_answer, { path }) => {
    if (path.startsWith('/terminals')) proxy.vanish()
    return undefined
  }
  const response = await charge(service, till, { reference: 'U-4' })
  expect(response.statusCode).toBe(502)
  expect(response.json()).toMatchObject({
    code: 'PROVIDER_ERROR',
    outcome: 'not_charged',
    retry_safe: true,
  })
  await proxy.comeBack()
  proxy.alter = undefined
  await sweepAfter(service, 60_000)
  expect(ordersAtProvider(service, till)).toEqual([])
})

test.each([
  [
    'blocked credentials',
    { kind: 'status', status: 403, code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES' },
  ],
  ['too many requests', { kind: '429' }],
  ['a lost permission', { kind: 'status', status: 401, code: 'unauthorized' }],
  ['an unreadable refusal', { kind: 'status', status: 403, code: '' }],
] as const)(
  'after a lost answer, %s proves nothing: the order stays unknown',
  async (name, fault) => {
    const till = await openOwnShop(service, `proof ${name}`)
    await setFaults(service, { ...creation, kind: 'drop_after' })
    const { order_id } = (await charge(service, till, { reference: 'U-5' })).json()
    await setFaults(service, { ...creation, ...fault })
    await sweepAfter(service, 60_000)
    const asked = await charge(service, till, { reference: 'U-5' })
    expect(asked.json()).toMatchObject({ outcome: 'unknown', order_id })
    expect((await orderRow(service, order_id)).status).toBe('created')

    await clearFaults(service)
    const found = await charge(service, till, { reference: 'U-5' })
    expect([found.statusCode, found.json().order_id]).toEqual([200, order_id])
    expect(ordersAtProvider(service, till)).toHaveLength(1)
  },
)

test.each([
  ['the connection is lost', undefined],
  ['the new token gets a 429', { status: 429, body: { errors: [{ code: 'too_many_requests' }] } }],
  [
    'the quota of requests is used up',
    { status: 429, body: { errors: [{ code: 'usage_quota_exceeded' }] } },
  ],
])(
  'after a lost answer and a refused token, %s: the charge stays unknown',
  { tags: ['long'] },
  async (name, second) => {
    const till = await openOwnShop(service, `refused token ${name}`)
    let isRenewed = false
    proxy.alter = (_answer, { method, path }) => {
      const refused = { status: 401, body: { code: 'unauthorized' } }
      if (path === '/oauth/token') isRenewed = true
      // Without a new token the old one is tried where it has no effect.
      if (path === '/users/me') return second ? undefined : refused
      if (method !== 'POST' || path !== '/v1/orders') return undefined
      return isRenewed ? second : refused
    }
    const noRenewal = { path: '/oauth/token', kind: 'status', status: 400, code: 'invalid_grant' }
    await setFaults(
      service,
      { ...creation, kind: 'drop_after', count: 1 },
      ...(second ? [] : [noRenewal]),
    )
    const response = await charge(service, till, { reference: 'U-20' })
    expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'created' }])
    expect([response.statusCode, response.json().code]).toEqual([504, 'PROVIDER_TIMEOUT'])
    expect(response.json()).toMatchObject({
      outcome: 'unknown',
      retry_safe: true,
      status: 'created',
    })

    proxy.alter = undefined
    await clearFaults(service)
    if (!second) await connect(service, till.client, String(till.mpUserId))
    await sweepAfter(service, 60_000)
    const found = await charge(service, till, { reference: 'U-20' })
    expect([found.statusCode, found.json().order_id]).toEqual([200, response.json().order_id])
    expect(ordersAtProvider(service, till)).toHaveLength(1)
  },
)

test('a definite refusal of the repeated key proves that the order never existed', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'never there')
  await setFaults(service, { ...creation, kind: 'drop_before' })
  const { order_id } = (await charge(service, till, { reference: 'U-6' })).json()
  await setFaults(service, { ...creation, kind: 'status', status: 400, code: 'property_value' })
  await sweepAfter(service, 60_000)
  // On a busy machine the first of these attempts may itself time out after half a second.
  await sweepAfter(service, 5_000)
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    status: 'failed',
    status_detail: 'not_created',
    outcome: 'not_charged',
    stale: false,
  })
})

test.each([
  ['amount', { transactions: { payments: [{ id: 'PAY1', amount: '1.00', status: 'created' }] } }],
  ['reference', { external_reference: 'SOMEBODY-ELSE' }],
  ['account', { user_id: '999' }],
])('an answer with another %s confirms nothing and is flagged', async (name, fields) => {
  const till = await openOwnShop(service, `conflict ${name}`)
  proxy.alter = ({ status, body }, { method, path }) =>
    method === 'POST' && path === '/v1/orders'
      ? { status, body: { ...body, ...fields } }
      : undefined
  const response = await charge(service, till, { reference: 'U-7' })
  expect([response.statusCode, response.json().outcome]).toEqual([504, 'unknown'])
  const row = await orderRow(service, response.json().order_id)
  expect(row).toMatchObject({ creation: 'unknown', mp_order_id: null, status: 'created' })
  expect(row.conflict).toContain(name)

  proxy.alter = undefined
  await sweepAfter(service, 60_000)
  expect((await readOrder(service, till, row.id)).json()).toMatchObject({ stale: false })
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('T32: answers that cannot be parsed leave the charge unknown', async () => {
  const till = await openOwnShop(service, 'unreadable')
  for (const body of [
    {},
    { id: 7 },
    {
      id: 'ORD1',
      status: 'created',
      transactions: { payments: [{ id: 'P', amount: 'x', status: 'created' }] },
    },
  ]) {
    proxy.alter = (answer, { method, path }) =>
      method === 'POST' && path === '/v1/orders' ? { status: answer.status, body } : undefined
    const response = await charge(service, till, { reference: 'U-8' })
    expect([response.statusCode, response.json().outcome]).toEqual([504, 'unknown'])
  }
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('the cancel of an unknown charge is stored and made as soon as the order is found', async () => {
  const till = await openOwnShop(service, 'given up')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'U-9' })).json()
  await setFaults(service, { path: '^/v1/orders$', kind: 'drop_after' })
  const response = await cancel(service, till, order_id)
  expect(response.statusCode).toBe(504)
  expect(response.json()).toMatchObject({ outcome: 'unknown', retry_safe: true, order_id })
  await clearFaults(service)
  await sweepAfter(service, 60_000)
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    status: 'canceled',
    outcome: 'not_charged',
  })
  expect((await cancel(service, till, order_id)).statusCode).toBe(200)
  const actions = (await auditOf(service, till.client)).filter(
    (entry) => entry.status === 'success',
  )
  expect(actions.map((entry) => entry.action).slice(-2)).toEqual([
    'order.created',
    'order.canceled',
  ])
})

test.each([
  { isCanceled: true, name: 'was canceled' },
  { isCanceled: false, name: 'was not repeated in its time' },
])(
  'a charge that never reached the provider and $name is not made later',
  async ({ isCanceled }) => {
    const till = await openOwnShop(service, `too late ${isCanceled}`)
    await setFaults(service, { ...creation, kind: 'drop_before' })
    const { order_id } = (await charge(service, till, { reference: 'U-19' })).json()
    if (isCanceled) expect((await cancel(service, till, order_id)).statusCode).toBe(504)
    service.clock.advance(20 * 60_000)
    await clearFaults(service)
    await forgetRequests(service)
    expect((await readResolved(service, till, order_id)).json()).toMatchObject({
      status: 'failed',
      status_detail: 'not_created',
      outcome: 'not_charged',
    })
    await sweepAfter(service, 2_100)
    expect(await providerRequests(service, creation)).toEqual([])
    expect(ordersAtProvider(service, till)).toEqual([])
  },
)

test('a charge repeated after its expiry gets its full time again', async () => {
  const till = await openOwnShop(service, 'made late')
  await setFaults(service, { ...creation, kind: 'drop_before' })
  const { order_id } = (await charge(service, till, { reference: 'U-25' })).json()
  service.clock.advance(20 * 60_000)
  await clearFaults(service)
  const late = await charge(service, till, { reference: 'U-25' })
  expect(late.json()).toMatchObject({ order_id, status: 'created' })
  const leftMs = Date.parse(late.json().expires_at) - service.clock.now().getTime()
  expect(leftMs).toBeGreaterThan(15 * 60_000)
  await sweepAfter(service, 5_000)
  await sweepAfter(service, 60_000)
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'created' }])
})

test.each([
  ['its creation', creation, 'created'],
  ['its cancel', canceling, 'canceled'],
] as const)(
  'a charge canceled while %s was unknown ends as canceled before the same ticket is charged again',
  async (name, lostCall, left) => {
    const till = await openOwnShop(service, `again after ${name}`)
    if (lostCall === creation) await setFaults(service, { ...creation, kind: 'drop_after' })
    const { order_id } = (await charge(service, till, { reference: 'U-21' })).json()
    const searching = { path: '^/v1/orders$', method: 'GET' }
    const silent = [creation, searching, reading, canceling].map((rule) => ({
      ...rule,
      kind: 'drop_after',
    }))
    await setFaults(service, ...silent)
    expect((await cancel(service, till, order_id)).statusCode).toBe(504)
    expect((await readOrder(service, till, order_id)).json().cashier.action).toBe('wait')

    const stillSilent = await charge(service, till, { reference: 'U-21' })
    expect([stillSilent.statusCode, stillSilent.json().order_id]).toEqual([504, order_id])
    expect(ordersAtProvider(service, till)).toMatchObject([{ status: left }])

    await clearFaults(service)
    const again = await charge(service, till, { reference: 'U-21' })
    expect([again.statusCode, again.json().status]).toEqual([201, 'created'])
    await sweepAfter(service, 60_000)
    expect(ordersAtProvider(service, till).map(({ status }) => status)).toEqual([
      'canceled',
      'created',
    ])
  },
)

test('a charge canceled while unknown is answered as canceled under its Idempotency-Key, and no other is made', async () => {
  const till = await openOwnShop(service, 'keyed and given up')
  const sale = { reference: 'U-22', headers: { 'idempotency-key': 'given-up' } }
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, sale)).json()
  await setFaults(service, { path: '^/v1/orders$', kind: 'drop_after' })
  expect((await cancel(service, till, order_id)).statusCode).toBe(504)
  await clearFaults(service)
  const again = await charge(service, till, sale)
  expect(again.statusCode).toBe(200)
  expect(again.json()).toMatchObject({ order_id, status: 'canceled', outcome: 'not_charged' })
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
})

test.each([
  ['a cancel', 4_000, /./, (till: Till, id: string) => cancel(service, till, id)],
  ['a refund', 10_000, /./, (till: Till, id: string) => refund(service, till, id)],
  [
    'a charge after an expired order',
    10_000,
    /cancel$/,
    (till: Till) => charge(service, till, { reference: 'U-24' }),
  ],
] as const)(
  'however slow the provider is, %s begins no call after the deadline of its request',
  async (name, tookMs, slow, ask) => {
    const till = await openOwnShop(service, `slow ${name}`)
    const { order_id } = (await charge(service, till, { reference: 'U-23' })).json()
    if (name === 'a refund') {
      await act(service, order_id, payByCard)
      await readOrder(service, till, order_id)
    }
    await service.database.db
      .updateTable('orders')
      .set({ expires_at: service.clock.now() })
      .where('id', '=', order_id)
      .execute()
    service.clock.advance(60_000)
    // The monotonic clock advances too.
    let tookMsInAll = 0
    const nowMs = performance.now.bind(performance)
    const time = vi.spyOn(performance, 'now').mockImplementation(() => nowMs() + tookMsInAll)
    onTestFinished(() => time.mockRestore())
    const askedAt = performance.now()
    const begunAfterMs: number[] = []
    proxy.alter = (_answer, { path }) => {
      begunAfterMs.push(performance.now() - askedAt)
      if (!slow.test(path)) return undefined
      service.clock.advance(tookMs)
      tookMsInAll += tookMs
      return { status: 500, body: {} }
    }
    const { outcome } = (await ask(till, order_id)).json()
    expect(['unknown', 'not_charged']).toContain(outcome)
    expect(begunAfterMs.length).toBeGreaterThan(2)
    expect(Math.max(...begunAfterMs)).toBeLessThan(24_000)
  },
)

test('the cancel of an unknown charge cancels at once when the order is found at once', async () => {
  const till = await openOwnShop(service, 'turns up')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'U-10' })).json()
  await clearFaults(service)
  const response = await cancel(service, till, order_id)
  expect([response.statusCode, response.json().status]).toEqual([200, 'canceled'])
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
})

test('an unknown charge can be neither refunded nor simulated', async () => {
  const till = await openOwnShop(service, 'no refund yet')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'U-11' })).json()
  const refused = await refund(service, till, order_id)
  expect([refused.statusCode, refused.json().outcome]).toEqual([504, 'unknown'])
  const simulated = await simulate(service, order_id, { status: 'processed' })
  expect([simulated.statusCode, simulated.json().code]).toEqual([409, 'CONFLICT'])
})

test('after the provider has forgotten the key it is not sent again; a search may still find the order', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'a day later')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'U 12' })).json()
  await forgetRequests(service)
  await setFaults(service, { path: '^/v1/orders$', method: 'GET', kind: '500' })
  await sweepAfter(service, 23.5 * 3600_000)
  const asked = await charge(service, till, { reference: 'U 12' })
  expect(asked.json()).toMatchObject({ outcome: 'unknown', order_id })
  expect((await readResolved(service, till, order_id)).json().outcome).toBe('unknown')
  expect(await providerRequests(service, creation)).toEqual([])

  await clearFaults(service)
  expect((await readResolved(service, till, order_id)).json()).toMatchObject({
    status: 'expired',
    outcome: 'not_charged',
    mp_order_id: ordersAtProvider(service, till)[0]?.id,
  })
  expect(await providerRequests(service, creation)).toEqual([])
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('an order is still searched for two days later when the provider had only refused the token', async () => {
  const till = await openOwnShop(service, 'two days later')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'U-21' })).json()
  await setFaults(service, { path: '^/v1/orders$', method: 'GET', kind: 'status', status: 401 })
  await sweepAfter(service, 50 * 3600_000)
  expect((await orderRow(service, order_id)).creation).toBe('unknown')
  await clearFaults(service)
  await sweepAfter(service, 10_000)
  expect(await orderRow(service, order_id)).toMatchObject({
    creation: 'confirmed',
    mp_order_id: ordersAtProvider(service, till)[0]?.id,
  })
})

test('a search result with another terminal or amount is not taken for the order', async () => {
  const till = await openOwnShop(service, 'not the one')
  await setFaults(service, { ...creation, kind: 'drop_before' })
  const { order_id } = (await charge(service, till, { reference: 'U-13' })).json()
  await clearFaults(service)
  service.clock.advance(23.5 * 3600_000)
  const hit = (fields: object) => ({
    id: `ORDTST${'0'.repeat(25)}1`,
    status: 'processed',
    user_id: String(till.mpUserId),
    external_reference: encodeReference('U-13', 1),
    config: { point: { terminal_id: till.terminalId } },
    transactions: { payments: [{ id: 'PAY1', amount: '1234.50', status: 'processed' }] },
    ...fields,
  })
  const answerSearch = (fields: object) => {
    proxy.alter = (_answer, { path }) =>
      path.startsWith('/v1/orders?') ? { status: 200, body: { data: [hit(fields)] } } : undefined
  }
  for (const fields of [
    { config: { point: { terminal_id: 'NEWLAND_N950__OTHER' } } },
    { transactions: { payments: [{ id: 'PAY1', amount: '1234.51', status: 'processed' }] } },
  ]) {
    answerSearch(fields)
    expect((await readResolved(service, till, order_id)).json()).toMatchObject({
      status: 'created',
      outcome: 'unknown',
    })
  }
  answerSearch({ integration_data: { application_id: service.sandbox.info.client_id } })
  expect((await readResolved(service, till, order_id)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
  })
})

test('an order that no search finds counts as never made, and is reopened if it appears later', async () => {
  const till = await openOwnShop(service, 'nowhere')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'U-26' })).json()
  await clearFaults(service)
  const [made] = ordersAtProvider(service, till)
  await actAtProvider(made?.id, { do: 'fetch' })
  await actAtProvider(made?.id, payByCard)
  service.clock.advance(23.5 * 3600_000)
  proxy.alter = (_answer, { path }) =>
    path.startsWith('/v1/orders?') ? { status: 200, body: { data: [] } } : undefined
  expect((await readResolved(service, till, order_id)).json()).toMatchObject({
    status: 'failed',
    status_detail: 'not_created',
    outcome: 'not_charged',
  })
  proxy.alter = undefined
  await sweepAfter(service, 5 * 60_000)
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    outcome: 'charged',
    paid_after_close: true,
    cashier: { action: 'call_supervisor' },
  })
})

async function actAtProvider(id: string | undefined, action: object): Promise<void> {
  await sandboxCall(service, 'POST', `/_sandbox/orders/${id}/act`, action)
}

test('an unknown order of a former account is neither sent to the new one nor closed', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'moved')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'U-14' })).json()
  await clearFaults(service)
  const moved = await changeAccount(service, till, newAccount())
  await forgetRequests(service)
  await sweepAfter(service, 60_000)
  expect((await readOrder(service, moved, order_id)).json()).toMatchObject({
    status: 'created',
    outcome: 'unknown',
    stale: true,
  })
  const sent = await providerRequests(service, creation)
  expect(sent.filter(({ user_id }) => user_id === moved.mpUserId)).toEqual([])

  const back = await changeAccount(service, till, String(till.mpUserId))
  expect((await readResolved(service, back, order_id)).json()).toMatchObject({
    mp_order_id: ordersAtProvider(service, till)[0]?.id,
    stale: false,
  })
})

test('without key and duplicate guard a repeated unknown charge is not retry_safe', {
  tags: ['long'],
}, async () => {
  const open = await startTestService({
    env: { DUPLICATE_ORDER_GUARD: 'off', PROVIDER_TIMEOUT_MS: '500' },
    hangsAreShort: true,
  })
  try {
    const till = await openOwnShop(open, 'unguarded')
    await setFaults(open, { ...creation, kind: 'drop_after' })
    const bare = await charge(open, till, { reference: 'U-15' })
    expect(bare.json()).toMatchObject({ outcome: 'unknown', retry_safe: false })
    expect(bare.json().error).toContain('do not charge again')
    await clearFaults(open)
    await readResolved(open, till, bare.json().order_id)
    await act(open, bare.json().order_id, payByCard)
    await readOrder(open, till, bare.json().order_id)

    await setFaults(open, { ...creation, kind: 'drop_after' })
    const keyed = { reference: 'U-16', headers: { 'idempotency-key': 'k' } }
    expect((await charge(open, till, keyed)).json()).toMatchObject({
      outcome: 'unknown',
      retry_safe: true,
    })
  } finally {
    await open.stop()
  }
})

test('when the query for an equal charge fails, the outcome is unknown, never not_charged', async () => {
  const till = await openOwnShop(service, 'no query')
  const { order_id } = (await charge(service, till, { reference: 'U-20' })).json()
  await act(service, order_id, payByCard)
  await service.database.db.schema.alterTable('orders').renameTo('orders_away').execute()
  const blind = await charge(service, till, { reference: 'U-20' })
  await service.database.db.schema.alterTable('orders_away').renameTo('orders').execute()
  expect(blind.statusCode).toBe(500)
  expect(blind.json()).toMatchObject({ outcome: 'unknown', retry_safe: true })
  expect((await charge(service, till, { reference: 'U-20' })).json()).toMatchObject({
    code: 'ORDER_ALREADY_PAID',
    outcome: 'charged',
    order_id,
  })
})

test('a read of a charge of unknown outcome sends nothing and wakes the sweeper, which finds the outcome', async () => {
  const till = await openOwnShop(service, 'read while unknown')
  await setFaults(service, { ...creation, kind: 'drop_before' })
  const { order_id } = (await charge(service, till, { reference: 'U-18' })).json()
  await clearFaults(service)
  await forgetRequests(service)
  const wake = vi.spyOn(service.sweeper, 'wake')
  onTestFinished(() => wake.mockRestore())
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    outcome: 'unknown',
    stale: true,
  })
  expect(await providerRequests(service, creation)).toEqual([])
  expect(await providerRequests(service, { path: '^/v1/orders', method: 'GET' })).toEqual([])
  expect(wake).toHaveBeenCalledOnce()
  // Its check is due at once, whenever it was planned before.
  await service.sweeper.sweepOnce()
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    mp_order_id: ordersAtProvider(service, till)[0]?.id,
    stale: false,
  })
  expect(await providerRequests(service, creation)).toHaveLength(1)
})

test('a read leaves a charge unchanged while its request holds the send lease', async () => {
  const till = await openOwnShop(service, 'read while sending')
  const { order_id } = (await charge(service, till, { reference: 'U-25' })).json()
  const next = new Date(service.clock.now().getTime() + 6_000)
  await service.database.db
    .updateTable('orders')
    .set({ creation: 'unknown', mp_order_id: null, sender: randomUUID(), next_check_at: next })
    .set({ sender_until: new Date(service.clock.now().getTime() + 5_000) })
    .where('id', '=', order_id)
    .execute()
  await readOrder(service, till, order_id)
  expect((await orderRow(service, order_id)).next_check_at).toEqual(next)
})

test('a read of a confirmed order creates nothing', async () => {
  const till = await openOwnShop(service, 'just reading')
  const { order_id } = (await charge(service, till, { reference: 'U-17' })).json()
  await forgetRequests(service)
  await readOrder(service, till, order_id)
  expect(await providerRequests(service, creation)).toEqual([])
  expect(await providerRequests(service, reading)).toHaveLength(1)
})
