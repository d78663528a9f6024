import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { clearFaults, openOwnShop, refund, retireShops } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'
import { close, sell, typeCharge, untilMorning, watchAfter } from './shop-day.ts'

/** Sales by store, compared with Mercado Pago. */

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

const startOfDay = () => {
  const dayMs = 24 * 3_600_000
  const shiftMs = 3 * 3_600_000
  return new Date(Math.floor((service.clock.now().getTime() - shiftMs) / dayMs) * dayMs + shiftMs)
}

const spanQuery = (from = startOfDay(), to?: Date) =>
  `from=${from.toISOString()}${to ? `&to=${to.toISOString()}` : ''}`

async function readSales(till: Till, query = spanQuery()) {
  const answer = await call(service, { url: `/sales?${query}`, token: till.key })
  expect(answer.statusCode).toBe(200)
  return answer.json()
}

async function readBoxes(till: Till, query = spanQuery()) {
  const answer = await call(service, { url: `/sales/SUC-1?${query}`, token: till.key })
  expect(answer.statusCode).toBe(200)
  return answer.json().boxes
}

test('a store that agrees with Mercado Pago has no difference, and its sales equal the statistics', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'agrees')
  await sell(service, till, 'A-1')
  const orderId = await sell(service, till, 'A-2', { amount: '500,00' })
  await refund(service, till, orderId, '200,00')
  await charge(service, till, { reference: 'A-3' })
  await watchAfter(service, 61_000)
  const sales = await readSales(till)
  expect(sales.stores).toMatchObject([
    {
      client: 'agrees',
      sucursal_id: 'SUC-1',
      paid: 2,
      paid_amount: '1500.00',
      refunded_amount: '200.00',
      provider: { payments: 2, amount: '1500.00', refunded_amount: '200.00', without_amount: 0 },
      not_listed_yet: { paid: 0, amount: '0.00' },
      difference: '0.00',
      fees: { orders: 2, amount: expect.stringMatching(/^[1-9][0-9]*\.[0-9]{2}$/) },
      boxes: { total: 1, problems: 0 },
      closings: { expected: 1, closed: 0, differs: 0 },
    },
  ])
  const url = `/statistics?${spanQuery()}`
  const statistics = (await call(service, { url, token: till.key })).json()
  const { paid, paid_amount, refunded_amount } = statistics
  expect(sales.total).toMatchObject({ paid, paid_amount, refunded_amount })
  expect(Date.parse(sales.read_until)).toBeGreaterThan(startOfDay().getTime())
})

test.each(['day', 'week', 'store', 'method'])(
  'by %s the sales add up to those by store, and the orders to the statistics',
  async (group) => {
    const till = await openOwnShop(service, `by ${group}`)
    await sell(service, till, 'A-1')
    await sell(service, till, 'A-2', {
      amount: '500,00',
      how: { ...payByCard, payment_method_type: 'debit_card', payment_method_id: 'debvisa' },
    })
    const { order_id: declined } = (await charge(service, till, { reference: 'A-3' })).json()
    await act(service, declined, { do: 'decline', status_detail: 'insufficient_amount' })
    await readOrder(service, till, declined)
    await typeCharge(service, till)
    await watchAfter(service, 61_000)
    const ask = async (path: string) =>
      (await call(service, { url: `${path}${spanQuery()}`, token: till.key })).json()
    const { total, groups } = await ask(`/sales-over-time?group=${group}&`)
    const { boxes: _boxes, closings: _closings, ...sums } = (await ask('/sales?')).total
    expect(total).toMatchObject({ ...sums, difference: '77.50', paid: 2 })
    const { orders, declined: refused, paid } = await ask('/statistics?')
    expect(total).toMatchObject({ orders, declined: refused, paid })
    expect(groups.reduce((sum: number, one: { paid: number }) => sum + one.paid, 0)).toBe(paid)
    const keys = groups.map(({ key }: { key: string }) => key)
    if (group === 'store') {
      expect(groups).toMatchObject([
        {
          key: 'SUC-1',
          client: `by ${group}`,
          name: expect.any(String),
          orders,
          declined: 1,
          paid: 2,
        },
      ])
    } else if (group === 'method')
      expect(keys).toEqual(expect.arrayContaining(['credit_card', 'debit_card']))
    else expect(keys).toHaveLength(1)
  },
)

test('days are those of the requested time zone', async () => {
  const till = await openOwnShop(service, 'elsewhere')
  await sell(service, till, 'A-1')
  const from = new Date(service.clock.now().getTime() - 3_600_000)
  const keyIn = async (zone: string) => {
    const url = `/sales-over-time?${spanQuery(from)}&time_zone=${encodeURIComponent(zone)}`
    return (await call(service, { url, token: till.key })).json().groups[0].key
  }
  // It is eight in the morning in Buenos Aires.
  const day = await keyIn('America/Argentina/Buenos_Aires')
  expect(day).toBe(startOfDay().toISOString().slice(0, 10))
  expect(Date.parse(await keyIn('Pacific/Kiritimati')) - Date.parse(day)).toBe(86_400_000)
  const wrong = `/sales-over-time?${spanQuery(from)}&time_zone=Nowhere`
  expect((await call(service, { url: wrong, token: till.key })).statusCode).toBe(422)
})

test('a payment without an order is a difference of the store and of its box', async () => {
  const till = await openOwnShop(service, 'typed at the terminal')
  await sell(service, till, 'A-1')
  await typeCharge(service, till)
  await watchAfter(service, 61_000)
  const { stores } = await readSales(till)
  expect(stores).toMatchObject([{ paid: 1, provider: { payments: 2 }, difference: '77.50' }])
  expect(await readBoxes(till)).toMatchObject([
    { caja_id: 'CAJA-1', paid: 1, provider: { payments: 2 }, difference: '77.50', closing: 'none' },
  ])
})

test('a sale paid after the list was read is no difference; one that a later list lacks is', async () => {
  const till = await openOwnShop(service, 'just paid')
  await sell(service, till, 'A-1')
  await watchAfter(service, 61_000)
  await sell(service, till, 'A-2', { amount: '300,00' })
  const fresh = (await readSales(till)).stores
  expect(fresh).toMatchObject([
    {
      paid: 2,
      provider: { payments: 1 },
      not_listed_yet: { paid: 1, amount: '300.00' },
      difference: '0.00',
    },
  ])
  await service.database.db
    .updateTable('payment_reads')
    .set({ ends_at: new Date(service.clock.now().getTime() + 600_000) })
    .where('client', '=', asClientName(till.client))
    .where('name', '=', 'changes')
    .execute()
  const later = (await readSales(till)).stores
  expect(later).toMatchObject([{ not_listed_yet: { paid: 0 }, difference: '-300.00' }])
})

test('a sale at the end of the span belongs to the span of its order on both sides', async () => {
  const till = await openOwnShop(service, 'midnight')
  const { order_id } = (await charge(service, till, { reference: 'A-1' })).json()
  const orderedAt = service.clock.now()
  const end = new Date(orderedAt.getTime() + 60_000)
  service.clock.advance(90_000)
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  await watchAfter(service, 200_000)
  const before = (await readSales(till, spanQuery(startOfDay(), end))).stores
  expect(before).toMatchObject([{ paid: 1, provider: { payments: 1 }, difference: '0.00' }])
  const after = (await readSales(till, spanQuery(end))).stores
  expect(after).toMatchObject([{ paid: 0, provider: { payments: 0 }, difference: '0.00' }])
})

test('a box counts as closed by its own closing or by that of its store', async () => {
  const till = await openOwnShop(service, 'closed')
  await sell(service, till, 'A-1')
  await close(service, till)
  const end = new Date(service.clock.now().getTime() + 1_000)
  const query = spanQuery(startOfDay(), end)
  expect((await readSales(till, query)).stores).toMatchObject([
    { closings: { expected: 1, closed: 1, differs: 0 } },
  ])
  expect(await readBoxes(till, query)).toMatchObject([{ caja_id: 'CAJA-1', closing: 'agreed' }])
})

test('a client reads its own stores, the administrator all, and a span has limits', async () => {
  const one = await openOwnShop(service, 'one')
  const two = await openOwnShop(service, 'two')
  await sell(service, one, 'A-1')
  await sell(service, two, 'B-1')
  const names = (answer: { stores: { client: string }[] }) =>
    answer.stores.map(({ client }) => client)
  expect(names(await readSales(one))).toEqual(['one'])
  const all = (await asAdmin(service, { url: `/sales?${spanQuery()}` })).json()
  expect(names(all)).toEqual(expect.arrayContaining(['one', 'two']))
  const paid = all.stores.reduce((sum: number, store: { paid: number }) => sum + store.paid, 0)
  expect(all.total).toMatchObject({ paid })
  const ofTwo = await asAdmin(service, { url: `/sales?client=two&${spanQuery()}` })
  expect(names(ofTwo.json())).toEqual(['two'])
  const foreign = await call(service, { url: `/sales?client=two&${spanQuery()}`, token: one.key })
  expect(foreign.statusCode).toBe(403)
  const dayMs = 24 * 3_600_000
  for (const days of [0, -1, 33]) {
    const to = new Date(startOfDay().getTime() + days * dayMs)
    const url = `/sales?${spanQuery(startOfDay(), to)}`
    const answer = await call(service, { url, token: one.key })
    expect([days, answer.statusCode]).toEqual([days, 422])
  }
})

test('boxes are sorted by number', async () => {
  const till = await openOwnShop(service, 'sorted')
  const pos = [10, 2].map((number) => ({ external_id: `CAJA-${number}`, name: `Caja ${number}` }))
  const url = '/stores/SUC-1/pos'
  expect((await call(service, { url, token: till.key, body: { pos } })).statusCode).toBe(201)
  const ids = (await readBoxes(till)).map(({ caja_id }: { caja_id: string }) => caja_id)
  expect(ids).toEqual(['CAJA-1', 'CAJA-2', 'CAJA-10'])
})
