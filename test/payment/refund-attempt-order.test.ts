import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  auditOf,
  clearFaults,
  deliver,
  openOwnShop,
  operationsOf,
  orderRow,
  ordersAtProvider,
  reading,
  refund,
  refunding,
  sandboxRefund,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

let service: TestService
let duplicate: TestService
const timeoutMs = 500
beforeAll(async () => {
  const env = { PROVIDER_TIMEOUT_MS: String(timeoutMs) }
  service = await startTestService({ env })
  duplicate = await startTestService({ twinOf: service, env })
})
afterAll(async () => {
  await duplicate.stop()
  await service.stop()
})
afterEach(() => clearFaults(service))

/** A paid order of 100,00. */
async function paid(name: string): Promise<{ till: Till; orderId: string }> {
  const till = await openOwnShop(service, name)
  const { order_id } = (await charge(service, till, { reference: 'R', amount: '100,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  return { till, orderId: order_id }
}

const refundsOf = (till: Till) =>
  ordersAtProvider(service, till).flatMap(({ refunds }) => refunds.map(({ amount }) => amount))

test('refunds under different keys are different refunds, whatever answer was lost', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await paid('two items')
  await setFaults(service, { ...refunding, kind: 'drop_before' })
  expect((await refund(service, till, orderId, '10,00', 'ITEM-1')).statusCode).toBe(504)
  await clearFaults(service)
  const second = await refund(service, till, orderId, '10,00', 'ITEM-2')
  expect(second.statusCode).toBe(409)
  expect(second.json()).toMatchObject({
    code: 'REFUND_IN_PROGRESS',
    outcome: 'unknown',
    retry_safe: true,
  })
  await sweepAfter(service, 3_000)
  expect((await refund(service, till, orderId, '10,00', 'ITEM-2')).statusCode).toBe(200)
  expect((await refund(service, till, orderId, '10,00', 'ITEM-1')).statusCode).toBe(200)
  expect(refundsOf(till)).toEqual(['10.00', '10.00'])
})

test('of 25 concurrent refunds under different keys each one answered 200 is made', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await paid('race')
  const answers = await Promise.all(
    Array.from({ length: 25 }, (_, index) =>
      refund(index % 2 ? service : duplicate, till, orderId, '1,00', `ITEM-${index}`),
    ),
  )
  const done = answers.filter(({ statusCode }) => statusCode === 200).length
  expect(refundsOf(till)).toHaveLength(done)
  // How many find another one in progress depends on the speed of the machine.
  const others = answers.filter(({ statusCode }) => statusCode !== 200)
  for (const answer of others) expect(answer.json().code).toBe('REFUND_IN_PROGRESS')
})

test.each([
  ['total', undefined, 'refunded'],
  ['partial', '30,00', 'partially_refunded'],
])(
  'a %s refund in processing is pending, and a later failure restores its amount',
  async (name, amount, status) => {
    const { till, orderId } = await paid(`processing ${name}`)
    await setFaults(service, { ...refunding, kind: 'refund_processing' })
    const answer = await refund(service, till, orderId, amount, 'K')
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toMatchObject({
      message: expect.stringContaining('works on it'),
      status,
      outcome: 'unknown',
      retry_safe: false,
    })
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      outcome: 'unknown',
      retry_safe: false,
      cashier: { action: 'wait' },
    })
    let isAnswered = false
    const waiting = call(service, { url: `/orders/${orderId}?wait=20`, token: till.key })
    waiting.then(
      () => {
        isAnswered = true
      },
      () => undefined,
    )
    // These two read the provider after it.
    await readOrder(service, till, orderId)
    await readOrder(service, till, orderId)
    expect(isAnswered).toBe(false)
    const [providerOrder] = ordersAtProvider(service, till)
    await sandboxCall(service, 'POST', `/_sandbox/orders/${providerOrder?.id}/act`, {
      do: 'end_refund',
      as: 'failed',
    })
    await deliver(service, { dataId: String(providerOrder?.id) })
    expect((await waiting).json()).toMatchObject({ outcome: 'charged' })
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      status: 'processed',
      outcome: 'charged',
      refunds: [{ status: 'failed' }],
    })
    expect((await orderRow(service, orderId)).refunded_cents).toBe(0)
    const audit = await auditOf(service, till.client, 'order.refunded')
    expect(audit.map((entry) => entry.status)).toEqual(['failed'])

    await clearFaults(service)
    const again = await refund(service, till, orderId, amount, 'K')
    expect([again.statusCode, again.json().outcome]).toEqual([
      200,
      status === 'refunded' ? 'not_charged' : 'charged',
    ])
    expect((await readOrder(service, till, orderId)).json().status).toBe(status)
  },
)

test('without webhooks a refund in processing is checked until it ends', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await paid('checked')
  await setFaults(service, {
    ...refunding,
    kind: 'refund_processing',
    delay_ms: 40 * 60_000,
    ...{ ends: 'failed' },
  })
  expect((await refund(service, till, orderId)).json().outcome).toBe('unknown')
  for (let minute = 0; minute < 60; minute += 5) await sweepAfter(service, 5 * 60_000)
  expect(await orderRow(service, orderId)).toMatchObject({ status: 'processed', refunded_cents: 0 })
})

test('a provider answer that is older than a refund does not undo it', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await paid('old answer')
  await setFaults(service, { ...reading, kind: 'latency_after', delay_ms: 150, count: 1 })
  const slow = readOrder(duplicate, till, orderId)
  await new Promise((resolve) => setTimeout(resolve, 30))
  await setFaults(service)
  await refund(service, till, orderId, '30,00')
  await slow
  expect(await orderRow(service, orderId)).toMatchObject({
    status: 'partially_refunded',
    refunded_cents: 3_000,
  })
})

test('a refund that was made and refused by a gateway is made once', async () => {
  for (const refusal of [
    { status: 403, form: 'html' },
    { status: 404, form: 'bare' },
  ] as const) {
    const { till, orderId } = await paid(`refused ${refusal.status}`)
    await setFaults(service, { ...refunding, kind: 'status_after', count: 1, ...refusal })
    const answer = await refund(service, till, orderId, '40,00', 'K')
    expect([answer.statusCode, answer.json().outcome]).toEqual([504, 'unknown'])
    expect((await refund(service, till, orderId, '40,00', 'K')).statusCode).toBe(200)
    expect(refundsOf(till)).toEqual(['40.00'])
  }
})

test('a process suspended before its refund sends nothing after another process took over', async () => {
  const { till, orderId } = await paid('suspended')
  const { deps } = service
  const send = deps.provider.orders.refund
  deps.provider.orders.refund = async (...args) => {
    deps.provider.orders.refund = send
    service.clock.advance(6_500)
    // The other process gets a definite refusal, and the key can be used again.
    await setFaults(service, {
      ...refunding,
      kind: 'status',
      status: 422,
      code: 'payment_not_refundable',
      count: 1,
    })
    await sweepAfter(duplicate, 2_000)
    expect((await refund(duplicate, till, orderId, '40,00', 'K')).statusCode).toBe(200)
    return send(...args)
  }
  await refund(service, till, orderId, '40,00', 'K')
  expect(refundsOf(till)).toEqual(['40.00'])
})

test('while a refund is open the outcome is unknown, not charged', async () => {
  const { till, orderId } = await paid('open refund')
  await setFaults(service, { ...refunding, kind: 'drop_after' })
  expect((await refund(service, till, orderId)).json().outcome).toBe('unknown')
  await setFaults(service, { path: '^/v1/orders', kind: '500' })
  const stale = await readOrder(service, till, orderId)
  expect(stale.json()).toMatchObject({ stale: true, status: 'processed', outcome: 'unknown' })
  await clearFaults(service)
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  const cut = await refund(service, till, orderId)
  expect(cut.statusCode).toBe(409)
  expect(cut.json()).toMatchObject({ code: 'OAUTH_NOT_CONNECTED', outcome: 'unknown' })
})

test('a total refund is unknown when the database is lost after the call', async () => {
  const { till, orderId } = await paid('lost database')
  const { deps } = service
  const send = deps.provider.orders.refund
  const { db } = deps.database
  const loseConnection = () =>
    Promise.reject(Object.assign(new Error('connection lost'), { code: '57P01' }))
  deps.provider.orders.refund = async (...args) => {
    deps.provider.orders.refund = send
    const given = await send(...args)
    deps.database.db = new Proxy(db, {
      get: (of, name) => (name === 'executeQuery' ? loseConnection : Reflect.get(of, name)),
    })
    return given
  }
  const answer = await refund(service, till, orderId)
  deps.database.db = db
  expect([answer.statusCode, answer.json().outcome]).toEqual([503, 'unknown'])
  await sweepAfter(duplicate, 7_000)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'refunded',
    outcome: 'not_charged',
  })
})

test('amount and list of a total refund come from the provider when a refund in its panel came first', async () => {
  const { till, orderId } = await paid('panel')
  const [providerOrder] = ordersAtProvider(service, till)
  if (!providerOrder) throw new Error('no order at the provider')
  const { deps } = service
  const { get } = deps.provider.orders
  deps.provider.orders.get = async (...args) => {
    deps.provider.orders.get = get
    const before = await get(...args)
    await sandboxRefund(service, providerOrder, '30.00')
    return before
  }
  const answer = await refund(service, till, orderId)
  expect(answer.json()).toMatchObject({ type: 'total', amount: '70.00', status: 'refunded' })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'refunded',
    outcome: 'not_charged',
    refunds: [{ amount: '30.00' }, { amount: '70.00', type: 'total' }],
  })
  expect(await operationsOf(service, orderId)).toMatchObject([{ amount_cents: 7_000 }])
})

test('a refund that began before an equal one was refused is not made afterwards', async () => {
  const { till, orderId } = await paid('refused meanwhile')
  const { get } = service.deps.provider.orders
  let refusal: Awaited<ReturnType<typeof refund>> | undefined
  service.deps.provider.orders.get = async (...args) => {
    service.deps.provider.orders.get = get
    const code = 'partial_refund_forbidden_with_tips'
    await setFaults(service, { ...refunding, kind: 'status', status: 409, code })
    refusal = await refund(duplicate, till, orderId, '10,00', 'ITEM')
    await clearFaults(service)
    return get(...args)
  }
  const first = await refund(service, till, orderId, '10,00', 'ITEM')
  expect(refusal?.json()).toMatchObject({ outcome: 'charged' })
  expect([first.statusCode, first.json()]).toMatchObject([
    503,
    { code: 'SERVICE_UNAVAILABLE', outcome: 'charged', retry_safe: true },
  ])
  expect(refundsOf(till)).toEqual([])
  expect((await refund(service, till, orderId, '10,00', 'ITEM')).statusCode).toBe(200)
  expect(refundsOf(till)).toEqual(['10.00'])
})

test('a partial refund does not need the payment method, which the provider may omit', async () => {
  const { till, orderId } = await paid('no method')
  const [providerOrder] = ordersAtProvider(service, till)
  const entry = {
    id: providerOrder?.payments[0]?.id,
    amount: '100.00',
    paid_amount: '100.00',
    status: 'processed',
  }
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${providerOrder?.id}/shown`, {
    transactions: { payments: [entry] },
  })
  expect((await readOrder(service, till, orderId)).json().payments).toEqual([])
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${providerOrder?.id}/shown`, null)
  await service.database.db
    .updateTable('orders')
    .set({
      payments: JSON.stringify([
        { ...(await orderRow(service, orderId)).payments[0], methodType: null },
      ]),
    })
    .where('id', '=', orderId)
    .execute()
  expect((await refund(service, till, orderId, '10,00', randomUUID())).statusCode).toBe(200)
})

test('a refund that the provider answered is reported as made, whatever the database does afterwards', async () => {
  const { till, orderId } = await paid('last statement')
  const { database } = service.deps
  const { db } = database
  database.db = new Proxy(db, {
    get(target, name) {
      if (name === 'deleteFrom')
        throw Object.assign(new Error('connection lost'), { code: '57P01' })
      const member = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  const answer = await refund(service, till, orderId)
  database.db = db
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toMatchObject({ status: 'refunded', outcome: 'not_charged' })
  const again = await refund(service, till, orderId)
  expect([again.statusCode, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
  expect(refundsOf(till)).toEqual(['100.00'])
})

test('a repeated refund that read the order before the first one ended answers with the state after it', async () => {
  const { till, orderId } = await paid('read before the end')
  const { database } = service.deps
  const { db } = database
  const made: number[] = []
  database.db = new Proxy(db, {
    get(target, name) {
      const member = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (name !== 'executeQuery') return member.bind(target)
      return async (query: { sql: string }) => {
        const answer = await Reflect.apply(member, target, [query])
        if (made.length === 0 && /from orders\b|join orders\b/.test(query.sql)) {
          made.push(0)
          made[0] = (await refund(duplicate, till, orderId, undefined, 'ONCE')).statusCode
        }
        return answer
      }
    },
  })
  const repeated = await refund(service, till, orderId, undefined, 'ONCE')
  database.db = db
  expect(made).toEqual([200])
  expect([repeated.statusCode, repeated.headers['idempotent-replayed']]).toEqual([200, 'true'])
  expect(repeated.json()).toMatchObject({ status: 'refunded', outcome: 'not_charged' })
  expect(refundsOf(till)).toEqual(['100.00'])
})
