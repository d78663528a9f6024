import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import {
  advanceRead,
  beginReadAgain,
  findRead,
  type PaymentReadRow,
  planRead,
} from '../../src/repositories/provider-payments/payment-reads.ts'
import {
  clearFaults,
  forgetRequests,
  newAccount,
  openOwnShop,
  orderRow,
  providerRequests,
  refund,
  retireShops,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  changeAccount,
  charge,
  createStore,
  enrol,
  openShop,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'
import { openClosing, readClosing } from './shop-day.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
beforeEach(async () => {
  await clearFaults(service)
  await sandboxCall(service, 'PUT', '/_sandbox/index', {})
})
afterEach(() => retireShops(service))
afterAll(() => service.stop())

const searching = { path: '^/v1/payments/search$', method: 'GET' }
const dayMs = 86_400_000

async function watchAfter(ms: number, by: TestService = service) {
  service.clock.advance(ms)
  await by.paymentWatch.watchOnce()
}

async function paymentsOf(till: Till) {
  return service.database.db
    .selectFrom('provider_payments')
    .selectAll()
    .where('client', '=', asClientName(till.client))
    .orderBy('sold_at')
    .orderBy('payment_id')
    .execute()
}

async function pay(till: Till, reference: string): Promise<string> {
  const { order_id } = (await charge(service, till, { reference, amount: '1000,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  return order_id
}

test('a payment is stored once, with its order, its box and the fees of the provider', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'stored')
  const orderId = await pay(till, 'A-1')
  await watchAfter(90_000)
  await watchAfter(4 * 60_000)
  const rows = await paymentsOf(till)
  expect(rows).toMatchObject([
    {
      order_id: orderId,
      caja_id: 'CAJA-1',
      sucursal_id: 'SUC-1',
      status: 'approved',
      amount_cents: 100_000,
      net_cents: 100_000 - 4_390 - 1_000 - 600,
      method_type: 'credit_card',
      release_status: 'pending',
    },
  ])
  expect(rows[0]?.charges.map(({ name, from, amount }) => [name, from, amount.cents])).toEqual([
    ['mp_processing_fee', 'collector', 4_390],
    ['tax_withholding_sirtac-caba', 'collector', 1_000],
    ['tax_withholding_collector-debitos_creditos', 'collector', 600],
    ['tax_withholding_payer-iva', 'payer', 500],
  ])
  expect(rows[0]?.release_at?.getTime()).toBeGreaterThan(service.clock.now().getTime())
})

test('payments that the index shows late are read, and the cursor does not pass them', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'lagging')
  await watchAfter(0)
  await sandboxCall(service, 'PUT', '/_sandbox/index', { lag_ms: 40_000 })
  await pay(till, 'A-1')
  await watchAfter(4 * 60_000)
  await pay(till, 'A-2')
  await watchAfter(4 * 60_000)
  expect(await paymentsOf(till)).toHaveLength(2)
})

test('a later refund is in the row of its payment', { tags: ['long'] }, async () => {
  const till = await openOwnShop(service, 'returned')
  const orderId = await pay(till, 'A-1')
  await watchAfter(90_000)
  service.clock.advance(60 * 60_000)
  await refund(service, till, orderId, '250,00')
  await watchAfter(4 * 60_000)
  const [row] = await paymentsOf(till)
  expect(row).toMatchObject({ refunded_cents: 25_000, status_detail: 'partially_refunded' })
  expect(row?.refunds).toMatchObject([{ amount: { cents: 25_000 } }])
})

test('a charge typed into the terminal is stored without an order; an online sale of the account is not stored', async () => {
  const till = await openOwnShop(service, 'typed')
  const sale = { user_id: till.mpUserId, amount: '77.50' }
  const box = await mpPosOf(till)
  await sandboxCall(service, 'POST', '/_sandbox/payments', [
    { ...sale, pos_id: box, id: 910_000_001 },
    { ...sale, id: 910_000_002, external_reference: 'WEB-1' },
  ])
  await watchAfter(90_000)
  expect(await paymentsOf(till)).toMatchObject([
    { payment_id: '910000001', order_id: null, caja_id: 'CAJA-1', amount_cents: 7_750 },
  ])
})

test('an online sale with the reference of an order of the shop is not taken for its payment', async () => {
  const till = await openOwnShop(service, 'alike')
  const { order_id } = (await charge(service, till, { reference: 'ALIKE-1' })).json()
  const order = await service.database.db
    .selectFrom('orders')
    .select('mp_external_reference')
    .where('id', '=', order_id)
    .executeTakeFirstOrThrow()
  await sandboxCall(service, 'POST', '/_sandbox/payments', {
    user_id: till.mpUserId,
    amount: '1234.50',
    external_reference: order.mp_external_reference,
  })
  await watchAfter(90_000)
  expect(await paymentsOf(till)).toEqual([])
})

test('two clients of one account each get the payments of their own boxes', async () => {
  const account = newAccount()
  const first = await openShop(service, 'north', account)
  const second = await enrol(service, 'south', account)
  await createStore(service, second, { id: 'SUC-2', boxes: ['CAJA-2'] })
  const sale = { user_id: first.mpUserId, amount: '10.00' }
  await sandboxCall(service, 'POST', '/_sandbox/payments', [
    { ...sale, pos_id: await mpPosOf(first), id: 920_000_001 },
    { ...sale, pos_id: await mpPosOf(second, 'CAJA-2'), id: 920_000_002 },
  ])
  await watchAfter(90_000)
  expect((await paymentsOf(first)).map((row) => row.payment_id)).toEqual(['920000001'])
  expect((await paymentsOf(second)).map((row) => row.payment_id)).toEqual(['920000002'])
})

test('a long list is read to its end despite failing pages, and continues where it was', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'long')
  const box = await mpPosOf(till)
  const now = service.clock.now().getTime()
  const count = 330
  await sandboxCall(
    service,
    'POST',
    '/_sandbox/payments',
    Array.from({ length: count }, (_, at) => ({
      user_id: till.mpUserId,
      pos_id: box,
      amount: '10.00',
      id: 930_000_000 + at,
      at: new Date(now - at * 1_000).toISOString(),
    })),
  )
  service.clock.advance(90_000)
  const failing = { ...searching, kind: '500', user_id: till.mpUserId }
  await setFaults(service, { ...failing, skip: 3 })
  await service.paymentWatch.watchOnce()
  const before = (await paymentsOf(till)).length
  expect(before).toBe(150)
  await clearFaults(service)
  await forgetRequests(service)
  await watchAfter(2 * 60_000)
  expect(await paymentsOf(till)).toHaveLength(count)
  const asked = (await providerRequests(service, searching)).filter(
    ({ user_id }) => user_id === till.mpUserId,
  )
  expect(asked.length).toBeLessThanOrEqual(6)
})

test('while a list makes progress each failure is waited for like the first', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'page by page')
  const box = await mpPosOf(till)
  const now = service.clock.now().getTime()
  const payments = Array.from({ length: 330 }, (_, at) => ({
    user_id: till.mpUserId,
    pos_id: box,
    amount: '10.00',
    id: 935_000_000 + at,
    at: new Date(now - at * 1_000).toISOString(),
  }))
  await sandboxCall(service, 'POST', '/_sandbox/payments', payments)
  for (let round = 0; round < 7; round += 1) {
    await clearFaults(service)
    // One page is read, and the next one fails at each attempt.
    await setFaults(service, { ...searching, kind: '500', user_id: till.mpUserId, skip: 1 })
    await watchAfter(2 * 60_000)
  }
  expect(await paymentsOf(till)).toHaveLength(payments.length)
})

test('a list that changes while it is read is read again from its beginning', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'moving')
  const box = await mpPosOf(till)
  const now = service.clock.now().getTime()
  const sales = (from: number, count: number, agoMs: number) =>
    Array.from({ length: count }, (_, at) => ({
      user_id: till.mpUserId,
      pos_id: box,
      amount: '10.00',
      id: from + at,
      at: new Date(now - agoMs + at).toISOString(),
    }))
  await sandboxCall(service, 'POST', '/_sandbox/payments', sales(940_000_000, 60, 600_000))
  service.clock.advance(90_000)
  const failing = { ...searching, kind: '500', user_id: till.mpUserId }
  await setFaults(service, { ...failing, skip: 1 })
  await service.paymentWatch.watchOnce()
  await clearFaults(service)
  // Indexed late: it is on a page that was read already.
  await sandboxCall(service, 'POST', '/_sandbox/payments', sales(950_000_000, 1, 700_000))
  for (let round = 0; round < 3; round += 1) await watchAfter(2 * 60_000)
  expect(await paymentsOf(till)).toHaveLength(61)
})

function salesOf(till: Till, box: string, from: number, count: number, gapMs: number) {
  const now = service.clock.now().getTime()
  return Array.from({ length: count }, (_, at) => ({
    user_id: till.mpUserId,
    pos_id: box,
    amount: '10.00',
    id: from + at,
    at: new Date(now - at * gapMs).toISOString(),
  }))
}

test('a list whose total changes with every page is read to its end after three restarts', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'changing')
  const sales = salesOf(till, await mpPosOf(till), 960_100_000, 130, 1_000)
  await sandboxCall(service, 'POST', '/_sandbox/payments', sales)
  await sandboxCall(service, 'PUT', '/_sandbox/index', { total_step: 1 })
  await forgetRequests(service)
  for (let round = 0; round < 6; round += 1) await watchAfter(2 * 60_000)
  expect(await paymentsOf(till)).toHaveLength(sales.length)
  const read = await service.database.db
    .selectFrom('payment_reads')
    .select(['restarts', 'finished_at'])
    .where('client', '=', asClientName(till.client))
    .where('name', '=', 'changes')
    .execute()
  expect(read).toMatchObject([{ restarts: expect.any(Number), finished_at: expect.any(Date) }])
  const asked = (await providerRequests(service, searching)).filter(
    ({ user_id }) => user_id === till.mpUserId,
  )
  expect(asked.length).toBeLessThan(40)
})

test('a closing whose list keeps changing is compared with the payments that were read', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'changing day')
  await sandboxCall(
    service,
    'POST',
    '/_sandbox/payments',
    salesOf(till, await mpPosOf(till), 960_200_000, 60, 1),
  )
  const { id } = (await openClosing(service, till)).json()
  await sandboxCall(service, 'PUT', '/_sandbox/index', { total_step: 1 })
  await watchAfter(61_000)
  await watchAfter(10 * 60_000)
  const closing = await readClosing(service, till, id)
  expect([closing.state, closing.reason, closing.totals?.there.count]).toEqual([
    'differs',
    null,
    60,
  ])
})

test('a time with more payments than the search returns is read in parts', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'crowded')
  const sales = salesOf(till, await mpPosOf(till), 960_300_000, 330, 1_000)
  await sandboxCall(service, 'POST', '/_sandbox/payments', sales)
  await sandboxCall(service, 'PUT', '/_sandbox/index', { results_at_most: 100 })
  await watchAfter(90_000)
  expect(await paymentsOf(till)).toHaveLength(sales.length)
})

test('totals above 10,000 split the time down to a second, and then the closing is unverified', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'very crowded')
  const sales = salesOf(till, await mpPosOf(till), 960_400_000, 60, 1)
  await sandboxCall(service, 'POST', '/_sandbox/payments', sales)
  const { id } = (await openClosing(service, till)).json()
  await sandboxCall(service, 'PUT', '/_sandbox/index', { total_step: 20_000 })
  await forgetRequests(service)
  for (let round = 0; round < 4; round += 1) await watchAfter(10 * 60_000)
  const closing = await readClosing(service, till, id)
  expect([closing.state, closing.reason]).toEqual(['unverified', 'provider_unreadable'])
  const offsets = (await providerRequests(service, searching))
    .filter(({ user_id }) => user_id === till.mpUserId)
    .map(({ query }) => new URLSearchParams(query).get('offset'))
  expect(new Set(offsets)).toEqual(new Set(['0']))
})

test('two processes do not read one account at the same time', async () => {
  const till = await openOwnShop(service, 'shared')
  await pay(till, 'A-1')
  const duplicate = await startTestService({ twinOf: service })
  try {
    service.clock.advance(90_000)
    await forgetRequests(service)
    await Promise.all([service.paymentWatch.watchOnce(), duplicate.paymentWatch.watchOnce()])
    const asked = (await providerRequests(service, searching)).filter(
      ({ user_id }) => user_id === till.mpUserId,
    )
    expect(asked).toHaveLength(1)
    expect(await paymentsOf(till)).toHaveLength(1)
  } finally {
    await duplicate.stop()
  }
})

async function mpPosOf(till: Till, box = 'CAJA-1'): Promise<string> {
  const row = await service.database.db
    .selectFrom('pos')
    .select('mp_pos_id')
    .where('client', '=', asClientName(till.client))
    .where('external_id', '=', box)
    .executeTakeFirstOrThrow()
  return String(row.mp_pos_id)
}

test('a page of an earlier time span does not advance a read that was begun again', async () => {
  const till = await openOwnShop(service, 'two times')
  const { db } = service.database
  const from = new Date(service.clock.now().getTime() - dayMs)
  const name = { client: asClientName(till.client), name: 'two times' }
  await planRead(db, {
    ...name,
    mp_user_id: till.mpUserId,
    range: 'date_created',
    begins_at: from,
    ends_at: new Date(from.getTime() + 60_000),
    mp_pos_id: null,
    mp_store_id: null,
  })
  const read = (await findRead(db, name)) as PaymentReadRow
  const until = (ms: number) => ({
    mpUserId: till.mpUserId,
    from: read.ends_at,
    to: new Date(read.ends_at.getTime() + ms),
  })
  await beginReadAgain(db, read, until(60_000))
  expect(await advanceRead(db, read, { ...read, finished_at: service.clock.now() })).toBe(false)
  // A process that read the earlier time span does not begin it again either.
  await beginReadAgain(db, read, until(30_000))
  expect(await findRead(db, read)).toMatchObject({
    begins_at: read.ends_at,
    ends_at: new Date(read.ends_at.getTime() + 60_000),
    finished_at: null,
  })
})

test('what changed at an account while the client was connected to another one is read after its return', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'there and back')
  const orderId = await pay(till, 'A-1')
  await watchAfter(5 * 60_000)
  const { mp_order_id } = await orderRow(service, orderId)
  await changeAccount(service, till, newAccount())
  await watchAfter(60_000)
  await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    order_id: mp_order_id,
    webhooks: 'none',
  })
  await watchAfter(3 * dayMs)
  await changeAccount(service, till, String(till.mpUserId))
  await watchAfter(60_000)
  await watchAfter(5 * 60_000)
  expect(await paymentsOf(till)).toMatchObject([{ order_id: orderId, status: 'charged_back' }])
})
