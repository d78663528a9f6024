import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import { call, createClock, openShop, orderBody, type Shop, startTestSandbox } from './support.ts'

const clock = createClock()
let sandbox: Sandbox
let shop: Shop
beforeAll(async () => {
  sandbox = await startTestSandbox({ now: clock.now })
  shop = await openShop(sandbox)
})
afterAll(() => sandbox.close())

const get = (path: string) => call(sandbox, 'GET', path, { token: shop.token })
const search = (query: string) => get(`/v1/payments/search?${query}`)

let keys = 0
async function paid(amount: string, act: object = {}) {
  keys += 1
  const order = await call(sandbox, 'POST', '/v1/orders', {
    token: shop.token,
    key: `key-${keys}`,
    body: orderBody(shop, amount),
  })
  const { body } = await call(sandbox, 'POST', `/_sandbox/orders/${order.body.id}/act`, {
    body: { do: 'pay', payment_method_type: 'credit_card', ...act },
  })
  return { orderId: order.body.id, number: body.transactions.payments[0].reference_id as string }
}

/** How late the search of payments is, and the charges of a payment. */
const late = (search: number, charges: number) =>
  call(sandbox, 'PUT', '/_sandbox/index', {
    body: { lag_ms: search, charges_after_ms: charges },
  })

test('the payment of an order is read by its number, and its charges leave its net amount to the cent', async () => {
  const { orderId, number } = await paid('1000.00', { installments: 3 })
  const { status, body } = await get(`/v1/payments/${number}`)
  expect(status).toBe(200)
  expect(body).toMatchObject({
    id: Number(number),
    status: 'approved',
    transaction_amount: 1000,
    installments: 3,
    pos_id: String(shop.posId),
    store_id: String(shop.storeId),
    order: { id: orderId },
    money_release_status: 'pending',
  })
  const kept = body.charges_details
    .filter((charge: { accounts: { from: string } }) => charge.accounts.from === 'collector')
    .reduce(
      (sum: number, charge: { amounts: { original: number } }) =>
        sum + charge.amounts.original * 100,
      0,
    )
  expect(body.transaction_details.net_received_amount * 100).toBeCloseTo(100_000 - kept)
  expect((await get('/v1/payments/1')).status).toBe(404)
})

test('the search of payments pages, filters by box and time, and is late by the set time', async () => {
  clock.advance(3_600_000)
  const begin = clock.now().toISOString()
  await call(sandbox, 'POST', '/_sandbox/payments', {
    body: Array.from({ length: 45 }, (_, at) => ({
      user_id: shop.userId,
      amount: '10.00',
      // Every third is an online sale.
      ...(at % 3 !== 0 && { pos_id: shop.posId }),
    })),
  })
  const all = await search(`begin_date=${begin}&sort=date_created&criteria=asc`)
  expect(all.body.paging).toEqual({ total: 45, limit: 30, offset: 0 })
  expect(all.body.results).toHaveLength(30)
  const box = await search(`begin_date=${begin}&pos_id=${shop.posId}&limit=100&offset=20`)
  expect([box.body.paging.total, box.body.results.length]).toEqual([30, 10])

  await late(40_000, 60_000)
  clock.advance(1_000)
  const { number } = await paid('20.00')
  const found = async () => (await search(`begin_date=${begin}`)).body.paging.total
  expect(await found()).toBe(0)
  expect((await get(`/v1/payments/${number}`)).body).toMatchObject({ charges_details: [] })
  clock.advance(40_000)
  expect(await found()).toBe(46)
  clock.advance(40_000)
  expect((await get(`/v1/payments/${number}`)).body.charges_details).toHaveLength(4)
  await late(0, 0)
})

test('orders are searched over 30 days at most', async () => {
  const days = (count: number) =>
    get(
      `/v1/orders?begin_date=2026-10-01T00:00:00Z&end_date=${new Date(Date.parse('2026-10-01T00:00:00Z') + count * 86_400_000).toISOString()}`,
    )
  expect((await days(30)).status).toBe(200)
  const refused = await days(31)
  expect([refused.status, refused.body.errors[0].code]).toEqual([400, 'invalid_parameter'])
})
