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
  retireShops,
  sandboxRefund,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

let service: TestService
let proxy: ProviderProxy
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '500' },
    provider: { apiUrl: proxy.url },
  })
  proxy.target = service.sandbox.url
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})
afterEach(async () => {
  await retireShops(service)
  proxy.alter = undefined
  await clearFaults(service)
})

const hourMs = 3_600_000
const refused = {
  ...refunding,
  kind: 'status',
  status: 422,
  code: 'payment_not_refundable',
} as const
const lost = { ...refunding, kind: 'drop_before' } as const

/** A paid order of 100,00. */
async function paid(name: string): Promise<{ till: Till; orderId: string }> {
  const till = await openOwnShop(service, name)
  const { order_id } = (await charge(service, till, { reference: 'R', amount: '100,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  return { till, orderId: order_id }
}

function orderAtProvider(till: Till) {
  const [order] = ordersAtProvider(service, till)
  if (!order) throw new Error('the provider does not have the order')
  return order
}

/** An order whose refund of 30,00 stays unknown: an equal one made in the panel may be it. */
async function unclear(name: string): Promise<{ till: Till; orderId: string }> {
  const { till, orderId } = await paid(name)
  await sandboxRefund(service, orderAtProvider(till), '30.00')
  await setFaults(service, { ...reading, kind: '500' }, lost)
  await refund(service, till, orderId, '30,00', 'K')
  await setFaults(service, refused)
  await sweepAfter(service, hourMs)
  await sweepAfter(service, 23 * hourMs)
  await clearFaults(service)
  expect(await operationsOf(service, orderId)).toMatchObject([{ provider_code: 'refund_unclear' }])
  return { till, orderId }
}

const settle = (till: Till, orderId: string, body: Record<string, unknown>) =>
  call(service, {
    url: `/orders/${orderId}/settle`,
    token: till.key,
    body: { reason: 'Ana: the panel of the provider', ...body },
  })

const readOf = async (till: Till, orderId: string) =>
  (await readOrder(service, till, orderId)).json()

async function doubtsOf(till: Till) {
  const from = new Date(service.clock.now().getTime() - hourMs).toISOString()
  const { in_doubt } = (
    await call(service, { url: `/statistics?from=${from}`, token: till.key })
  ).json()
  const { orders } = (
    await call(service, { url: '/orders?standing=in_doubt', token: till.key })
  ).json()
  const { boxes } = (await call(service, { url: '/health/fleet', token: till.key })).json()
  return { overview: in_doubt.length, list: orders.length, cause: boxes[0].cause }
}

test('a refund of unknown outcome is shown as in doubt, with the refunds that may be it', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await unclear('in doubt')
  const panel = orderAtProvider(till).refunds[0]?.id
  expect(await readOf(till, orderId)).toMatchObject({
    outcome: 'unknown',
    standing: 'in_doubt',
    cashier: { action: 'call_supervisor' },
    refund_in_doubt: {
      type: 'partial',
      amount: '30.00',
      candidates: [{ id: panel, amount: '30.00', status: 'processed' }],
    },
    settled_refunds: [],
  })
  expect(await doubtsOf(till)).toEqual({ overview: 1, list: 1, cause: 'refund_in_doubt' })
  // A later charge of the box does not hide it.
  const next = (await charge(service, till, { reference: 'N', amount: '50,00' })).json()
  await act(service, next.order_id, payByCard)
  await readOrder(service, till, next.order_id)
  expect(await doubtsOf(till)).toMatchObject({ cause: 'refund_in_doubt' })
})

test('a refund that is in doubt for days is one event, and the decision ends the refund for programs too', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await unclear('read by the ERP')
  await sweepAfter(service, hourMs)
  const read = async () => {
    const url = '/events/feed?types=order.in_doubt,refund.done,refund.failed'
    const { events } = (await call(service, { url, token: till.key })).json()
    return events.map(({ type, changes, data }: Record<string, unknown>) => ({
      type,
      changes,
      hasData: data !== null,
    }))
  }
  const doubt = {
    type: 'order.in_doubt',
    changes: { refund_in_doubt: { from: null, to: expect.any(String) } },
    hasData: false,
  }
  expect(await read()).toEqual([doubt])
  const panel = orderAtProvider(till).refunds[0]?.id
  const settled = await settle(till, orderId, { as: 'refunded', refund_id: panel })
  expect(settled.statusCode, settled.body).toBe(200)
  expect(await read()).toEqual([
    doubt,
    {
      type: 'refund.done',
      changes: {
        status: { from: 'pending', to: 'done' },
        amount_cents: { from: null, to: 3_000 },
      },
      hasData: true,
    },
  ])
})

test('a person settles a refund as made by naming a candidate, and the next refund is possible', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await unclear('made')
  const panel = orderAtProvider(till).refunds[0]?.id
  expect((await settle(till, orderId, { as: 'refunded', refund_id: 'REFX' })).json()).toMatchObject(
    { code: 'CONFLICT' },
  )
  const settled = await settle(till, orderId, { as: 'refunded', refund_id: panel })
  expect(settled.statusCode, settled.body).toBe(200)
  expect(settled.json()).toMatchObject({
    outcome: 'charged',
    status: 'partially_refunded',
    standing: 'refunded',
    refund_in_doubt: null,
    settled_refunds: [
      {
        as: 'refunded',
        amount: '30.00',
        refund_id: panel,
        reason: 'Ana: the panel of the provider',
      },
    ],
  })
  expect(await orderRow(service, orderId)).toMatchObject({
    refunded_cents: 3_000,
    refund_open: false,
  })
  const audit = await auditOf(service, till.client, 'order.refund_settled')
  expect(audit.at(-1)).toMatchObject({
    status: 'success',
    metadata: { as: 'refunded', refund_id: panel, amount: '30.00' },
  })
  // The same request is answered as done; one with another key is a new refund.
  expect((await refund(service, till, orderId, '30,00', 'K')).statusCode).toBe(200)
  expect((await refund(service, till, orderId, '20,00', 'L')).statusCode).toBe(200)
  expect(await orderRow(service, orderId)).toMatchObject({ refunded_cents: 5_000 })
  expect(orderAtProvider(till).refunds).toHaveLength(2)
  expect(await doubtsOf(till)).toMatchObject({ overview: 0, list: 0 })
})

test('a person settles a refund as not made: the refund of the panel stays, and it may be made again', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await unclear('not made')
  const settled = await settle(till, orderId, { as: 'not_refunded' })
  expect(settled.json(), settled.body).toMatchObject({
    outcome: 'charged',
    settled_refunds: [{ as: 'not_refunded', refund_id: null }],
  })
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'refused' }])
  expect((await refund(service, till, orderId, '30,00', 'K')).statusCode).toBe(200)
  expect(orderAtProvider(till).refunds).toHaveLength(2)
  expect(await orderRow(service, orderId)).toMatchObject({
    refunded_cents: 6_000,
    refund_contradicted: null,
  })
  await sweepAfter(service, hourMs)
  expect(await readOf(till, orderId)).toMatchObject({ standing: 'refunded' })
})

test('a refund that appears after it was settled as not made is flagged until it is settled again', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await unclear('appears')
  await settle(till, orderId, { as: 'not_refunded' })
  await sandboxRefund(service, orderAtProvider(till), '30.00')
  const late = orderAtProvider(till).refunds.at(-1)?.id
  await deliver(service, { dataId: orderAtProvider(till).id })
  const read = await readOf(till, orderId)
  expect(read).toMatchObject({
    status: 'partially_refunded',
    standing: 'in_doubt',
    refund_in_doubt: { why: expect.stringContaining(String(late)), amount: '30.00' },
  })
  expect(await orderRow(service, orderId)).toMatchObject({ refunded_cents: 6_000 })
  expect(await doubtsOf(till)).toEqual({ overview: 1, list: 1, cause: 'refund_in_doubt' })
  const said = { as: 'refunded', refund_id: late }
  for (const replaces of [undefined, '2026-01-01T00:00:00.000Z']) {
    const refused = await settle(till, orderId, { ...said, ...(replaces && { replaces }) })
    expect([refused.statusCode, refused.json().code]).toEqual([409, 'CONFLICT'])
  }
  const replaces = read.refund_in_doubt.decided_at
  const again = await settle(till, orderId, { ...said, replaces })
  expect(again.json(), again.body).toMatchObject({ standing: 'refunded', refund_in_doubt: null })
  expect(await operationsOf(service, orderId)).toMatchObject([
    { state: 'done', mp_refund_id: late },
  ])
})

test('a refund that the provider shows while a person settles it as not made is flagged', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await unclear('meanwhile')
  const { orders } = service.deps.provider
  const { get } = orders
  orders.get = async (...args) => {
    orders.get = get
    expect((await settle(till, orderId, { as: 'not_refunded' })).statusCode).toBe(200)
    await sandboxRefund(service, orderAtProvider(till), '30.00')
    return get(...args)
  }
  const read = await readOf(till, orderId)
  const late = orderAtProvider(till).refunds.at(-1)?.id
  expect(read).toMatchObject({
    standing: 'in_doubt',
    refund_in_doubt: { why: expect.stringContaining(String(late)), amount: '30.00' },
  })
})

test('a refund that the provider’s list contradicts can be settled as made, and is flagged when the list lacks it', async () => {
  const { till, orderId } = await paid('impossible')
  const alter: ProviderProxy['alter'] = ({ status, body }) => ({
    status,
    body: JSON.parse(JSON.stringify(body).replaceAll('"30.00"', '"940.00"')),
  })
  proxy.alter = alter
  await refund(service, till, orderId, '30,00', 'K')
  const id = orderAtProvider(till).refunds[0]?.id
  const settled = await settle(till, orderId, { as: 'refunded' })
  expect(settled.json(), settled.body).toMatchObject({
    settled_refunds: [{ refund_id: id, amount: '30.00' }],
  })
  expect(await orderRow(service, orderId)).toMatchObject({ refunded_cents: 3_000 })
  // Now the provider lists no refund.
  proxy.alter = ({ status, body }) => {
    const text = JSON.stringify(body).replaceAll(
      '"refunded_amount":"30.00"',
      '"refunded_amount":"0.00"',
    )
    const read = JSON.parse(text) as {
      transactions?: { refunds?: unknown[] }
      status_detail?: string
    }
    if (read.transactions?.refunds) read.transactions.refunds = []
    return { status, body: { ...read, status_detail: 'accredited' } }
  }
  await deliver(service, { dataId: orderAtProvider(till).id })
  const doubted = await readOf(till, orderId)
  expect(doubted).toMatchObject({
    standing: 'in_doubt',
    refund_in_doubt: { why: expect.stringContaining('does not list') },
  })
  const { decided_at: replaces } = doubted.refund_in_doubt
  await settle(till, orderId, { as: 'not_refunded', replaces })
  expect(await orderRow(service, orderId)).toMatchObject({
    refunded_cents: 0,
    status: 'processed',
    refund_contradicted: null,
  })
})

test('a settlement that contradicts what the provider shows by now is 409, and the refund ends as shown', async () => {
  const { till, orderId } = await paid('proven')
  await setFaults(service, { ...refunding, kind: 'drop_after' }, { ...reading, kind: '500' })
  // The list can be read before the refund, and not afterwards.
  await clearFaults(service)
  await setFaults(service, { ...refunding, kind: 'drop_after' })
  await refund(service, till, orderId, '30,00', 'K')
  await clearFaults(service)
  const settled = await settle(till, orderId, { as: 'not_refunded' })
  expect(settled.json(), settled.body).toMatchObject({ code: 'CONFLICT' })
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'done' }])
})

test('settling is 409 for an order without an open refund, and 404 for an order of another client', async () => {
  const { till, orderId } = await paid('plain')
  expect((await settle(till, orderId, { as: 'refunded' })).statusCode).toBe(409)
  const bad = await settle(till, orderId, { as: 'not_refunded', refund_id: 'X' })
  expect(bad.json()).toMatchObject({ code: 'VALIDATION_ERROR' })
  const other = await openOwnShop(service, 'another client')
  expect((await settle(other, orderId, { as: 'refunded' })).statusCode).toBe(404)
})

test('a refund that is being sent cannot be settled, and of two settlements one counts', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await unclear('two persons')
  const { db } = service.database
  const until = new Date(service.clock.now().getTime() + 5_000)
  await db
    .updateTable('order_operations')
    .set({ sender: randomUUID(), sender_until: until })
    .where('order_id', '=', orderId)
    .execute()
  expect((await settle(till, orderId, { as: 'not_refunded' })).json()).toMatchObject({
    code: 'REFUND_IN_PROGRESS',
  })
  service.clock.advance(6_000)
  const both = await Promise.all([
    settle(till, orderId, { as: 'not_refunded' }),
    settle(till, orderId, { as: 'refunded' }),
  ])
  expect(both.map(({ statusCode }) => statusCode).toSorted()).toEqual([200, 409])
  const settled = await auditOf(service, till.client, 'order.refund_settled')
  expect(settled.filter(({ status }) => status === 'success')).toHaveLength(1)
  expect((await readOf(till, orderId)).settled_refunds).toHaveLength(1)
})

test('a refund call that arrives after it was settled as not made is flagged', async () => {
  const { till, orderId } = await paid('arrives late')
  await setFaults(service, { ...refunding, kind: 'arrive_late', delay_ms: 600_000 })
  await refund(service, till, orderId, '30,00', 'K')
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'unknown' }])
  service.clock.advance(10_000)
  const settled = await settle(till, orderId, { as: 'not_refunded' })
  expect(settled.json(), settled.body).toMatchObject({ outcome: 'charged', standing: 'paid' })
  await clearFaults(service)
  service.clock.advance(600_000)
  await deliver(service, { dataId: orderAtProvider(till).id })
  expect(orderAtProvider(till).refunds).toHaveLength(1)
  expect(await readOf(till, orderId)).toMatchObject({
    status: 'partially_refunded',
    standing: 'in_doubt',
    refund_in_doubt: { why: expect.stringContaining('may be the one') },
  })
})
