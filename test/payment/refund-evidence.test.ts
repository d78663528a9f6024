import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  clearFaults,
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
import { act, charge, payByCard, readOrder, type Till } from '../support/till.ts'

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

const panelRefund = (till: Till, amount: string) =>
  sandboxRefund(service, orderAtProvider(till), amount)

test('a refused refund does not count as done because the panel made an equal one before', async () => {
  const { till, orderId } = await paid('older in the panel')
  await panelRefund(till, '30.00')
  await setFaults(service, lost)
  expect((await refund(service, till, orderId, '30,00', 'K')).statusCode).toBe(504)
  await setFaults(service, refused)
  await sweepAfter(service, hourMs)
  await sweepAfter(service, 23 * hourMs)
  expect(await operationsOf(service, orderId)).toMatchObject([
    { state: 'refused', mp_refund_id: null },
  ])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    outcome: 'charged',
    refunds: [{ amount: '30.00' }],
  })
})

test('an equal refund proves nothing when the list before the intent could not be read', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await paid('list unread')
  await panelRefund(till, '30.00')
  await setFaults(service, { ...reading, kind: '500' }, lost)
  expect((await refund(service, till, orderId, '30,00', 'K')).json().outcome).toBe('unknown')
  await setFaults(service, refused)
  await sweepAfter(service, hourMs)
  await sweepAfter(service, 23 * hourMs)
  expect(await operationsOf(service, orderId)).toMatchObject([
    { state: 'unknown', mp_refund_id: null, provider_code: 'refund_unclear' },
  ])
  expect((await readOrder(service, till, orderId)).json().outcome).toBe('unknown')
})

test('a lost refund stays unknown when two equal ones appeared after the intent', async () => {
  const { till, orderId } = await paid('two after')
  await setFaults(service, lost)
  await refund(service, till, orderId, '30,00', 'K')
  await clearFaults(service)
  await panelRefund(till, '30.00')
  await panelRefund(till, '30.00')
  await sweepAfter(service, 23.5 * hourMs)
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'unknown' }])
})

test('a lost total refund is not refused while a smaller one in the list may be it', async () => {
  const { till, orderId } = await paid('less was left')
  await setFaults(service, lost)
  await refund(service, till, orderId, undefined, 'K')
  await clearFaults(service)
  await panelRefund(till, '30.00')
  await panelRefund(till, '70.00')
  await sweepAfter(service, 23.5 * hourMs)
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'unknown' }])
})

test.each([
  ['more than requested', '940.00'],
  ['less than requested', '3.00'],
])('a refund answer of %s is no result', async (name, amount) => {
  const { till, orderId } = await paid(name)
  proxy.alter = ({ status, body }, { path }) =>
    path.endsWith('/refund')
      ? { status, body: JSON.parse(JSON.stringify(body).replaceAll('"30.00"', `"${amount}"`)) }
      : undefined
  const answer = await refund(service, till, orderId, '30,00', 'K')
  // The list shows the same id with the requested amount.
  expect([answer.statusCode, answer.json().amount]).toEqual([200, '30.00'])
  expect(await operationsOf(service, orderId)).toMatchObject([
    { state: 'done', amount_cents: 3_000 },
  ])
  expect(await orderRow(service, orderId)).toMatchObject({ refunded_cents: 3_000 })
})

test('a refund that the list shows with an impossible amount stays unknown and calls a supervisor', async () => {
  const { till, orderId } = await paid('940')
  proxy.alter = ({ status, body }) => ({
    status,
    body: JSON.parse(JSON.stringify(body).replaceAll('"30.00"', '"940.00"')),
  })
  const answer = await refund(service, till, orderId, '30,00', 'K')
  expect(answer.json()).toMatchObject({ outcome: 'unknown', retry_safe: true })
  expect(await operationsOf(service, orderId)).toMatchObject([
    { state: 'unknown', amount_cents: 3_000, mp_refund_id: orderAtProvider(till).refunds[0]?.id },
  ])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    outcome: 'unknown',
    cashier: { action: 'call_supervisor' },
  })
  expect(await orderRow(service, orderId)).toMatchObject({ refunded_cents: 0 })
})

test('a refund with an unknown status has not ended', async () => {
  const { till, orderId } = await paid('unknown status')
  proxy.alter = ({ status, body }) => {
    const { transactions } = body as { transactions?: { refunds?: Record<string, unknown>[] } }
    if (!transactions?.refunds) return undefined
    const refunds = transactions.refunds.map((made) => ({ ...made, status: 'on_hold' }))
    return { status, body: { ...body, transactions: { ...transactions, refunds } } }
  }
  const answer = await refund(service, till, orderId, '30,00', 'K')
  expect(answer.json()).toMatchObject({ outcome: 'unknown' })
  expect(await operationsOf(service, orderId)).toMatchObject([{ finished_at: null }])
  proxy.alter = undefined
  await sweepAfter(service, 10_000)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    outcome: 'charged',
    refunds: [{ status: 'processed' }],
  })
})

type Body = Record<string, unknown>

/** Alters the answers to refunds only, or also those of reads. */
function alterOrders(change: (body: Body) => Body, readsToo: boolean) {
  proxy.alter = ({ status, body }, { path }) =>
    path.endsWith('/refund') || (readsToo && path.includes('/v1/orders/ORD'))
      ? { status, body: change(body) }
      : undefined
}

test('a refund answer in another currency is no result; a read of the order decides', async () => {
  const { till, orderId } = await paid('other currency')
  alterOrders((body) => ({ ...body, currency: 'USD' }), false)
  const answer = await refund(service, till, orderId, '30,00', 'K')
  expect(answer.statusCode, answer.body).toBe(200)
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'done' }])

  const second = await paid('other currency, read too')
  alterOrders((body) => ({ ...body, currency: 'USD' }), true)
  const unknown = await refund(service, second.till, second.orderId, '30,00', 'K')
  expect(unknown.json()).toMatchObject({ outcome: 'unknown' })
  expect(await orderRow(service, second.orderId)).toMatchObject({
    refunded_cents: 0,
    conflict: expect.stringContaining('currency'),
    refund_unclear: expect.any(String),
  })
})

test.each(['canceled', 'failed', 'created'])(
  'a refund answer that shows the paid order as %s is no result',
  async (status) => {
    const { till, orderId } = await paid(`shown as ${status}`)
    alterOrders((body) => ({ ...body, status, status_detail: status }), true)
    const answer = await refund(service, till, orderId, '30,00', 'K')
    expect(answer.json()).toMatchObject({ outcome: 'unknown' })
    expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'unknown' }])
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      outcome: 'unknown',
      standing: 'in_doubt',
    })
  },
)

test('a partial refund answered as a full one counts with the amount that the order lists', async () => {
  const { till, orderId } = await paid('shown as refunded')
  alterOrders((body) => ({ ...body, status: 'refunded', status_detail: 'refunded' }), false)
  await refund(service, till, orderId, '30,00', 'K')
  expect(await orderRow(service, orderId)).toMatchObject({
    refunded_cents: 3_000,
    status: 'partially_refunded',
  })
})
