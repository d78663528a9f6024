import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { cancel, openOwnShop, sweepAfter } from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder } from '../support/till.ts'

let service: TestService
let proxy: ProviderProxy
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({ provider: { apiUrl: proxy.url } })
  proxy.target = service.sandbox.url
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})
afterEach(() => {
  proxy.alter = undefined
})

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'W-1' })).json()
  return { till, orderId: order_id as string }
}

type Shown = Record<string, unknown>

/** Alters what reads of an order at the provider show. */
function show(change: (body: Shown, payment: Shown) => Shown) {
  proxy.alter = ({ status, body }, { method, path }) => {
    if (method !== 'GET' || !path.startsWith('/v1/orders/')) return undefined
    const order = body as Shown & { transactions: { payments: Shown[] } }
    return { status, body: { ...order, ...change(order, order.transactions.payments[0] ?? {}) } }
  }
}

const contradicted = { outcome: 'unknown', cashier: { action: 'call_supervisor' } }

test.each<[string, (payment: Shown) => Shown[]]>([
  ['whose only payment failed', (payment) => [{ ...payment, status: 'failed' }]],
  ['without a payment', () => []],
])(
  'an order shown as processed %s is not charged: a supervisor is called',
  async (name, payments) => {
    const { till, orderId } = await openOrder(`unpaid ${name}`)
    show((_order, payment) => ({
      status: 'processed',
      status_detail: 'accredited',
      transactions: { payments: payments(payment) },
    }))
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      status: 'created',
      ...contradicted,
    })
    proxy.alter = undefined
    await act(service, orderId, payByCard)
    await sweepAfter(service, 5_000)
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({ outcome: 'charged' })
  },
)

test('a processed order with the detail refunded and a refund of the whole amount is refunded', async () => {
  const { till, orderId } = await openOrder('refunded by detail')
  await act(service, orderId, payByCard)
  show((_order, payment) => ({
    status_detail: 'refunded',
    transactions: {
      payments: [{ ...payment, refunded_amount: payment.paid_amount }],
      refunds: [
        {
          id: 'REF1',
          transaction_id: payment.id,
          amount: payment.paid_amount,
          status: 'processed',
        },
      ],
    },
  }))
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'refunded',
    outcome: 'not_charged',
  })
})

test.each(['processing', 'in_process', 'a_new_word'])(
  'an order shown as %s is open, and the cashier waits',
  async (word) => {
    const { till, orderId } = await openOrder(`open ${word}`)
    show(() => ({ status: word, status_detail: 'x' }))
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      status_detail: word,
      outcome: 'unknown',
      cashier: { action: 'wait' },
    })
    proxy.alter = undefined
    await act(service, orderId, payByCard)
    await sweepAfter(service, 5_000)
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({ status: 'processed' })
  },
)

test('a person decides at once about an order in a status that is not known here', async () => {
  const { till, orderId } = await openOrder('in review')
  const settle = (as: string) =>
    call(service, {
      url: `/orders/${orderId}/settle`,
      token: till.key,
      body: { as, reason: 'the panel shows no payment' },
    })
  await readOrder(service, till, orderId)
  expect((await settle('not_paid')).statusCode).toBe(409)
  show(() => ({ status: 'in_review', status_detail: 'x' }))
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    standing: 'in_doubt',
    status_detail: 'in_review',
    cashier: { action: 'wait' },
  })
  const listed = await call(service, { url: '/orders?standing=in_doubt', token: till.key })
  expect(listed.json().orders).toMatchObject([{ order_id: orderId, standing: 'in_doubt' }])
  expect((await settle('not_paid')).json()).toMatchObject({
    standing: 'not_paid',
    settled: { as: 'not_paid' },
  })
  // The equal sale begins anew; money that comes after all is flagged.
  expect((await charge(service, till, { reference: 'W-1' })).json().order_id).not.toBe(orderId)
  proxy.alter = undefined
  await act(service, orderId, payByCard)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    needs_decision: 'paid_late',
  })
})

test('an order whose status is known again is no longer in doubt', async () => {
  const { till, orderId } = await openOrder('known again')
  show(() => ({ status: 'in_review', status_detail: 'x' }))
  await readOrder(service, till, orderId)
  proxy.alter = undefined
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    standing: 'under_way',
    status_detail: 'created',
  })
})

test.each([
  ['charged_back', 'charged_back'],
  ['a_new_word', 'accredited'],
])('a paid order that is later shown as %s stays charged', async (word, detail) => {
  const { till, orderId } = await openOrder(`paid, then ${word}`)
  await act(service, orderId, payByCard)
  await readOrder(service, till, orderId)
  show((_order, payment) => ({
    status: word,
    status_detail: 'in_process',
    transactions: { payments: [{ ...payment, status: word, status_detail: 'in_process' }] },
  }))
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    status_detail: detail,
    outcome: 'charged',
  })
})

test.each(['action_required', 'canceled', 'a_new_word'])(
  'an order shown as %s with an approved payment calls a supervisor',
  async (word) => {
    const { till, orderId } = await openOrder(`paid, yet ${word}`)
    await act(service, orderId, payByCard)
    show(() => ({ status: word, status_detail: word }))
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      status: 'created',
      ...contradicted,
    })
  },
)

test.each([
  ['processing', 'processed', { outcome: 'charged', cashier: { action: 'give_receipt' } }],
  ['in_process', 'failed', { outcome: 'not_charged', cashier: { action: 'other_payment_method' } }],
])(
  'an order that the provider is processing (%s) waits, takes no cancel, and ends as %s',
  async (as, then, end) => {
    const { till, orderId } = await openOrder(`worked on ${as}`)
    await act(service, orderId, { do: 'process', as, then, after_ms: 60_000 })
    const during = {
      status: 'at_terminal',
      status_detail: as,
      outcome: 'unknown',
      cashier: { action: 'wait' },
    }
    expect((await readOrder(service, till, orderId)).json()).toMatchObject(during)
    expect((await cancel(service, till, orderId)).statusCode).toBe(409)
    const busy = await charge(service, till, { reference: 'W-2' })
    expect([busy.statusCode, busy.json().code]).toEqual([409, 'TERMINAL_BUSY'])
    expect((await readOrder(service, till, orderId)).json()).toMatchObject(during)
    await sweepAfter(service, 61_000)
    expect((await readOrder(service, till, orderId)).json()).toMatchObject(end)
  },
)
