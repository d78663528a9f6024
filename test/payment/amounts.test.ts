import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { close } from '../closings/shop-day.ts'
import {
  clearFaults,
  openOwnShop,
  operationsOf,
  orderRow,
  ordersAtProvider,
  refund,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** Amounts asked for, paid by the buyer and received by the shop (docs/reference/amounts.md). */
let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

async function paid(name: string, how: Record<string, unknown>) {
  const till = await openOwnShop(service, name)
  const { order_id: orderId } = (
    await charge(service, till, { reference: 'R', amount: '100,00' })
  ).json()
  await act(service, orderId, { ...payByCard, ...how })
  const read = (await readOrder(service, till, orderId)).json()
  return { till, orderId: String(orderId), read }
}

const interest = { installments: 6, interest_amount: '18.40' }
const orderAtProvider = (till: Till) => ordersAtProvider(service, till)[0]

test.each([
  ['names the amount of the buyer', { interest_refunded: true }, '118.40'],
  ['names the amount of the shop', {}, null],
])(
  'an order of 100,00 paid 118,40 in instalments refunds 100,00: the provider %s',
  async (name, how, buyer) => {
    const { till, orderId, read } = await paid(name, { ...interest, ...how })
    expect(read).toMatchObject({
      amount: '100.00',
      paid_amount: '118.40',
      received_amount: '100.00',
      needs_decision: null,
      payments: [{ amount: '100.00', paid_amount: '118.40', received_amount: '100.00' }],
    })
    const answer = await refund(service, till, orderId, undefined, 'K')
    expect([answer.statusCode, answer.json()]).toMatchObject([
      200,
      { type: 'total', amount: '100.00', status: 'refunded', outcome: 'not_charged' },
    ])
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      status: 'refunded',
      refunded_amount: '100.00',
      refunds: [{ amount: '100.00', buyer_amount: buyer, type: 'total' }],
    })
    expect(await operationsOf(service, orderId)).toMatchObject([
      { state: 'done', amount_cents: 10_000 },
    ])
    expect(await orderRow(service, orderId)).toMatchObject({
      paid_cents: 10_000,
      refunded_cents: 10_000,
      payments: [{ amountCents: 10_000, paidCents: 11_840, receivedCents: 10_000 }],
    })
  },
)

test('a refund of the rest of a payment with interest refunds what the shop still has', async () => {
  const how = { ...interest, interest_refunded: true }
  const { till, orderId } = await paid('rest', how)
  expect((await refund(service, till, orderId, '30,00', 'A')).json().amount).toBe('30.00')
  const tooMuch = await refund(service, till, orderId, '88,40', 'B')
  expect([tooMuch.statusCode, tooMuch.json().code]).toEqual([422, 'REFUND_AMOUNT_EXCEEDS'])
  expect((await refund(service, till, orderId, undefined, 'C')).json()).toMatchObject({
    amount: '70.00',
    status: 'refunded',
  })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    refunded_amount: '100.00',
    refunds: [
      { amount: '30.00', buyer_amount: null },
      { amount: '70.00', buyer_amount: '88.40' },
    ],
  })
})

test('a closing compares the amount that the shop receives, without the interest of the card issuer', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await paid('closing with interest', interest)
  expect(await close(service, till)).toMatchObject({
    state: 'agreed',
    totals: {
      here: { count: 1, amount: '100.00' },
      there: { count: 1, amount: '100.00' },
      installments: [{ installments: 6, amount: '100.00' }],
    },
  })
  const { net } = (await readOrder(service, till, orderId)).json()
  expect(net).toMatchObject({ gross: '100.00' })
})

test('a closing compares the amount that the shop refunded of a payment with interest', async () => {
  const how = { ...interest, interest_refunded: true }
  const { till, orderId } = await paid('closing after refund', how)
  await refund(service, till, orderId, undefined, 'K')
  expect(await close(service, till)).toMatchObject({
    state: 'agreed',
    totals: { here: { refunded: '100.00' }, refunds: { amount: '100.00' } },
  })
})

test('a tip belongs to the shop: a closing compares it, and only a total refund refunds it', async () => {
  const { till, orderId, read } = await paid('tip', { tip_amount: '10.00' })
  expect(read).toMatchObject({
    amount: '100.00',
    paid_amount: '110.00',
    received_amount: '110.00',
    payments: [{ tip_amount: '10.00', received_amount: '110.00' }],
  })
  expect((await close(service, till)).state).toBe('agreed')
  const part = await refund(service, till, orderId, '30,00', 'A')
  expect([part.statusCode, part.json().code]).toEqual([422, 'PARTIAL_REFUND_NOT_SUPPORTED'])
  expect((await refund(service, till, orderId, undefined, 'B')).json()).toMatchObject({
    amount: '110.00',
    status: 'refunded',
  })
})

test('of a tip in instalments with interest the shop receives the tip and not the interest', async () => {
  const { read } = await paid('tip and interest', { ...interest, tip_amount: '10.00' })
  expect(read).toMatchObject({ paid_amount: '128.40', received_amount: '110.00' })
})

test('a payment of less than the order is shown with its amount and needs a decision', {
  tags: ['long'],
}, async () => {
  const { till, orderId, read } = await paid('less', { paid_amount: '60.00' })
  expect(read).toMatchObject({
    amount: '100.00',
    paid_amount: '60.00',
    received_amount: '60.00',
    status: 'processed',
    outcome: 'charged',
    retry_safe: false,
    needs_decision: 'paid_less',
    cashier: { action: 'call_supervisor', message: expect.stringContaining('$ 60,00 de $ 100,00') },
  })
  const { state, lines } = await close(service, till)
  expect(state).toBe('differs')
  expect(lines).toMatchObject([
    {
      kind: 'paid_less',
      order_id: orderId,
      here: { amount: '60.00' },
      there: { amount: '60.00' },
      action: 'call_supervisor',
    },
  ])
  const tooMuch = await refund(service, till, orderId, '100,00', 'A')
  expect([tooMuch.statusCode, tooMuch.json().code]).toEqual([422, 'REFUND_AMOUNT_EXCEEDS'])
  const settled = await call(service, {
    url: `/orders/${orderId}/settle`,
    token: till.key,
    body: { as: 'paid', reason: 'the rest in cash' },
  })
  expect(settled.json()).toMatchObject({
    needs_decision: null,
    received_amount: '60.00',
    cashier: { action: 'give_receipt' },
  })
  expect((await close(service, till)).state).toBe('agreed')
})

test('a total refund of a payment of less refunds what was paid', async () => {
  const { till, orderId } = await paid('less back', { paid_amount: '60.00' })
  expect((await refund(service, till, orderId, undefined, 'A')).json()).toMatchObject({
    amount: '60.00',
    status: 'refunded',
  })
  expect(orderAtProvider(till)).toMatchObject({ paid_amount: '60.00', refunded_amount: '60.00' })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    refunded_amount: '60.00',
    needs_decision: null,
    cashier: { action: 'none' },
  })
})
