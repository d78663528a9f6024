import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  deliver,
  forgetRequests,
  openOwnShop,
  providerRequests,
  reading,
  refund,
} from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** What the dashboard reads beside the orders: the statistics of a day, and the timeline of one order. */
let service: TestService
let shop: Till
let other: Till
let from: string
const hourMs = 3_600_000
const ids = { slow: '', declined: '', refunded: '', open: '' }

beforeAll(async () => {
  service = await startTestService()
  shop = await openOwnShop(service, 'acme')
  other = await openOwnShop(service, 'other')
  const startedAt = service.clock.now()
  from = new Date(startedAt.getTime() - hourMs / 2).toISOString()
  ids.slow = await sell('SLOW', '100,00', 30_000)
  ids.declined = (await order('DECLINED', '7,00')).id
  await act(service, ids.declined, {
    do: 'decline',
    payment_method_type: 'debit_card',
    payment_method_id: 'debvisa',
    status_detail: 'insufficient_amount',
  })
  await readOrder(service, shop, ids.declined)
  service.clock.advance(hourMs)
  ids.refunded = await sell('REFUNDED', '50,00', 10_000)
  expect((await refund(service, shop, ids.refunded, '10,00')).statusCode).toBe(200)
  ids.open = (await order('OPEN', '3,00')).id
})
afterAll(() => service.stop())

/** An open order: our id and the provider's. */
async function order(reference: string, amount: string): Promise<{ id: string; mpId: string }> {
  const created = await charge(service, shop, { reference, amount })
  const id = created.json().order_id
  return { id, mpId: (await readOrder(service, shop, id)).json().mp_order_id }
}

/** A sale that is paid so long after it was created. */
async function sell(reference: string, amount: string, afterMs: number): Promise<string> {
  const { id, mpId } = await order(reference, amount)
  service.clock.advance(afterMs)
  await act(service, id, payByCard)
  await deliver(service, { dataId: mpId })
  return id
}

const statistics = async (token: string, query = '') =>
  (await call(service, { url: `/statistics?from=${from}${query}`, token })).json()

describe('GET /statistics', () => {
  test('counts sales by the hour of their order, with amounts paid and refunded', async () => {
    const counted = await statistics(shop.key)
    expect(counted).toMatchObject({
      orders: 4,
      paid: 2,
      declined: 1,
      paid_amount: '150.00',
      refunded_amount: '10.00',
      open: 1,
      action_required: 0,
      paid_after_close: [],
      hours: [
        { from, orders: 2, paid: 1, paid_amount: '100.00' },
        { orders: 2, paid: 1, paid_amount: '50.00' },
      ],
    })
    expect(Date.parse(counted.hours[1].from) - Date.parse(from)).toBe(hourMs)
    // Between 10 and 30 s, and the time that the test took.
    expect(counted.median_charge_seconds).toBeGreaterThanOrEqual(20)
    expect(counted.median_charge_seconds).toBeLessThan(30)
  })

  test('ends at `to`, and a span without orders is all zeros', async () => {
    const middle = new Date(Date.parse(from) + hourMs).toISOString()
    expect(await statistics(shop.key, `&to=${middle}`)).toMatchObject({ orders: 2, paid: 1 })
    const before = new Date(Date.parse(from) - 1).toISOString()
    const empty = await call(service, {
      url: `/statistics?from=${new Date(Date.parse(from) - hourMs).toISOString()}&to=${before}`,
      token: shop.key,
    })
    expect(empty.json()).toMatchObject({
      orders: 0,
      paid_amount: '0.00',
      median_charge_seconds: null,
      hours: [],
    })
  })

  test.each([
    ['no start', '', 'from'],
    ['a start that is no time', 'from=yesterday', 'from'],
    ['an end before the start', 'from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', 'to'],
    ['no time between', 'from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z', 'to'],
    ['more than 32 days', 'from=2026-01-01T00:00:00Z&to=2026-02-02T00:00:01Z', 'to'],
  ])('%s is 422', async (_name, query, path) => {
    const answer = await call(service, { url: `/statistics?${query}`, token: shop.key })
    expect([answer.statusCode, answer.json().details[0].path]).toEqual([422, path])
  })

  test('a client reads its own statistics; the administrator reads all, or one client', async () => {
    const theirs = await statistics(other.key)
    expect(theirs).toMatchObject({ orders: 0, open: 0, webhooks: { received: 0 } })
    expect(theirs.boxes.map((box: { client: string }) => box.client)).toEqual(['other'])
    const all = (await asAdmin(service, { url: `/admin/statistics?from=${from}` })).json()
    expect(all).toMatchObject({ orders: 4, open: 1 })
    expect(all.boxes.map((box: { client: string }) => box.client)).toEqual(['acme', 'other'])
    const one = (
      await asAdmin(service, { url: `/admin/statistics?from=${from}&client=acme` })
    ).json()
    const { to: _now, ...own } = await statistics(shop.key)
    expect(one).toMatchObject(own)
  })

  test('shows the newest order of the day for every box', async () => {
    const [box] = (await statistics(shop.key)).boxes
    const { status } = (await readOrder(service, shop, ids.open)).json()
    expect(box).toMatchObject({
      caja_id: 'CAJA-1',
      sucursal_id: 'SUC-1',
      open: 1,
      open_order: { order_id: ids.open, status },
      last_status: status,
    })
    const [idle] = (await statistics(other.key)).boxes
    expect(idle).toMatchObject({ open: 0, last_status: null, last_order_at: null })
  })

  test('shows for every box what it sold in the span', async () => {
    const { paid, paid_amount, boxes } = await statistics(shop.key)
    expect(paid).toBeGreaterThan(0)
    expect(boxes).toMatchObject([{ paid, paid_amount }])
    expect((await statistics(other.key)).boxes).toMatchObject([
      { paid: 0, paid_amount: '0.00', open_order: null },
    ])
  })

  test('counts webhooks by state; only the administrator sees forged ones', async () => {
    const forged = await call(service, {
      url: '/webhooks?data.id=ORD01&type=order',
      headers: { 'x-signature': 'ts=1,v1=00', 'x-request-id': 'forged' },
      body: { type: 'order' },
    })
    expect(forged.statusCode).toBe(401)
    const own = (await statistics(shop.key)).webhooks
    expect(own).toMatchObject({ received: 2, failed: 0, rejected: 0 })
    expect(Date.parse(own.last_received_at)).toBeGreaterThan(Date.parse(from))
    const all = (await asAdmin(service, { url: `/admin/statistics?from=${from}` })).json()
    expect(all.webhooks).toMatchObject({ received: 2, rejected: 1 })
  })

  test('names orders that were paid after their end', async () => {
    const set = (fields: { paid_after_close: boolean; paid_cents: number }) =>
      service.database.db.updateTable('orders').set(fields).where('id', '=', ids.declined).execute()
    await set({ paid_after_close: true, paid_cents: 700 })
    try {
      const counted = await statistics(shop.key)
      expect(counted.paid_after_close).toEqual([
        { order_id: ids.declined, client: 'acme', external_reference: 'DECLINED' },
      ])
      expect(counted).toMatchObject({ paid: 3, declined: 0, paid_amount: '157.00' })
    } finally {
      await set({ paid_after_close: false, paid_cents: 0 })
    }
  })
})

describe('the search of orders', () => {
  const found = async (q: string, path = '/orders', token = shop.key) => {
    const answer = await call(service, { url: `${path}?q=${encodeURIComponent(q)}`, token })
    expect(answer.statusCode, answer.body).toBe(200)
    const { orders, total } = answer.json()
    expect(total).toBe(orders.length)
    return orders.map((one: { external_reference: string }) => one.external_reference)
  }

  test('finds an order by a part of its ids or reference, in any case', async () => {
    expect(await found('efun')).toEqual(['REFUNDED'])
    expect(await found('NDED')).toEqual(['REFUNDED'])
    expect(await found(ids.slow.slice(0, 13).toUpperCase())).toEqual(['SLOW'])
    const { mp_order_id } = (await readOrder(service, shop, ids.slow)).json()
    expect(await found(mp_order_id.slice(-8))).toEqual(['SLOW'])
    expect(await found('none such')).toEqual([])
  })

  test('takes wildcard characters of SQL literally', async () => {
    for (const q of ['%', '_', 'S%W', 'SLO_', '\\', "'", 'SLOW\\']) {
      expect([q, await found(q)]).toEqual([q, []])
    }
  })

  test('the administrator finds an order of any client by either id; a client cannot', async () => {
    const { mp_order_id } = (await readOrder(service, shop, ids.slow)).json()
    const answers = async (path: string, token = adminToken) => {
      const answer = await call(service, { url: path, token })
      return answer.json().orders?.map((one: { order_id: string }) => one.order_id)
    }
    for (const id of [ids.slow, ids.slow.toUpperCase(), mp_order_id]) {
      expect(await answers(`/admin/orders?order_id=${id}`)).toEqual([ids.slow])
      expect(await answers(`/admin/orders?order_id=${id}&client=other`)).toEqual([])
    }
    expect(await answers('/admin/orders?order_id=ORD')).toEqual([])
    const refused = await call(service, {
      url: `/admin/orders?order_id=${ids.slow}`,
      token: other.key,
    })
    expect(refused.statusCode).toBe(403)
    const empty = await asAdmin(service, { url: '/admin/orders?order_id=' })
    expect([empty.statusCode, empty.json().details[0].path]).toEqual([422, 'order_id'])
  })

  test('a client finds its own orders only; the administrator finds all', async () => {
    expect(await found('SLOW', '/orders', other.key)).toEqual([])
    expect(await found('slow', '/admin/orders', adminToken)).toEqual(['SLOW'])
  })
})

describe('the timeline of an order', () => {
  const timelineOf = async (id: string) =>
    (await call(service, { url: `/orders/${id}/timeline`, token: shop.key })).json()

  test('lists a paid and refunded order from its request to the refund, in order', async () => {
    const { order_id, entries } = await timelineOf(ids.refunded)
    expect(order_id).toBe(ids.refunded)
    const kinds = entries.map((entry: { kind: string }) => entry.kind)
    const firstOf = (kind: string) => kinds.indexOf(kind)
    expect(kinds[0]).toBe('asked')
    expect(entries[firstOf('asked')].amount).toBe('50.00')
    expect(firstOf('sent')).toBeGreaterThan(firstOf('asked'))
    expect(firstOf('webhook')).toBeGreaterThan(firstOf('sent'))
    expect(firstOf('refund')).toBeGreaterThan(firstOf('webhook'))
    const times = entries.map((entry: { at: string }) => entry.at)
    expect(times).toEqual(times.toSorted())
    expect(entries).toContainEqual(
      expect.objectContaining({ kind: 'state', source: 'webhook', to_status: 'processed' }),
    )
    expect(entries).toContainEqual(
      expect.objectContaining({ kind: 'webhook', detail: 'processed', note: 'order.processed' }),
    )
    expect(entries).toContainEqual(
      expect.objectContaining({ kind: 'refund', detail: 'asked', amount: '10.00' }),
    )
    expect(entries).toContainEqual(
      expect.objectContaining({ kind: 'refund', detail: 'done', amount: '10.00' }),
    )
    expect(kinds).not.toContain('expires')
  })

  test('lists the expiry of an open order last', async () => {
    const { entries } = await timelineOf(ids.open)
    expect(entries.at(-1)).toMatchObject({ kind: 'expires' })
    expect(Date.parse(entries.at(-1).at)).toBeGreaterThan(service.clock.now().getTime())
  })

  test('accepts the provider’s id too, and makes no call to the provider', async () => {
    const { mp_order_id } = (await readOrder(service, shop, ids.slow)).json()
    await forgetRequests(service)
    expect((await timelineOf(mp_order_id)).order_id).toBe(ids.slow)
    expect(await providerRequests(service, reading)).toEqual([])
  })
})
