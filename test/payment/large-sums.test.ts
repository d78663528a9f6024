import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { close, mpPosOf, sell } from '../closings/shop-day.ts'
import { insertOrders } from '../support/insert-orders.ts'
import { openOwnShop, retireShops } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, sandboxCall, type Till } from '../support/till.ts'

/** 95 of the largest amount are more cents than a number represents exactly (2^53). */
const count = 95
const largest = '999999999999.99'
const sum = '94999999999999.05'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
  // The clock is set so that no test crosses midnight.
  const dayMs = 24 * 3_600_000
  service.clock.advance(dayMs - ((service.clock.now().getTime() - dayMs / 8) % dayMs) + dayMs / 3)
})
afterEach(() => retireShops(service))
afterAll(() => service.stop())

function day(): string {
  const now = service.clock.now().getTime()
  const date = (ms: number) => new Date(now + ms).toISOString()
  return `from=${date(-3_600_000)}&to=${date(3_600_000)}`
}

async function insertLargeOrders(till: Till): Promise<void> {
  const id = await sell(service, till, 'A-1', { amount: largest.replace('.', ',') })
  await insertOrders(
    service.database.db,
    sql`select (jsonb_populate_record(orders, jsonb_build_object('id', gen_random_uuid(),
      'mp_order_id', 'ORDTST' || n, 'mp_external_reference', 'LARGE-' || n, 'request_key', null))).*
    from orders, generate_series(2, ${count}::integer) as n where orders.id = ${id}`,
  )
}

test('orders and statistics with sums beyond 2^53 cents have the exact sum', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'large orders')
  await insertLargeOrders(till)
  const listed = await call(service, { url: '/orders?totals=true&limit=1', token: till.key })
  expect([listed.statusCode, listed.json().totals?.paid]).toMatchObject([
    200,
    { orders: count, amount: sum, paid_amount: sum, refunded_amount: '0.00' },
  ])
  const counted = await call(service, { url: `/statistics?${day()}`, token: till.key })
  expect([counted.statusCode, counted.json().paid_amount]).toEqual([200, sum])
  expect(counted.json().boxes).toMatchObject([{ paid_amount: sum }])
  const overview = await call(service, { url: `/overview?${day()}`, token: till.key })
  expect(overview.statusCode).toBe(200)
})

test('a closing with sums beyond 2^53 cents has the exact sum', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'large closing')
  const at = service.clock.now().toISOString()
  const pos_id = await mpPosOf(service, till)
  await sandboxCall(
    service,
    'POST',
    '/_sandbox/payments',
    Array.from({ length: count }, (_, index) => ({
      user_id: till.mpUserId,
      pos_id,
      amount: largest,
      id: 981_000_000 + index,
      at,
    })),
  )
  const closing = await close(service, till, { declared: { credit_card: '100,00' } })
  expect(closing).toMatchObject({
    state: 'differs',
    totals: { there: { count, amount: sum }, installments: [{ count, amount: sum }] },
  })
  const paper = await call(service, { url: `/closings/${closing.id}/print`, token: till.key })
  expect(paper.statusCode).toBe(200)
})

test('a report and a net with sums beyond 2^53 cents have the exact sum', async () => {
  const till = await openOwnShop(service, 'large report')
  const id = await sell(service, till, 'A-1', { amount: largest.replace('.', ',') })
  const { mp_order_id: mpOrderId } = await service.database.db
    .selectFrom('orders')
    .select('mp_order_id')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  const line = (index: number) =>
    `${982_000_000 + index},SETTLEMENT,${largest},2026-11-26T10:00:00.000-04:00,-0.05,${largest},${mpOrderId}`
  const content = [
    'SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_AMOUNT,TRANSACTION_DATE,FEE_AMOUNT,SETTLEMENT_NET_AMOUNT,ORDER_MP',
    ...Array.from({ length: count }, (_, index) => line(index)),
  ].join('\r\n')
  const given = await service.app.inject({
    method: 'POST',
    url: '/settlements/files',
    headers: { 'x-api-token': till.key, 'content-type': 'text/csv' },
    payload: content,
  })
  expect([given.statusCode, given.json().totals], given.body).toMatchObject([
    200,
    { gross: sum, fee: '4.75', net: sum },
  ])
  const order = await call(service, { url: `/orders/${id}`, token: till.key })
  expect([order.statusCode, order.json().net]).toMatchObject([
    200,
    { state: 'differs', gross: sum, net: sum },
  ])
  const nets = await call(service, { url: `/settlements/net?${day()}`, token: till.key })
  expect([nets.statusCode, nets.json().gross], nets.body).toEqual([200, sum])
})
