import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  auditOf,
  cancel,
  clearFaults,
  deliver,
  type FaultRule,
  forgetRequests,
  newAccount,
  openOwnShop,
  operationsOf,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  refund,
  refunding,
  sandboxRefund,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { rounds } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  call,
  changeAccount,
  charge,
  connect,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'

let service: TestService
let proxy: ProviderProxy
let till: Till
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '500' },
    hangsAreShort: true,
    provider: { apiUrl: proxy.url },
  })
  proxy.target = service.sandbox.url
  till = await openOwnShop(service, 'refunder')
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})
afterEach(async () => {
  proxy.alter = undefined
  await clearFaults(service)
})

let ticket = 0
/** A paid order of 100.00; its terminal is free again. */
async function paidOrder(
  action: Record<string, unknown> = payByCard,
  shop = till,
): Promise<string> {
  ticket += 1
  const created = await charge(service, shop, { reference: `R-${ticket}`, amount: '100,00' })
  expect(created.statusCode, created.body).toBe(201)
  const { order_id } = created.json()
  await act(service, order_id, action)
  await readOrder(service, shop, order_id)
  return order_id
}

const orderAtProvider = async (orderId: string) => {
  const { mp_order_id: id } = await orderRow(service, orderId)
  const providerOrder = service.sandbox.ledger().orders.find((order) => order.id === id)
  if (!providerOrder) throw new Error('the provider does not have the order')
  return providerOrder
}

test('a total refund answers the documented fields and the order is refunded', {
  tags: ['long'],
}, async () => {
  const orderId = await paidOrder()
  const response = await refund(service, till, orderId)
  expect(response.statusCode).toBe(200)
  expect(response.headers).not.toHaveProperty('idempotent-replayed')
  expect(response.json()).toEqual({
    message: expect.any(String),
    order_id: orderId,
    type: 'total',
    amount: '100.00',
    status: 'refunded',
    status_detail: 'refunded',
    outcome: 'not_charged',
    retry_safe: true,
  })
  const order = (await readOrder(service, till, orderId)).json()
  expect(order).toMatchObject({ status: 'refunded', outcome: 'not_charged' })
  const [made] = (await orderAtProvider(orderId)).refunds
  expect(order.refunds).toEqual([
    {
      id: made?.id,
      transaction_id: made?.transaction_id,
      reference_id: made?.reference_id,
      amount: '100.00',
      buyer_amount: null,
      status: 'processed',
      type: 'total',
      created_at: expect.stringMatching(/Z$/),
    },
  ])
})

test('partial refunds are possible up to the paid amount, which makes the order refunded', {
  tags: ['long'],
}, async () => {
  const orderId = await paidOrder()
  const first = await refund(service, till, orderId, '30,5')
  expect(first.json()).toMatchObject({
    type: 'partial',
    amount: '30.50',
    status: 'partially_refunded',
    status_detail: 'partially_refunded',
    outcome: 'charged',
    retry_safe: false,
  })
  expect((await refund(service, till, orderId, '30,50')).statusCode).toBe(200)
  const beyond = await refund(service, till, orderId, '39,01')
  expect(beyond.statusCode).toBe(422)
  expect(beyond.json()).toMatchObject({
    code: 'REFUND_AMOUNT_EXCEEDS',
    error: expect.stringContaining('39.00'),
    outcome: 'charged',
    retry_safe: false,
    order_id: orderId,
    status: 'partially_refunded',
  })
  const last = await refund(service, till, orderId, '39,00')
  expect(last.json()).toMatchObject({ type: 'partial', amount: '39.00', status: 'refunded' })
  const order = (await readOrder(service, till, orderId)).json()
  expect(
    order.refunds.map((made: { amount: string; type: string }) => [made.amount, made.type]),
  ).toEqual([
    ['30.50', 'partial'],
    ['30.50', 'partial'],
    ['39.00', 'partial'],
  ])
  expect((await orderAtProvider(orderId)).refunded_amount).toBe('100.00')
})

test('a total refund after a partial one refunds the rest', async () => {
  const orderId = await paidOrder()
  await refund(service, till, orderId, '30,00')
  const rest = await refund(service, till, orderId)
  expect(rest.json()).toMatchObject({ type: 'total', amount: '70.00', status: 'refunded' })
})

test('the whole amount given explicitly is a partial refund by type and refunds all', {
  tags: ['long'],
}, async () => {
  const orderId = await paidOrder()
  const whole = await refund(service, till, orderId, '100,00')
  expect(whole.json()).toMatchObject({ type: 'partial', amount: '100.00', status: 'refunded' })
})

test('a total refund includes the tip; a partial refund of a tipped order is 422', async () => {
  const orderId = await paidOrder({ ...payByCard, tip_amount: '10.00' })
  const all = await refund(service, till, orderId)
  expect(all.json()).toMatchObject({ amount: '110.00', status: 'refunded' })
  const tipped = await paidOrder({ ...payByCard, tip_amount: '10.00' })
  const part = await refund(service, till, tipped, '10,00')
  expect([part.statusCode, part.json().code]).toEqual([422, 'PARTIAL_REFUND_NOT_SUPPORTED'])
})

test('a method without partial refunds answers 422 to one, and the whole amount is refunded in either form', {
  tags: ['long'],
}, async () => {
  const transfer = { do: 'pay', payment_method_type: 'bank_transfer' }
  const orderId = await paidOrder(transfer)
  const part = await refund(service, till, orderId, '1,00')
  expect(part.statusCode).toBe(422)
  expect(part.json()).toMatchObject({
    code: 'PARTIAL_REFUND_NOT_SUPPORTED',
    outcome: 'charged',
    order_id: orderId,
    status: 'processed',
  })
  expect((await orderAtProvider(orderId)).refunded_amount).toBe('0.00')
  expect((await refund(service, till, orderId, '100,00')).json().status).toBe('refunded')
  expect((await refund(service, till, await paidOrder(transfer))).json().status).toBe('refunded')
})

test.each([
  ['created', async (_id: string) => {}],
  ['at_terminal', (id: string) => act(service, id, { do: 'fetch' })],
  ['action_required', (id: string) => act(service, id, { do: 'hold' })],
  ['canceled', (id: string) => act(service, id, { do: 'cancel' })],
  ['failed', (id: string) => act(service, id, { do: 'decline' })],
  ['expired', (id: string) => act(service, id, { do: 'expire' })],
])('an order in %s is not refundable', async (status, move) => {
  const shop = await openOwnShop(service, `state ${status}`)
  const { order_id } = (await charge(service, shop, { reference: 'S' })).json()
  await move(order_id)
  await forgetRequests(service)
  for (const amount of [undefined, '1,00']) {
    const response = await refund(service, shop, order_id, amount)
    expect(response.statusCode).toBe(409)
    expect(response.json()).toMatchObject({
      code: 'ORDER_NOT_REFUNDABLE',
      order_id,
      status,
      outcome: ['canceled', 'failed', 'expired'].includes(status) ? 'not_charged' : 'unknown',
      retry_safe: false,
    })
  }
  expect(await providerRequests(service, refunding)).toEqual([])
})

test('a refunded order answers ORDER_ALREADY_REFUNDED, in full and in part', async () => {
  const orderId = await paidOrder()
  await refund(service, till, orderId)
  for (const amount of [undefined, '1,00']) {
    const response = await refund(service, till, orderId, amount)
    expect(response.statusCode).toBe(409)
    expect(response.json()).toMatchObject({
      code: 'ORDER_ALREADY_REFUNDED',
      outcome: 'not_charged',
      order_id: orderId,
    })
  }
})

test('a refund made in the provider’s panel counts', { tags: ['long'] }, async () => {
  const orderId = await paidOrder()
  await sandboxRefund(service, await orderAtProvider(orderId), '60.00')
  const beyond = await refund(service, till, orderId, '50,00')
  expect([beyond.statusCode, beyond.json().code]).toEqual([422, 'REFUND_AMOUNT_EXCEEDS'])
  expect((await refund(service, till, orderId)).json()).toMatchObject({ amount: '40.00' })
  const { refunds } = (await readOrder(service, till, orderId)).json()
  expect(refunds).toMatchObject([
    { amount: '60.00', type: 'partial', created_at: null },
    { amount: '40.00', type: 'total', created_at: expect.any(String) },
  ])
  const all = await paidOrder()
  await sandboxRefund(service, await orderAtProvider(all))
  expect((await refund(service, till, all)).json().code).toBe('ORDER_ALREADY_REFUNDED')
  expect((await readOrder(service, till, all)).json().refunds).toMatchObject([{ type: 'total' }])
})

test('T29: two refunds at once never refund more than was paid, in every round', {
  tags: ['long'],
  timeout: rounds(60_000),
}, async () => {
  const shapes: (string | undefined)[][] = [
    [undefined, undefined],
    ['60,00', '60,00'],
    ['100,00', '100,00'],
    ['60,00', undefined],
    ['100,00', '1,00'],
  ]
  for (let round = 0; round < rounds(25); round += 1) {
    const orderId = await paidOrder()
    const amounts = shapes[round % shapes.length] ?? []
    const answers = await Promise.all(
      amounts.map((amount) => refund(service, till, orderId, amount)),
    )
    const providerOrder = await orderAtProvider(orderId)
    const order = (await readOrder(service, till, orderId)).json()
    expect(Number(providerOrder.refunded_amount)).toBeLessThanOrEqual(100)
    expect(order.refunds).toHaveLength(providerOrder.refunds.length)
    // On a busy machine the first may lose its answer; the second then continues it and is marked as replayed.
    const paidBack = answers.filter(
      ({ statusCode, headers }) => statusCode === 200 && headers['idempotent-replayed'] !== 'true',
    )
    expect(paidBack).toHaveLength(providerOrder.refunds.length)
    for (const answer of answers) expect([200, 409, 422]).toContain(answer.statusCode)
  }
})

const lost: [string, Omit<FaultRule, 'path'>, number][] = [
  ['drop_after', { kind: 'drop_after' }, 1],
  ['torn_body', { kind: 'torn_body' }, 1],
  ['hang_after', { kind: 'hang_after' }, 1],
  ['drop_before', { kind: 'drop_before' }, 0],
  ['500', { kind: '500' }, 0],
]

test.each(lost)(
  'after %s an equal request is the same refund at the provider',
  { tags: ['long'] },
  async (_name, fault, made) => {
    for (const amount of [undefined, '40,00']) {
      const orderId = await paidOrder()
      await setFaults(service, { ...refunding, ...fault })
      const unsure = await refund(service, till, orderId, amount)
      expect(unsure.statusCode).toBe(504)
      expect(unsure.json()).toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        outcome: 'unknown',
        retry_safe: true,
        order_id: orderId,
      })
      const other = await refund(service, till, orderId, '1,00')
      expect([other.statusCode, other.json().code]).toEqual([409, 'REFUND_IN_PROGRESS'])
      expect((await orderAtProvider(orderId)).refunds).toHaveLength(made)

      await clearFaults(service)
      const again = await refund(service, till, orderId, amount)
      expect(again.statusCode, again.body).toBe(200)
      expect((await orderAtProvider(orderId)).refunds).toHaveLength(1)
      expect((await operationsOf(service, orderId)).map((row) => row.state)).toEqual(['done'])
      expect((await readOrder(service, till, orderId)).json().refunds).toHaveLength(1)
    }
  },
)

test.each(lost)(
  'after %s the sweeper finishes the refund, and one equal request is its replay',
  async (name, fault) => {
    const orderId = await paidOrder()
    await setFaults(service, { ...refunding, ...fault })
    await refund(service, till, orderId, '40,00')
    await clearFaults(service)
    await sweepAfter(service, 60_000)
    expect((await operationsOf(service, orderId)).map((row) => row.state)).toEqual(['done'])
    expect((await orderRow(service, orderId)).refunded_cents).toBe(4_000)

    const again = await refund(service, till, orderId, '40,00')
    expect([again.statusCode, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
    expect(again.json()).toMatchObject({ type: 'partial', amount: '40.00' })
    expect((await orderAtProvider(orderId)).refunds).toHaveLength(1)
    // That was the replay of the first request; the next one is another refund.
    expect((await refund(service, till, orderId, '40,00')).statusCode).toBe(200)
    expect((await orderAtProvider(orderId)).refunds).toHaveLength(2)
    const audit = await auditOf(service, till.client, 'order.refunded')
    const mine = audit.filter((entry) => entry.resource_id === orderId)
    expect(
      mine.map((entry) => entry.status),
      name,
    ).toEqual(['failed', 'success', 'success'])
  },
)

test('a refund whose answer was lost stops answering equal requests after a day', async () => {
  const orderId = await paidOrder()
  await setFaults(service, { ...refunding, kind: 'drop_after' })
  await refund(service, till, orderId, '40,00')
  await clearFaults(service)
  await sweepAfter(service, 60_000)
  service.clock.advance(24 * 3600_000)
  const next = await refund(service, till, orderId, '40,00')
  expect(next.headers).not.toHaveProperty('idempotent-replayed')
  expect((await orderAtProvider(orderId)).refunds).toHaveLength(2)
})

test.each([
  ['429', { kind: '429' }],
  [
    'blocked credentials',
    { kind: 'status', status: 403, code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES' },
  ],
  ['refund_in_progress', { kind: 'status', status: 409, code: 'refund_in_progress' }],
] as const)(
  'once the answer was lost, %s does not count as “not refunded”',
  async (_name, fault) => {
    const orderId = await paidOrder()
    await setFaults(service, { ...refunding, kind: 'drop_after' })
    await refund(service, till, orderId, '40,00')
    await setFaults(service, { ...refunding, ...fault })
    await sweepAfter(service, 60_000)
    const asked = await refund(service, till, orderId, '40,00')
    expect(asked.json()).toMatchObject({ outcome: 'unknown', retry_safe: true })
    await clearFaults(service)
    expect((await refund(service, till, orderId, '40,00')).statusCode).toBe(200)
    expect((await orderAtProvider(orderId)).refunds).toHaveLength(1)
  },
)

test('once the answer was lost, an unreachable provider does not count as “not refunded”', async () => {
  const orderId = await paidOrder()
  await setFaults(service, { ...refunding, kind: 'drop_after' })
  await refund(service, till, orderId, '40,00')
  await clearFaults(service)
  proxy.vanish()
  service.clock.advance(60_000)
  const asked = await refund(service, till, orderId, '40,00')
  expect(asked.json()).toMatchObject({ outcome: 'unknown', retry_safe: true })
  await proxy.comeBack()
  expect((await refund(service, till, orderId, '40,00')).statusCode).toBe(200)
  expect((await orderAtProvider(orderId)).refunds).toHaveLength(1)
})

test.each([
  ['order_already_refunded', 409, 'ORDER_ALREADY_REFUNDED', 409],
  ['cannot_refund_order', 409, 'ORDER_NOT_REFUNDABLE', 409],
  ['refund_period_exceeded', 409, 'ORDER_NOT_REFUNDABLE', 409],
  ['payment_not_refundable', 422, 'ORDER_NOT_REFUNDABLE', 409],
  ['refund_amount_exceeds', 400, 'REFUND_AMOUNT_EXCEEDS', 422],
  ['unsupported_partially_refunds', 400, 'PARTIAL_REFUND_NOT_SUPPORTED', 422],
  ['partial_refund_forbidden_with_tips', 403, 'PARTIAL_REFUND_NOT_SUPPORTED', 422],
  ['insufficient_money_for_refund', 428, 'PROVIDER_REJECTED', 502],
] as const)('the provider’s %s ends the refund as %3$s', async (code, status, ours, answered) => {
  const orderId = await paidOrder()
  await setFaults(service, { ...refunding, kind: 'status', status, code })
  const response = await refund(service, till, orderId, '1,00')
  expect(response.statusCode).toBe(answered)
  expect(response.json()).toMatchObject({ code: ours, outcome: 'charged', order_id: orderId })
  expect((await operationsOf(service, orderId)).map((row) => row.state)).toEqual(['refused'])
  await clearFaults(service)
  expect((await refund(service, till, orderId, '1,00')).statusCode).toBe(200)
})

test.each([
  'refund_in_progress',
  'movement_operations_pending',
  'order_payment_not_yet_enabled_for_refund',
])('the provider’s %s keeps the refund open until it is made', async (code) => {
  const orderId = await paidOrder()
  await setFaults(service, { ...refunding, kind: 'status', status: 409, code })
  const response = await refund(service, till, orderId)
  expect([response.statusCode, response.json().code]).toEqual([409, 'REFUND_IN_PROGRESS'])
  expect(response.json()).toMatchObject({ outcome: 'unknown', retry_safe: true })
  await clearFaults(service)
  await sweepAfter(service, 60_000)
  expect((await orderRow(service, orderId)).status).toBe('refunded')
})

test.each([
  ['the provider fails', 502, 'PROVIDER_ERROR'],
  ['the client is disconnected', 409, 'OAUTH_NOT_CONNECTED'],
])(
  'a payment that was not read yet is not reported as not refundable while the provider cannot be read: %s',
  async (name, status, code) => {
    const shop = await openOwnShop(service, `unread ${name}`)
    const { order_id } = (await charge(service, shop, { reference: 'UNREAD' })).json()
    await act(service, order_id, payByCard)
    if (status === 409)
      await call(service, { method: 'POST', url: '/oauth/logout', token: shop.key })
    else await setFaults(service, { ...reading, kind: '500' })
    const response = await refund(service, shop, order_id, '10,00')
    expect([response.statusCode, response.json().code]).toEqual([status, code])
    expect(response.json()).toMatchObject({ outcome: 'unknown', retry_safe: true, order_id })
    await clearFaults(service)
    if (status === 409) await connect(service, shop.client, String(shop.mpUserId))
    expect((await refund(service, shop, order_id, '10,00')).statusCode).toBe(200)
    expect((await orderAtProvider(order_id)).refunds).toMatchObject([{ amount: '10.00' }])
  },
)

test('without a connection nothing is refunded, now or later', async () => {
  const shop = await openOwnShop(service, 'unplugged')
  const orderId = await paidOrder(payByCard, shop)
  await call(service, { method: 'POST', url: '/oauth/logout', token: shop.key })
  const response = await refund(service, shop, orderId, '10,00')
  expect([response.statusCode, response.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
  expect(response.json().outcome).toBe('charged')
  expect((await connect(service, 'unplugged', String(shop.mpUserId))).statusCode).toBe(200)
  await sweepAfter(service, 60_000)
  await sweepAfter(service, 60_000)
  expect((await orderAtProvider(orderId)).refunds).toEqual([])
})

test('a refund whose answer was lost before its token was refused is made once', async () => {
  const shop = await openOwnShop(service, 'refused token')
  const orderId = await paidOrder(payByCard, shop)
  proxy.alter = (_answer, { path }) =>
    path.endsWith('/refund') || path === '/users/me'
      ? { status: 401, body: { code: 'unauthorized' } }
      : undefined
  await setFaults(
    service,
    { ...refunding, kind: 'drop_after', count: 1 },
    { path: '/oauth/token', kind: 'status', status: 400, code: 'invalid_grant' },
  )
  const lostRefund = await refund(service, shop, orderId, '10,00')
  expect([lostRefund.statusCode, lostRefund.json().outcome]).toEqual([504, 'unknown'])
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'unknown' }])

  proxy.alter = undefined
  await clearFaults(service)
  await connect(service, 'refused token', String(shop.mpUserId))
  expect((await refund(service, shop, orderId, '10,00')).statusCode).toBe(200)
  expect((await orderAtProvider(orderId)).refunds).toMatchObject([{ amount: '10.00' }])
})

test('an order of a former account is not refunded on another account', async () => {
  const shop = await openOwnShop(service, 'other account')
  const orderId = await paidOrder(payByCard, shop)
  const moved = await changeAccount(service, shop, newAccount())
  const response = await refund(service, moved, orderId)
  expect([response.statusCode, response.json().code]).toEqual([409, 'ACCOUNT_MISMATCH'])
  expect(response.json()).toMatchObject({ outcome: 'charged', order_id: orderId })
})

test('a refund with an Idempotency-Key is replayed, and other content is a conflict', async () => {
  const orderId = await paidOrder()
  const other = await paidOrder()
  const first = await refund(service, till, orderId, '10,00', 'rk-1')
  expect(first.headers).not.toHaveProperty('idempotent-replayed')
  const again = await refund(service, till, orderId, '10,0', 'rk-1')
  expect([again.statusCode, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
  expect(again.json()).toEqual(first.json())
  for (const [id, amount] of [
    [orderId, '10,01'],
    [orderId, undefined],
    [other, '10,00'],
  ] as const) {
    const conflict = await refund(service, till, id, amount, 'rk-1')
    expect([conflict.statusCode, conflict.json().code]).toEqual([409, 'IDEMPOTENCY_CONFLICT'])
  }
  expect((await refund(service, till, orderId, '10,00', 'rk-2')).statusCode).toBe(200)
  expect((await orderAtProvider(orderId)).refunds).toHaveLength(2)
  expect((await orderAtProvider(other)).refunds).toHaveLength(0)
})

test('concurrent requests under one key are one refund, for one order and for two', {
  tags: ['long'],
}, async () => {
  for (let round = 0; round < 8; round += 1) {
    const [one, two] = [await paidOrder(), await paidOrder()]
    const same = await Promise.all(
      Array.from({ length: 4 }, () => refund(service, till, one, '10,00', `same-${round}`)),
    )
    expect(same.map((answer) => answer.statusCode)).toEqual([200, 200, 200, 200])
    expect((await orderAtProvider(one)).refunds).toHaveLength(1)
    const crossed = await Promise.all(
      [one, two].map((id) => refund(service, till, id, '20,00', `crossed-${round}`)),
    )
    expect(crossed.map((answer) => answer.statusCode).sort()).toEqual([200, 409])
    const made =
      (await orderAtProvider(one)).refunds.length + (await orderAtProvider(two)).refunds.length
    expect(made).toBe(2)
  }
})

test('a key whose refund the provider refused is free again', async () => {
  const orderId = await paidOrder()
  await setFaults(service, {
    ...refunding,
    kind: 'status',
    status: 409,
    code: 'cannot_refund_order',
  })
  await refund(service, till, orderId, '10,00', 'rk-free')
  await clearFaults(service)
  expect((await refund(service, till, orderId, '11,00', 'rk-free')).statusCode).toBe(200)
})

test('two refunds of one amount are two, and the older one does not prove a lost one', async () => {
  const orderId = await paidOrder()
  await refund(service, till, orderId, '10,00')
  await setFaults(service, { ...refunding, kind: 'drop_before' })
  expect((await refund(service, till, orderId, '10,00')).statusCode).toBe(504)
  await setFaults(service, { ...refunding, kind: '500' })
  await sweepAfter(service, 23.5 * 3600_000)
  // A second round, in case a busy machine answered the first read too late.
  await sweepAfter(service, 5_000)
  expect((await operationsOf(service, orderId)).map((row) => row.state)).toEqual([
    'done',
    'refused',
  ])
  expect((await orderAtProvider(orderId)).refunds).toHaveLength(1)
})

test('a refund whose client disconnected before the answer is replayed by the equal request', {
  tags: ['long'],
}, async () => {
  const url = await service.app.listen({ host: '127.0.0.1', port: 0 })
  const orderId = await paidOrder()
  await setFaults(service, { ...refunding, kind: 'latency_after', delay_ms: 100, count: 1 })
  await forgetRequests(service)
  const caller = new AbortController()
  const body = JSON.stringify({ order_id: orderId, amount: '25,00' })
  const headers = { 'content-type': 'application/json', 'x-api-token': till.key }
  const aborted = fetch(`${url}/orders/refund`, {
    method: 'POST',
    headers,
    body,
    signal: caller.signal,
  })
  aborted.catch(() => undefined)
  await expect.poll(() => providerRequests(service, refunding)).toHaveLength(1)
  caller.abort()
  await expect(aborted).rejects.toThrow()
  await expect
    .poll(async () => (await operationsOf(service, orderId))[0]?.state, { timeout: 10_000 })
    .toBe('done')
  const again = await refund(service, till, orderId, '25,00')
  expect([again.statusCode, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
  expect((await orderAtProvider(orderId)).refunds).toHaveLength(1)
  // The replay was answered: the next equal request is another refund.
  await refund(service, till, orderId, '25,00')
  expect((await orderAtProvider(orderId)).refunds).toHaveLength(2)
})

test('a lost refund older than the provider’s keys is settled by what the provider shows', async () => {
  const orderId = await paidOrder()
  await setFaults(service, { ...refunding, kind: 'drop_after' })
  expect((await refund(service, till, orderId, '10,00')).statusCode).toBe(504)
  await forgetRequests(service)
  await sweepAfter(service, 23.5 * 3600_000)
  expect(await providerRequests(service, refunding)).toEqual([])
  const [operation] = await operationsOf(service, orderId)
  expect(operation).toMatchObject({
    state: 'done',
    mp_refund_id: (await orderAtProvider(orderId)).refunds[0]?.id,
  })
  const audit = await auditOf(service, till.client, 'order.refunded')
  expect(audit.filter((entry) => entry.resource_id === orderId).at(-1)?.status).toBe('success')
})

test('a webhook that comes before the answer does not count the refund twice', async () => {
  const orderId = await paidOrder()
  await setFaults(service, { ...refunding, kind: 'drop_after' })
  await refund(service, till, orderId, '10,00')
  await clearFaults(service)
  await deliver(service, { dataId: (await orderAtProvider(orderId)).id })
  expect((await orderRow(service, orderId)).refunded_cents).toBe(1_000)
  expect((await refund(service, till, orderId, '10,00')).statusCode).toBe(200)
  expect((await orderRow(service, orderId)).refunded_cents).toBe(1_000)
})

test('an answer that does not show the refund is completed by a read', async () => {
  const orderId = await paidOrder()
  proxy.alter = ({ status, body }, { path }) =>
    path.endsWith('/refund')
      ? { status, body: { id: body.id, status: body.status, status_detail: body.status_detail } }
      : undefined
  expect((await refund(service, till, orderId, '10,00')).json()).toMatchObject({
    status: 'partially_refunded',
  })
  expect((await orderRow(service, orderId)).refunded_cents).toBe(1_000)
})

test('a refund that the provider shows as failed returned nothing and may be tried again', async () => {
  const orderId = await paidOrder()
  const failed = { id: 'REF01FAILED', transaction_id: 'PAY1', amount: '10.00', status: 'failed' }
  await setFaults(service, { ...refunding, kind: 'status', status: 400, code: 'x' })
  proxy.alter = ({ body }, { path }) =>
    path.endsWith('/refund')
      ? {
          status: 201,
          body: { ...body, id: mpId, status: 'processed', transactions: { refunds: [failed] } },
        }
      : undefined
  const mpId = (await orderAtProvider(orderId)).id
  const response = await refund(service, till, orderId, '10,00')
  expect([response.statusCode, response.json().code]).toEqual([502, 'PROVIDER_REJECTED'])
  expect(response.json()).toMatchObject({ outcome: 'charged', order_id: orderId })
  expect((await orderRow(service, orderId)).refunded_cents).toBe(0)
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'refused' }])

  proxy.alter = undefined
  await clearFaults(service)
  expect((await refund(service, till, orderId, '10,00')).json().status).toBe('partially_refunded')
  expect((await orderAtProvider(orderId)).refunds).toMatchObject([{ amount: '10.00' }])
})

test('a paid order without a payment method from the provider can be refunded in full', async () => {
  const orderId = await paidOrder()
  proxy.alter = ({ status, body }, { method, path }) => {
    const { transactions } = body as { transactions?: { payments?: Record<string, unknown>[] } }
    if (method !== 'GET' || !path.startsWith('/v1/orders/') || !transactions) return undefined
    const payments = transactions.payments?.map(({ payment_method: _left, ...rest }) => rest)
    return { status, body: { ...body, transactions: { ...transactions, payments } } }
  }
  const order = (await readOrder(service, till, orderId)).json()
  expect(order).toMatchObject({ status: 'processed', payments: [] })
  expect((await refund(service, till, orderId)).json().status).toBe('refunded')
})

test('a payment after a cancel is shown, flagged, and can be refunded', async () => {
  const shop = await openOwnShop(service, 'late money')
  const { order_id } = (await charge(service, shop, { reference: 'LATE', amount: '50,00' })).json()
  await cancel(service, shop, order_id)
  await act(service, order_id, { ...payByCard, force: true })
  await deliver(service, { dataId: (await orderAtProvider(order_id)).id })
  const late = (await readOrder(service, shop, order_id)).json()
  expect(late).toMatchObject({
    status: 'canceled',
    paid_after_close: true,
    outcome: 'charged',
    retry_safe: false,
    payments: [{ paid_amount: '50.00' }],
    cashier: { action: 'call_supervisor' },
  })
  const again = await cancel(service, shop, order_id)
  expect([again.statusCode, again.json().code, again.json().outcome]).toEqual([
    409,
    'ORDER_NOT_CANCELABLE',
    'charged',
  ])
  expect((await refund(service, shop, order_id, '20,00')).json()).toMatchObject({
    status: 'canceled',
    outcome: 'charged',
  })
  // A refund in the panel counts, although the order ended long ago.
  await sandboxRefund(service, await orderAtProvider(order_id), '10.00')
  expect((await refund(service, shop, order_id, '20,01')).json().code).toBe('REFUND_AMOUNT_EXCEEDS')
  expect((await refund(service, shop, order_id)).json()).toMatchObject({
    amount: '20.00',
    status: 'canceled',
    outcome: 'not_charged',
  })
  // "Do not charge again" would contradict the outcome.
  expect((await readOrder(service, shop, order_id)).json()).toMatchObject({
    outcome: 'not_charged',
    retry_safe: true,
    cashier: { action: 'none', retry_safe: true },
  })
  expect((await orderAtProvider(order_id)).refunded_amount).toBe('50.00')
  expect(ordersAtProvider(service, shop)).toHaveLength(1)
})

test('an answer from before a late payment does not hide it again', {
  tags: ['long'],
}, async () => {
  const shop = await openOwnShop(service, 'old answer')
  const { order_id } = (await charge(service, shop, { reference: 'OLD', amount: '50,00' })).json()
  await cancel(service, shop, order_id)
  const { id } = await orderAtProvider(order_id)
  let before: Record<string, unknown> = {}
  proxy.alter = ({ body }, { method }) => {
    if (method === 'GET') before = body
    return undefined
  }
  await deliver(service, { dataId: id })
  await act(service, order_id, { ...payByCard, force: true })
  proxy.alter = undefined
  await deliver(service, { dataId: id })
  expect((await readOrder(service, shop, order_id)).json().outcome).toBe('charged')

  // The slower read of an earlier webhook.
  proxy.alter = ({ status }, { method }) =>
    method === 'GET' ? { status, body: before } : undefined
  await deliver(service, { dataId: id })
  const [order] = (await call(service, { url: '/orders', token: shop.key })).json().orders
  expect(order).toMatchObject({ paid_after_close: true, outcome: 'charged', retry_safe: false })
  expect(order.payments).toMatchObject([{ paid_amount: '50.00' }])
  const again = await charge(service, shop, { reference: 'OLD', amount: '50,00' })
  expect(again.json().code).toBe('ORDER_ALREADY_PAID')
})
