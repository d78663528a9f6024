import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { orderStatuses } from '../../src/domain/order.ts'
import { standings } from '../../src/domain/order-state.ts'
import { insertOrders } from '../support/insert-orders.ts'
import { openOwnShop, refund } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** Orders as people search them: by standing, by totals, and by amounts as they are written. */
let service: TestService
/** Has one order, `FIRST`, and copies of it. */
let shop: Till

beforeAll(async () => {
  service = await startTestService()
  shop = await openOwnShop(service, 'copies')
  await charge(service, shop, { reference: 'FIRST', amount: '3,00' })
})
afterAll(() => service.stop())

type Order = {
  order_id: string
  external_reference: string
  standing: string
  given_up_at: string | null
}
type Listed = {
  orders: Order[]
  total: number
  totals?: Record<string, Record<string, number | string>>
}

async function list(query: string, till = shop): Promise<Listed> {
  const answer = await call(service, { url: `/orders?${query}`, token: till.key })
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json()
}

async function sell(reference: string, amount: string, till: Till): Promise<string> {
  const { order_id: id } = (await charge(service, till, { reference, amount })).json()
  await act(service, id, payByCard)
  await readOrder(service, till, id)
  return id
}

/** Copies of the order `FIRST` with other fields. */
async function copies(rows: Record<string, unknown>[]): Promise<void> {
  const whole = rows.map((row) => {
    const id = randomUUID()
    return { id, mp_order_id: `ORD${id}`, mp_external_reference: id, ...row }
  })
  await insertOrders(
    service.database.db,
    sql`select (jsonb_populate_record(first, change)).* from orders as first,
      jsonb_array_elements(${JSON.stringify(whole)}::jsonb) as change
    where first.external_reference = 'FIRST'`,
  )
}

test('orders are counted and summed by standing, whatever standing is listed; each client its own', {
  tags: ['long'],
}, async () => {
  const admin = async (query: string) =>
    (await asAdmin(service, { url: `/admin/orders?totals=true${query}` })).json().totals
  const before = (await admin('')).all.orders
  const shop = await openOwnShop(service, 'acme')
  const other = await openOwnShop(service, 'other')
  await sell('PAID', '100,00', shop)
  const part = await sell('PART', '50,00', shop)
  expect((await refund(service, shop, part, '20,00')).statusCode).toBe(200)
  const { order_id: declined } = (
    await charge(service, shop, { reference: 'POOR', amount: '7,00' })
  ).json()
  await act(service, declined, { do: 'decline', status_detail: 'insufficient_amount' })
  await readOrder(service, shop, declined)
  await charge(service, shop, { reference: 'OPEN', amount: '3,00' })
  await sell('THEIRS', '999,00', other)

  const none = { orders: 0, amount: '0.00', paid_amount: '0.00', refunded_amount: '0.00' }
  const paid = { orders: 1, amount: '100.00', paid_amount: '100.00', refunded_amount: '0.00' }
  const totals = {
    all: { orders: 4, amount: '160.00', paid_amount: '150.00', refunded_amount: '20.00' },
    under_way: { ...none, orders: 1, amount: '3.00' },
    paid,
    not_paid: { ...none, orders: 1, amount: '7.00' },
    refunded: { orders: 1, amount: '50.00', paid_amount: '50.00', refunded_amount: '20.00' },
    in_doubt: none,
    received: { orders: 2, amount: '150.00', paid_amount: '150.00', refunded_amount: '20.00' },
  }
  expect((await list('totals=true', shop)).totals).toEqual(totals)
  const shown = await list('standing=paid&totals=true', shop)
  expect(shown).toMatchObject({ total: 1, orders: [{ external_reference: 'PAID' }], totals })
  const { orders } = await list('standing=received', shop)
  expect(orders.map((one) => one.external_reference)).toEqual(['PART', 'PAID'])
  // The statistics count paid orders in the same way.
  const from = new Date(service.clock.now().getTime() - 86_400_000).toISOString()
  const url = `/statistics?from=${from}`
  const { paid: counted } = (await call(service, { url, token: shop.key })).json()
  expect(counted).toBe(totals.received.orders)
  expect((await list('q=PAI&totals=true', shop)).totals).toMatchObject({ all: paid, paid })
  for (const query of ['', 'totals=false']) {
    expect(await list(query, shop)).not.toHaveProperty('totals')
  }

  expect((await admin('')).all.orders).toBe(before + 5)
  expect(await admin('&client=acme')).toEqual(totals)
  expect((await list('totals=true', other)).totals?.all).toMatchObject({ orders: 1 })
})

test('an amount is found in every notation', async () => {
  const other = await openOwnShop(service, 'amounts')
  await sell('AMOUNT', '1234,50', other)
  for (const q of ['1234,50', '1.234,50', '1,234.50', '1234.5', '1234', '1.234']) {
    const { orders } = await list(`q=${encodeURIComponent(q)}`, other)
    expect([q, orders.map((one) => one.external_reference)]).toEqual([q, ['AMOUNT']])
  }
  expect((await list('q=1234,51', other)).orders).toEqual([])
  expect((await list('q=1234,50')).orders).toEqual([])
})

test.each([
  ['standing=open', 'standing'],
  ['totals=yes', 'totals'],
])('%s is 422', async (query, path) => {
  for (const url of [`/orders?${query}`, `/admin/orders?${query}`]) {
    const token = url.startsWith('/admin') ? undefined : shop.key
    const answer = await (token ? call(service, { url, token }) : asAdmin(service, { url }))
    expect([answer.statusCode, answer.json().details[0].path]).toEqual([422, path])
  }
})

test('an order that was canceled before its creation was answered is in doubt, not under way', async () => {
  await copies([
    { external_reference: 'GIVEN-UP', creation: 'unknown', cancel_requested_at: new Date() },
    { external_reference: 'GIVEN-UP-2', creation: 'intent', cancel_requested_at: new Date() },
  ])
  const { orders } = await list('q=GIVEN-UP')
  expect(orders.map(({ standing }) => standing)).toEqual(['in_doubt', 'in_doubt'])
  expect(orders[0]?.given_up_at).toEqual(expect.any(String))
  expect((await list('standing=under_way&q=GIVEN')).orders).toEqual([])
})

/** The rule of the column `standing`, once more. */
function standingIn(order: Record<string, unknown>, now: Date): string {
  const { status, creation, settled_as: settled, conflict } = order
  const isUnclear = order.refund_unclear != null || order.refund_contradicted != null
  if ((conflict !== null && settled === null) || isUnclear) return 'in_doubt'
  const isKept = Number(order.refunded_cents) < Number(order.paid_cents)
  if (order.paid_after_close) return isKept ? 'paid' : 'refunded'
  if (['failed', 'canceled', 'expired'].includes(String(status))) return 'not_paid'
  if (['refunded', 'partially_refunded'].includes(String(status))) return 'refunded'
  if (status === 'processed') return 'paid'
  if (settled !== null) return String(settled)
  const isGivenUp = creation === 'intent' && order.cancel_requested_at !== null
  const isOver = isGivenUp || (order.expires_at as Date) < now
  return creation === 'unknown' || status === 'action_required' || order.unknown_status || isOver
    ? 'in_doubt'
    : 'under_way'
}

test('the filter by standing and the standing in each order agree, for every combination of states', {
  tags: ['long'],
}, async () => {
  const crossed = <Row extends object>(rows: Row[], key: string, values: unknown[]) =>
    rows.flatMap((row) => values.map((value) => ({ ...row, [key]: value })))
  const now = service.clock.now()
  const soon = new Date(now.getTime() + 600_000)
  const before = new Date(now.getTime() - 600_000)
  const money = [
    { paid_cents: 0, refunded_cents: 0 },
    { paid_cents: 300, refunded_cents: 100 },
    { paid_cents: 300, refunded_cents: 300 },
  ]
  let rows: Record<string, unknown>[] = [{}]
  rows = crossed(rows, 'status', [...orderStatuses])
  rows = crossed(rows, 'creation', ['intent', 'unknown', 'confirmed', 'refused'])
  rows = crossed(rows, 'conflict', [null, 'amount'])
  rows = crossed(rows, 'paid_after_close', [true, false])
  rows = crossed(rows, 'cancel_requested_at', [null, before])
  rows = crossed(rows, 'expires_at', [before, soon])
  rows = crossed(rows, 'unknown_status', [null, 'new_word'])
  rows = rows.flatMap((row) => money.map((sums) => ({ ...row, ...sums })))
  rows = rows.flatMap((row) =>
    [null, 'paid', 'not_paid'].map((settled_as) => ({
      ...row,
      settled_as,
      ...(settled_as && { settled_at: now, settled_reason: 'x' }),
    })),
  )
  // The rows that the constraints allow; every seventh of them covers each value and most pairs.
  rows = rows
    .filter(({ creation, status }) => creation !== 'refused' || status === 'failed')
    .filter((_, index) => index % 7 === 0)
    .map((row, index) => ({
      ...row,
      external_reference: `CROSSED-${index}`,
      ...(index % 5 === 0 && { refund_unclear: 'x' }),
      ...(index % 5 === 1 && { refund_contradicted: 'x' }),
    }))
  await copies(rows)
  const expected = new Map(rows.map((row) => [row.external_reference, standingIn(row, now)]))
  const { totals } = await list('q=CROSSED&totals=true')
  expect(totals?.all?.orders).toBe(rows.length)
  for (const standing of standings) {
    let read = 0
    let cursor: string | undefined
    do {
      const page: Listed & { next_cursor?: string } = await list(
        `q=CROSSED&limit=200&standing=${standing}${cursor ? `&cursor=${cursor}` : ''}`,
      )
      for (const { external_reference: reference, standing: shown } of page.orders) {
        expect([reference, shown, expected.get(reference)]).toEqual([reference, standing, standing])
      }
      read += page.orders.length
      cursor = page.next_cursor
    } while (cursor)
    expect([standing, read]).toEqual([standing, totals?.[standing]?.orders])
    expect(read).toBeGreaterThan(0)
  }
})
