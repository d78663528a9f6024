import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { encodeReference } from '../../src/domain/provider-names.ts'
import {
  auditOf,
  cancel,
  clearFaults,
  creation,
  deliver,
  openOwnShop,
  ordersAtProvider,
  reading,
  retireShops,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'
import { close, sell, typeCharge, untilMorning, watchAfter } from './shop-day.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '500' }, hangsAreShort: true })
})
beforeEach(() => untilMorning(service))
afterEach(() => retireShops(service))
afterAll(() => service.stop())

const minuteMs = 60_000

async function orphansOf(till: Till) {
  return (await call(service, { url: '/orphans', token: till.key })).json().orphans
}

async function paymentRow(till: Till, paymentId: string) {
  return service.database.db
    .selectFrom('provider_payments')
    .selectAll()
    .where('payment_id', '=', paymentId)
    .where('mp_user_id', '=', till.mpUserId)
    .executeTakeFirstOrThrow()
}

/** An order of ours that ends unpaid. */
async function unpaid(till: Till, reference: string): Promise<string> {
  const { order_id } = (await charge(service, till, { reference, amount: '77,50' })).json()
  await cancel(service, till, order_id)
  await readOrder(service, till, order_id)
  return order_id
}

/** Another application charges the same sale on the same terminal. */
async function chargeElsewhere(till: Till & { terminalId: string }, reference: string) {
  const { id } = (await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: encodeReference(reference, 1),
    transactions: { payments: [{ amount: '77.50' }] },
    config: { point: { terminal_id: till.terminalId } },
  })) as { id: string }
  const order = (await sandboxCall(service, 'POST', `/_sandbox/orders/${id}/act`, {
    do: 'pay',
    payment_method_type: 'credit_card',
    payment_method_id: 'visa',
    installments: 1,
  })) as { transactions: { payments: { reference_id: string }[] } }
  return { id, paymentId: String(order.transactions.payments[0]?.reference_id) }
}

test('a payment of another application is unclaimed, whatever the state of our order with that reference', async () => {
  const till = await openOwnShop(service, 'other application')
  const orderId = await unpaid(till, 'X-1')
  const { id, paymentId } = await chargeElsewhere(till, 'X-1')
  await watchAfter(service, 5 * minuteMs)
  expect(await paymentRow(till, paymentId)).toMatchObject({ order_id: null, surplus_of: null })
  expect(await orphansOf(till)).toMatchObject([
    {
      payment_id: paymentId,
      external_reference: 'X-1',
      mp_order_id: id,
      similar_order_ids: [orderId],
    },
  ])
  expect(await auditOf(service, till.client, 'orphan.found')).toMatchObject([
    { metadata: { mp_order_id: id, similar_order_ids: [orderId] } },
  ])
  const closing = await close(service, till)
  expect(closing.state).toBe('differs')
})

test('a payment of another application is not taken for a charge whose answer was lost', async () => {
  const till = await openOwnShop(service, 'lost answer')
  await setFaults(service, { ...creation, kind: 'drop_before' }, { ...reading, kind: '503' })
  const lost = await charge(service, till, { reference: 'X-2', amount: '77,50' })
  const orderId = String(lost.json().order_id)
  await setFaults(service, { ...creation, kind: 'drop_before' })
  const { id, paymentId } = await chargeElsewhere(till, 'X-2')
  await watchAfter(service, 5 * minuteMs)
  expect(await paymentRow(till, paymentId)).toMatchObject({ order_id: null })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    outcome: 'unknown',
    standing: 'in_doubt',
  })
  // Once a person has settled the order, the payment is listed.
  const body = { as: 'not_paid', reason: 'Ana: it is the sale of the other program' }
  await call(service, { url: `/orders/${orderId}/settle`, token: till.key, body })
  await watchAfter(service, 5 * minuteMs)
  expect(await orphansOf(till)).toMatchObject([{ payment_id: paymentId, mp_order_id: id }])
  await clearFaults(service)
})

test.each([
  ['typed after our order was canceled', 5 * minuteMs, {}],
  ['made before our first attempt', -60 * minuteMs, {}],
  ['of another amount', 5 * minuteMs, { amount: '50.00' }],
])('a payment with our reference, %s, is unclaimed', async (name, at, fields) => {
  const till = await openOwnShop(service, name)
  const orderId = await unpaid(till, 'X-3')
  const paymentId = await typeCharge(service, till, {
    external_reference: 'X-3',
    at: new Date(service.clock.now().getTime() + Math.min(at, 0)).toISOString(),
    ...fields,
  })
  await watchAfter(service, 5 * minuteMs)
  expect(await paymentRow(till, paymentId)).toMatchObject({ order_id: null, surplus_of: null })
  expect(await orphansOf(till)).toMatchObject([
    { payment_id: paymentId, mp_order_id: null, similar_order_ids: [orderId] },
  ])
})

test('a payment before the first attempt is not a further payment of the paid order', async () => {
  const till = await openOwnShop(service, 'paid later')
  const orderId = await sell(service, till, 'X-4', { amount: '77,50' })
  const paymentId = await typeCharge(service, till, {
    external_reference: 'X-4',
    at: new Date(service.clock.now().getTime() - 60 * minuteMs).toISOString(),
  })
  await watchAfter(service, 5 * minuteMs)
  expect(await paymentRow(till, paymentId)).toMatchObject({ order_id: null, surplus_of: null })
  expect((await orphansOf(till))[0]).toMatchObject({ similar_order_ids: [orderId] })
})

/** The watch reads payments, while the provider shows no order. */
async function watchWithoutOrders() {
  await setFaults(service, { ...reading, kind: 'status', status: 404 })
  await watchAfter(service, 5 * minuteMs)
  await clearFaults(service)
}

/** A charge whose answer was lost, that a person settled as not paid, and whose payment was found before its order. */
async function paymentBeforeOrder(client: string) {
  const till = await openOwnShop(service, client)
  await setFaults(service, { ...creation, kind: 'drop_after' }, { ...reading, kind: '503' })
  const orderId = String(
    (await charge(service, till, { reference: 'X-6', amount: '1000,00' })).json().order_id,
  )
  const body = { as: 'not_paid', reason: 'Ana: the terminal shows nothing' }
  await call(service, { url: `/orders/${orderId}/settle`, token: till.key, body })
  await clearFaults(service)
  const [made] = ordersAtProvider(service, till)
  await sandboxCall(service, 'POST', `/_sandbox/orders/${made?.id}/act`, payByCard)
  await watchWithoutOrders()
  const [orphan] = await orphansOf(till)
  expect(orphan).toMatchObject({ state: 'open', mp_order_id: made?.id })
  await deliver(service, { dataId: String(made?.id) })
  expect((await readOrder(service, till, orderId)).json().needs_decision).toBe('paid_late')
  return { till, orderId, orphan }
}

test('an unclaimed payment whose order is found later waits for no decision of its own, and brings its movements', {
  tags: ['long'],
}, async () => {
  const { till, orderId, orphan } = await paymentBeforeOrder('order found later')
  const content = `SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_AMOUNT,SETTLEMENT_NET_AMOUNT\r\n${orphan.payment_id},SETTLEMENT,1000.00,940.10\r\n`
  await call(service, { url: '/settlements/files', token: till.key, body: { content } })
  await close(service, till)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    amount: '1000.00',
    net: { state: 'settled', net: '940.10' },
  })
  expect(await paymentRow(till, orphan.payment_id)).toMatchObject({ order_id: orderId })
  expect(await orphansOf(till)).toMatchObject([{ state: 'dismissed' }])
})

test.each(['adopt', 'refund'])(
  'an unclaimed payment whose order was found meanwhile is refused: %s',
  async (how) => {
    const { till, orderId, orphan } = await paymentBeforeOrder(`order found before ${how}`)
    const url = `/orphans/${orphan.id}/${how}`
    const refused = await call(service, { url, token: till.key, body: { reason: 'por prueba' } })
    expect([refused.statusCode, refused.json().code]).toEqual([409, 'ORPHAN_SETTLED'])
    const { orders } = (await call(service, { url: '/orders', token: till.key })).json()
    expect(orders).toMatchObject([{ order_id: orderId, status: 'processed', refunds: [] }])
  },
)

/** A paid order that a restored backup lacks: its payment was found as an unclaimed one before the order. */
async function paymentOfLostOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'R-1', amount: '1000,00' })).json()
  const mpOrderId = String(ordersAtProvider(service, till)[0]?.id)
  const { db } = service.database
  for (const table of ['order_events', 'order_operations', 'idempotency_keys'] as const) {
    await db.deleteFrom(table).where('order_id', '=', order_id).execute()
  }
  await db.deleteFrom('orders').where('id', '=', order_id).execute()
  await sandboxCall(service, 'POST', `/_sandbox/orders/${mpOrderId}/act`, payByCard)
  await watchWithoutOrders()
  const [orphan] = await orphansOf(till)
  return { till, mpOrderId, orphan }
}

async function ordersOf(till: Till) {
  return (await call(service, { url: '/orders', token: till.key })).json().orders
}

const adoptBody = { reason: 'por prueba' }

test('an unclaimed payment ends when its order is found hours later, though the payment does not change', async () => {
  const { till, mpOrderId, orphan } = await paymentOfLostOrder('found hours later')
  await watchAfter(service, 180 * minuteMs)
  expect((await readOrder(service, till, mpOrderId)).json().status).toBe('processed')
  await watchAfter(service, 5 * minuteMs)
  const [order] = await ordersOf(till)
  expect(order.net).toMatchObject({ gross: '1000.00', net: '940.10' })
  expect(await paymentRow(till, orphan.payment_id)).toMatchObject({ order_id: order.order_id })
  expect(await orphansOf(till)).toMatchObject([{ id: orphan.id, state: 'dismissed' }])
})

test.each(['request', 'webhook'])(
  'a charge that a person adopted is not counted again when its order is found by a %s',
  { tags: ['long'] },
  async (by) => {
    const { till, mpOrderId, orphan } = await paymentOfLostOrder(`adopted before the ${by}`)
    const url = `/orphans/${orphan.id}/adopt`
    const { order_id } = (await call(service, { url, token: till.key, body: adoptBody })).json()
    if (by === 'webhook') await deliver(service, { dataId: mpOrderId })
    else await readOrder(service, till, mpOrderId)
    await watchAfter(service, 5 * minuteMs)
    expect(await ordersOf(till)).toMatchObject([{ order_id, paid_amount: '1000.00' }])
    expect((await close(service, till)).state).toBe('agreed')
  },
)

test('a payment whose order is found while a person adopts it is counted once', async () => {
  const { till, mpOrderId, orphan } = await paymentOfLostOrder('found during adoption')
  const { orders } = service.deps.provider
  const { get } = orders
  orders.get = async (...given) => {
    orders.get = get
    const shown = await get(...given)
    await readOrder(service, till, mpOrderId)
    return shown
  }
  const url = `/orphans/${orphan.id}/adopt`
  const refused = await call(service, { url, token: till.key, body: adoptBody })
  expect([refused.statusCode, refused.json().code]).toEqual([409, 'ORPHAN_SETTLED'])
  await watchAfter(service, 5 * minuteMs)
  expect(await ordersOf(till)).toMatchObject([{ mp_order_id: mpOrderId, paid_amount: '1000.00' }])
  expect(await orphansOf(till)).toMatchObject([{ state: 'dismissed' }])
})
