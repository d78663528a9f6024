import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { close } from '../closings/shop-day.ts'
import { openHttpReceiver } from '../notifications/receivers.ts'
import {
  auditOf,
  cancel,
  clearFaults,
  creation,
  deliver,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  reading,
  refund,
  retireShops,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

/** Payments of an order that counted as not paid, by the provider or by a person. */
let service: TestService
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
beforeAll(async () => {
  hook = await openHttpReceiver()
  service = await startTestService({
    env: {
      PROVIDER_TIMEOUT_MS: '500',
      ALERT_WEBHOOK_URL: hook.url,
      ALERT_PRIVATE_NETWORK: 'true',
      ALERT_LANGUAGE: 'es',
    },
    hangsAreShort: true,
  })
})
afterEach(async () => {
  await retireShops(service)
  await clearFaults(service)
  hook.reset()
})
afterAll(async () => {
  await service.stop()
  await hook.close()
})

/** Decides, and replaces an earlier decision that is another. */
async function settle(till: Till, orderId: string, as: 'paid' | 'not_paid') {
  const { settled_as, settled_at } = await orderRow(service, orderId)
  const isOther = settled_at !== null && settled_as !== as
  return call(service, {
    url: `/orders/${orderId}/settle`,
    token: till.key,
    body: { as, reason: 'Ana checked', ...(isOther && { replaces: settled_at.toISOString() }) },
  })
}

/** Advances time as the service runs: the fleet every 3 s, the notifications every 2 s. */
async function pass(seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 2) {
    service.clock.advance(2_000)
    await service.deps.fleet.tick()
    await service.notifications.checkOnce()
  }
}

async function boxOf(till: Till) {
  const answer = await call(service, { url: '/health/fleet', token: till.key })
  return answer.json().boxes[0]
}

/** A charge whose answer was lost and that a person settled as not paid. */
async function settledAsNotPaid(till: Till): Promise<string> {
  await setFaults(service, { ...creation, kind: 'drop_after' }, { ...reading, kind: '503' })
  const { order_id: orderId } = (
    await charge(service, till, { reference: 'A-1', amount: '100,00' })
  ).json()
  service.clock.advance(60_000)
  expect((await settle(till, orderId, 'not_paid')).statusCode).toBe(200)
  await clearFaults(service)
  return orderId
}

/** The buyer pays the first order of this till at the provider, and its webhook arrives. */
async function payLate(till: Till): Promise<void> {
  const [made] = ordersAtProvider(service, till)
  const mpOrderId = String(made?.id)
  await sandboxCall(service, 'POST', `/_sandbox/orders/${mpOrderId}/act`, {
    ...payByCard,
    force: true,
  })
  await deliver(service, { dataId: mpOrderId })
}

/** An order that was settled as not paid, or canceled; then charged again, and paid after all. */
async function paidLate(name: string, how: 'settled' | 'canceled') {
  const till = await openOwnShop(service, name)
  const orderId = how === 'settled' ? await settledAsNotPaid(till) : await canceled(till, '100,00')
  service.clock.advance(60_000)
  const [first] = ordersAtProvider(service, till)
  if (first?.status === 'created') {
    const path = `/_sandbox/orders/${first.id}/act`
    await sandboxCall(service, 'POST', path, { do: 'panel_cancel' })
  }
  const again = (await charge(service, till, { reference: 'A-1', amount: '100,00' })).json()
  await act(service, again.order_id, payByCard)
  await readOrder(service, till, again.order_id)
  await payLate(till)
  return { till, orderId, instead: String(again.order_id) }
}

async function canceled(till: Till, amount: string): Promise<string> {
  const { order_id: orderId } = (await charge(service, till, { reference: 'A-1', amount })).json()
  await cancel(service, till, orderId)
  return orderId
}

const both = [['settled'], ['canceled']] as const

test.each(both)(
  'a late payment of an order that was %s is in the order and its cashier message until it is decided',
  async (how) => {
    const { till, orderId, instead } = await paidLate(`till ${how}`, how)
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      outcome: 'charged',
      retry_safe: false,
      paid_after_close: true,
      needs_decision: 'paid_late',
      charged_instead: { order_id: instead, external_reference: 'A-1', amount: '100.00' },
      cashier: {
        action: 'call_supervisor',
        message: expect.stringContaining('después llegó el pago'),
      },
    })
    const again = await settle(till, orderId, 'not_paid')
    expect([again.statusCode, again.json().code]).toEqual([409, 'CONFLICT'])
    expect((await settle(till, orderId, 'paid')).json()).toMatchObject({
      needs_decision: null,
      charged_instead: null,
      outcome: 'charged',
      settled: { as: 'paid' },
      cashier: { action: 'give_receipt' },
    })
    expect(await auditOf(service, till.client, 'order.settled')).toHaveLength(
      how === 'settled' ? 3 : 2,
    )
  },
)

test.each(both)(
  'a late payment of an order that was %s is in the fleet and in a notification, with the charge made instead',
  { tags: ['long'] },
  async (how) => {
    const { till, orderId } = await paidLate(`fleet ${how}`, how)
    service.clock.advance(16 * 60_000)
    expect(await boxOf(till)).toMatchObject({
      state: 'attention',
      cause: 'paid_late',
      order_id: orderId,
      message: expect.stringContaining('en su lugar se cobró A-1'),
    })
    await pass(20)
    expect(hook.bodies()).toContainEqual(
      expect.objectContaining({ data: expect.objectContaining({ cause: 'paid_late' }) }),
    )
    expect((await refund(service, till, orderId, undefined, 'K')).statusCode).toBe(200)
    expect((await boxOf(till)).cause).not.toBe('paid_late')
  },
)

test.each(both)(
  'a late payment of an order that was %s is a line of its closing until it is decided',
  async (how) => {
    const { till, orderId, instead } = await paidLate(`closing ${how}`, how)
    const { state, lines } = await close(service, till)
    expect(state).toBe('differs')
    expect(lines).toMatchObject([
      {
        kind: 'paid_late',
        order_id: orderId,
        here: { amount: '100.00' },
        there: { amount: '100.00' },
        action: 'call_supervisor',
        charged_instead: instead,
      },
    ])
    await settle(till, orderId, 'paid')
    expect((await close(service, till)).state).toBe('agreed')
  },
)

test('a second late payment at the same box is notified too', { tags: ['long'] }, async () => {
  const { till } = await paidLate('two late', 'canceled')
  const notified = async () => {
    await pass(20)
    const isOfTill = ({ client }: { client: string }) => client === till.client
    return hook
      .bodies()
      .filter(({ type, data }) => type === 'fleet.trouble' && data.cause === 'paid_late')
      .filter(({ data }) => data.subjects.some(isOfTill)).length
  }
  expect(await notified()).toBe(1)
  const orderId = await canceled(till, '50,00')
  const { mp_order_id: mpOrderId } = await orderRow(service, orderId)
  await act(service, orderId, { ...payByCard, force: true })
  await deliver(service, { dataId: String(mpOrderId) })
  expect((await boxOf(till)).order_id).toBe(orderId)
  expect(await notified()).toBe(2)
})

test('a late payment whose webhook was lost is found among the payments of the account', async () => {
  const till = await openOwnShop(service, 'no webhook')
  await service.paymentWatch.watchOnce()
  const orderId = await canceled(till, '100,00')
  await act(service, orderId, { ...payByCard, force: true })
  service.clock.advance(5 * 60_000)
  await service.paymentWatch.watchOnce()
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    outcome: 'charged',
    needs_decision: 'paid_late',
  })
})

test('an order settled as paid that ended without a payment waits for a decision', async () => {
  const till = await openOwnShop(service, 'settled as paid')
  await setFaults(service, { ...creation, kind: 'drop_after' }, { ...reading, kind: '503' })
  const created = await charge(service, till, { reference: 'A-1', amount: '100,00' })
  const orderId = String(created.json().order_id)
  expect((await settle(till, orderId, 'paid')).statusCode).toBe(200)
  await clearFaults(service)
  const [made] = ordersAtProvider(service, till)
  const mpOrderId = String(made?.id)
  await sandboxCall(service, 'POST', `/_sandbox/orders/${mpOrderId}/act`, { do: 'cancel' })
  await deliver(service, { dataId: mpOrderId, body: { action: 'order.canceled' } })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'canceled',
    outcome: 'not_charged',
    needs_decision: 'settled_unpaid',
    cashier: { action: 'call_supervisor' },
  })
  expect(await boxOf(till)).toMatchObject({ cause: 'settled_unpaid', order_id: orderId })
  expect(await close(service, till)).toMatchObject({
    state: 'differs',
    lines: [{ kind: 'missing_there', order_id: orderId, action: 'call_supervisor' }],
  })
  expect((await settle(till, orderId, 'not_paid')).json()).toMatchObject({
    needs_decision: null,
    retry_safe: true,
    cashier: { action: 'charge_again' },
  })
  expect((await close(service, till)).state).toBe('agreed')
})

test('a payment that the provider shows while a person decides that the order was not paid is flagged as late', async () => {
  const till = await openOwnShop(service, 'meanwhile')
  const { order_id: orderId } = (
    await charge(service, till, { reference: 'A-1', amount: '100,00' })
  ).json()
  await act(service, orderId, payByCard)
  service.clock.advance(17 * 60_000)
  const { orders } = service.deps.provider
  const { get } = orders
  orders.get = async (...args) => {
    orders.get = get
    const evidence = await get(...args)
    expect((await settle(till, orderId, 'not_paid')).statusCode).toBe(200)
    return evidence
  }
  const read = await readOrder(service, till, orderId)
  expect(read.json(), read.body).toMatchObject({
    status: 'processed',
    settled: { as: 'not_paid' },
    paid_after_close: true,
    needs_decision: 'paid_late',
  })
})
