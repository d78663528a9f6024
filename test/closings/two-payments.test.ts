import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { ClientName } from '../../src/domain/client-name.ts'
import {
  clearFaults,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  refund,
  retireShops,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'
import { close, sell, typeCharge, untilMorning, watchAfter } from './shop-day.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
beforeEach(async () => {
  await clearFaults(service)
  await sandboxCall(service, 'PUT', '/_sandbox/index', {})
  untilMorning(service)
})
afterEach(() => retireShops(service))
afterAll(() => service.stop())

const again = { ...payByCard, do: 'pay_again' }

async function orphansOf(till: Till) {
  return (await call(service, { url: '/orphans', token: till.key })).json()
}

function settle(till: Till, id: string, how: string, body: object = {}) {
  return call(service, {
    url: `/orphans/${id}/${how}`,
    token: till.key,
    body: { reason: 'por prueba', ...body },
  })
}

/** An order of 100,00 with two approved payments; `in_order`: whether the order itself lists both. */
async function paidTwice(
  name: string,
  { in_order, method = 'credit_card' }: { in_order: boolean; method?: string },
) {
  const till = await openOwnShop(service, name)
  const orderId = await sell(service, till, 'A-1', { amount: '100,00' })
  await act(service, orderId, { ...again, in_order, payment_method_type: method })
  await watchAfter(service, 5 * 60_000)
  const [order] = ordersAtProvider(service, till)
  const surplus = String(order?.payments[1]?.reference_id)
  return { till, orderId, surplus }
}

const shown = [
  ['only the list of payments shows', { in_order: false }],
  ['the order shows too', { in_order: true }],
] as const

test.each(shown)('a second payment that %s is an unclaimed payment', async (name, how) => {
  const { till, orderId, surplus } = await paidTwice(`found: ${name}`, how)
  expect(await orphansOf(till)).toMatchObject({
    total: 1,
    orphans: [
      {
        state: 'open',
        payment_id: surplus,
        amount: '100.00',
        caja_id: 'CAJA-1',
        surplus_of: orderId,
      },
    ],
  })
  const url = `/admin/activity?client=${encodeURIComponent(till.client)}&action=orphan.found`
  expect((await asAdmin(service, { url })).json().logs).toMatchObject([
    { metadata: { payment_id: surplus, surplus_of: orderId } },
  ])
})

test.each(shown)(
  'a second payment that %s needs a decision in the order and its cashier message',
  async (name, how) => {
    const { till, orderId } = await paidTwice(`till: ${name}`, how)
    const read = (await readOrder(service, till, orderId)).json()
    expect(read).toMatchObject({
      status: 'processed',
      outcome: 'charged',
      retry_safe: false,
      needs_decision: 'paid_twice',
      cashier: { action: 'call_supervisor', message: expect.stringContaining('más de un pago') },
    })
    const [orphan] = (await orphansOf(till)).orphans
    expect((await settle(till, orphan.id, 'dismiss')).statusCode).toBe(200)
    expect((await readOrder(service, till, orderId)).json()).toMatchObject({
      needs_decision: null,
      cashier: { action: 'give_receipt' },
    })
    await watchAfter(service, 5 * 60_000)
    expect((await readOrder(service, till, orderId)).json().needs_decision).toBeNull()
    expect((await orphansOf(till)).total).toBe(1)
  },
)

test.each(shown)(
  'a second payment that %s is counted and compared separately',
  async (name, how) => {
    const { till, orderId, surplus } = await paidTwice(`closing: ${name}`, how)
    const { state, lines, totals } = await close(service, till)
    expect(state).toBe('differs')
    expect(lines).toMatchObject([
      {
        kind: 'missing_here',
        payment_id: surplus,
        order_id: orderId,
        here: null,
        there: { amount: '100.00' },
        action: 'adopt_or_refund',
      },
    ])
    expect(totals).toMatchObject({
      here: { count: 1, amount: '100.00' },
      there: { count: 2, amount: '200.00' },
    })
    const { net } = (await readOrder(service, till, orderId)).json()
    expect(net).toMatchObject({ gross: '100.00', state: 'estimated' })
  },
)

test.each(shown)('refunding a second payment that %s refunds only that one', async (name, how) => {
  const { till, orderId, surplus } = await paidTwice(`refunded: ${name}`, how)
  const [orphan] = (await orphansOf(till)).orphans
  expect((await settle(till, orphan.id, 'refund')).json()).toMatchObject({ state: 'refunded' })
  await watchAfter(service, 5 * 60_000)
  const [order] = ordersAtProvider(service, till)
  expect(order?.payments).toMatchObject([
    { status: 'processed' },
    { status: 'refunded', reference_id: surplus, refunded_amount: '100.00' },
  ])
  const read = (await readOrder(service, till, orderId)).json()
  expect(read).toMatchObject({
    status: 'processed',
    outcome: 'charged',
    needs_decision: null,
    received_amount: '100.00',
    refunded_amount: '0.00',
  })
  expect(read.net.gross).toBe('100.00')
  expect((await close(service, till)).state).toBe('agreed')
})

test('an adopted second payment is an order of its own, and the day agrees', async () => {
  const { till, orderId, surplus } = await paidTwice('adopted', { in_order: true })
  const [orphan] = (await orphansOf(till)).orphans
  const adopted = (await settle(till, orphan.id, 'adopt', { external_reference: 'B-2' })).json()
  expect(adopted).toMatchObject({ state: 'adopted' })
  expect((await readOrder(service, till, adopted.order_id)).json()).toMatchObject({
    external_reference: 'B-2',
    received_amount: '100.00',
  })
  await watchAfter(service, 5 * 60_000)
  expect(await close(service, till)).toMatchObject({
    state: 'agreed',
    totals: { here: { count: 2, amount: '200.00' }, there: { count: 2, amount: '200.00' } },
  })
  await readOrder(service, till, orderId)
  const row = await orderRow(service, orderId)
  expect(row).toMatchObject({ paid_cents: 10_000, refunded_cents: 0 })
  expect(row.payments).toMatchObject([{}, { referenceId: surplus, isSurplus: true }])
})

test('the refund of an order that was paid twice refunds its own payment only', async () => {
  const { till, orderId } = await paidTwice('total', { in_order: true })
  const answer = await refund(service, till, orderId, undefined, 'K')
  expect([answer.statusCode, answer.json().amount]).toEqual([200, '100.00'])
  const [order] = ordersAtProvider(service, till)
  expect(order?.payments).toMatchObject([{ status: 'refunded' }, { status: 'processed' }])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'refunded',
    outcome: 'not_charged',
    needs_decision: 'paid_twice',
    cashier: { action: 'call_supervisor' },
  })
  expect((await orphansOf(till)).orphans).toMatchObject([{ state: 'open' }])
})

test('two payments that were read before their order was known to be paid are separated afterwards', async () => {
  const till = await openOwnShop(service, 'order later')
  const { order_id: orderId } = (
    await call(service, {
      url: '/orders',
      token: till.key,
      body: { caja_id: 'CAJA-1', external_reference: 'A-1', amount: '100,00' },
    })
  ).json()
  await act(service, orderId, payByCard)
  await act(service, orderId, { ...again, in_order: false })
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).total).toBe(0)
  await readOrder(service, till, orderId)
  await watchAfter(service, 5 * 60_000)
  expect(await orphansOf(till)).toMatchObject({ total: 1, orphans: [{ surplus_of: orderId }] })
})

test('a payment typed in with the reference of a paid order is a further payment of that order', async () => {
  const till = await openOwnShop(service, 'same reference')
  const orderId = await sell(service, till, 'A-1', { amount: '100,00' })
  const { mp_external_reference: reference } = await orderRow(service, orderId)
  const payment = await typeCharge(service, till, { external_reference: reference })
  await watchAfter(service, 5 * 60_000)
  expect(await orphansOf(till)).toMatchObject({
    total: 1,
    orphans: [{ payment_id: payment, amount: '77.50', surplus_of: orderId }],
  })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    needs_decision: 'paid_twice',
    net: { gross: '100.00' },
  })
})

test('a report that names the order of a further payment does not count it in the net of that order', {
  tags: ['long'],
}, async () => {
  const { till, orderId, surplus } = await paidTwice('report', { in_order: false })
  const { mp_order_id: mpOrderId } = await orderRow(service, orderId)
  const header = 'SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_AMOUNT,SETTLEMENT_NET_AMOUNT,ORDER_MP'
  const rows = [surplus].map((id) => `${id},SETTLEMENT,100.00,95.00,${mpOrderId}`)
  const handedIn = await call(service, {
    url: '/settlements/files',
    token: till.key,
    body: { content: [header, ...rows, ''].join('\r\n') },
  })
  expect([handedIn.statusCode, handedIn.json().without_order]).toEqual([200, 1])
  expect((await readOrder(service, till, orderId)).json().net).toMatchObject({
    state: 'estimated',
    gross: '100.00',
  })
  const [orphan] = (await orphansOf(till)).orphans
  const { order_id: adopted } = (await settle(till, orphan.id, 'adopt')).json()
  expect((await readOrder(service, till, adopted)).json().net).toMatchObject({ gross: '100.00' })
})

test('a payment that its order names later gets its movements back, and the order needs no decision', async () => {
  const { till, orderId, surplus } = await paidTwice('named later', { in_order: false })
  const { mp_order_id: mpOrderId } = await orderRow(service, orderId)
  const header = 'SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_AMOUNT,SETTLEMENT_NET_AMOUNT,ORDER_MP'
  const content = `${header}\r\n${surplus},SETTLEMENT,100.00,95.00,${mpOrderId}\r\n`
  await call(service, { url: '/settlements/files', token: till.key, body: { content } })
  const ordersOfMovement = async () =>
    (
      await service.database.db
        .selectFrom('settlement_rows')
        .select('order_id')
        .where('source_id', '=', surplus)
        .execute()
    ).map(({ order_id }) => order_id)
  expect(await ordersOfMovement()).toEqual([null])
  const needsDecision = async () =>
    (await readOrder(service, till, orderId)).json().needs_decision as string | null
  expect(await needsDecision()).toBe('paid_twice')
  await sql`
    update orders set last_updated_at = ${service.clock.now()}, version = version + 1, payments = payments ||
      jsonb_build_array(payments -> 0 || jsonb_build_object('referenceId', ${surplus}::text))
    where id = ${orderId}`.execute(service.database.db)
  await watchAfter(service, 5 * 60_000)
  expect(await ordersOfMovement()).toEqual([orderId])
  expect((await orphansOf(till)).orphans).toMatchObject([{ state: 'dismissed' }])
  expect(await needsDecision()).toBeNull()
})

test('an order that names the later one of two payments is paid by that one, and the earlier one is the further payment', async () => {
  const till = await openOwnShop(service, 'names the later')
  const orderId = await sell(service, till, 'A-1', { amount: '100,00' })
  await act(service, orderId, { ...again, in_order: false })
  const [order] = ordersAtProvider(service, till)
  const [first, second] = order?.payments.map(({ reference_id }) => String(reference_id)) ?? []
  const { payments } = await orderRow(service, orderId)
  const write = (paid: number, named: object[]) =>
    sql`
      update orders set last_updated_at = ${service.clock.now()}, version = version + 1, paid_cents = ${paid},
        payments = ${JSON.stringify(named)}::jsonb
      where id = ${orderId}`.execute(service.database.db)
  // Both payments are read while the order is not known to be paid.
  await write(0, [])
  await service.database.transaction(async (trx) => {
    await sql`update provider_payments set order_id = ${orderId}, surplus_of = null where client = ${till.client}`.execute(
      trx,
    )
  })
  await watchAfter(service, 5 * 60_000)
  await write(10_000, [{ ...payments[0], referenceId: second }])
  await watchAfter(service, 5 * 60_000)
  const rows = await service.database.db
    .selectFrom('provider_payments')
    .select(['payment_id', 'order_id', 'surplus_of'])
    .where('client', '=', till.client as ClientName)
    .orderBy('payment_id')
    .execute()
  expect(new Map(rows.map((row) => [row.payment_id, [row.order_id, row.surplus_of]]))).toEqual(
    new Map([
      [first, [null, orderId]],
      [second, [orderId, null]],
    ]),
  )
})

test('an order with a further payment counts under the method of its own payment', async () => {
  const how = { in_order: true, method: 'debit_card' }
  const { till, orderId } = await paidTwice('sales by method', how)
  await readOrder(service, till, orderId)
  const at = service.clock.now().getTime()
  const url = `/sales-over-time?group=method&from=${new Date(at - 86_400_000).toISOString()}&to=${new Date(at).toISOString()}`
  const { groups } = (await call(service, { url, token: till.key })).json()
  expect(groups).toMatchObject([
    { key: 'credit_card', paid: 1, difference: '0.00' },
    { key: 'debit_card', paid: 0, difference: '100.00' },
  ])
})

test('a payment that was taken for that of its order, and is a further one, waits for a decision again', async () => {
  const till = await openOwnShop(service, 'further after all')
  const body = { caja_id: 'CAJA-1', external_reference: 'A-1', amount: '100,00' }
  const { order_id: orderId } = (
    await call(service, { url: '/orders', token: till.key, body })
  ).json()
  const { mp_external_reference: reference } = await orderRow(service, orderId)
  const payment = await typeCharge(service, till, { external_reference: reference })
  await watchAfter(service, 5 * 60_000)
  const [orphan] = (await orphansOf(till)).orphans
  expect(orphan).toMatchObject({ payment_id: payment, state: 'open', surplus_of: null })
  // The payment that the order names is not read yet.
  await act(service, orderId, payByCard)
  await readOrder(service, till, orderId)
  const refused = await settle(till, orphan.id, 'adopt')
  expect(refused.json().code).toBe('ORPHAN_SETTLED')
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).orphans).toMatchObject([
    { id: orphan.id, state: 'open', reason: null, surplus_of: orderId },
  ])
  expect((await readOrder(service, till, orderId)).json().needs_decision).toBe('paid_twice')
  expect((await settle(till, orphan.id, 'dismiss')).json().state).toBe('dismissed')
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).orphans).toMatchObject([{ state: 'dismissed' }])
  expect((await readOrder(service, till, orderId)).json().needs_decision).toBeNull()
})
