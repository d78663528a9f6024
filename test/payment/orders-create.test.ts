import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  cancel,
  forgetRequests,
  newAccount,
  openOwnShop,
  ordersAtProvider,
  providerRequests,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  createStore,
  enrol,
  pairTerminal,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

test('a new charge answers 201 with exactly the documented fields', async () => {
  const till = await openOwnShop(service, 'shape')
  const response = await charge(service, till, { reference: 'T 1/1', amount: '1234,5' })
  expect(response.statusCode).toBe(201)
  expect(response.headers).not.toHaveProperty('idempotent-replayed')
  expect(response.json()).toEqual({
    message: expect.any(String),
    order_id: expect.stringMatching(uuid),
    external_reference: 'T 1/1',
    status: 'created',
    outcome: 'unknown',
    retry_safe: false,
    version: expect.any(Number),
    expires_at: expect.stringMatching(timestamp),
    cashier: {
      message: expect.stringContaining('terminal'),
      action: 'ask_customer_to_pay',
      retry_safe: false,
    },
  })
})

test('an order reads with exactly the documented fields before and after it is paid', async () => {
  const till = await openOwnShop(service, 'fields')
  const { order_id } = (
    await call(service, {
      url: '/orders',
      token: till.key,
      body: {
        caja_id: 'CAJA-1',
        external_reference: '0001-00004711',
        amount: '1234,50',
        description: 'Venta',
        ticket_number: 'B-1',
        payment_method: 'credit_card',
        expiration_minutes: 30,
      },
    })
  ).json()
  const fresh = (await readOrder(service, till, order_id)).json()
  const [made] = ordersAtProvider(service, till)
  expect(fresh).toEqual({
    order_id,
    external_reference: '0001-00004711',
    caja_id: 'CAJA-1',
    sucursal_id: 'SUC-1',
    amount: '1234.50',
    description: 'Venta',
    ticket_number: 'B-1',
    status: 'created',
    status_detail: 'created',
    payments: [],
    refunds: [],
    created_at: expect.stringMatching(timestamp),
    last_updated_at: expect.stringMatching(timestamp),
    version: expect.any(Number),
    outcome: 'unknown',
    retry_safe: false,
    cashier: expect.objectContaining({ action: 'ask_customer_to_pay' }),
    terminal_id: till.terminalId,
    payment_method: 'credit_card',
    expires_at: expect.stringMatching(timestamp),
    mp_order_id: made?.id,
    paid_after_close: false,
    client: 'fields',
    stale: false,
    net: null,
    settled: null,
    refund_in_doubt: null,
    settled_refunds: [],
    standing: 'under_way',
    given_up_at: null,
    needs_decision: null,
    charged_instead: null,
    paid_amount: '0.00',
    received_amount: '0.00',
    refunded_amount: '0.00',
  })
  expect(Date.parse(fresh.expires_at) - Date.parse(fresh.created_at)).toBe(30 * 60_000)

  await act(service, order_id, { ...payByCard, installments: 3 })
  const response = await readOrder(service, till, order_id)
  expect(response.headers).not.toHaveProperty('x-order-stale')
  expect(response.json()).toMatchObject({
    status: 'processed',
    status_detail: 'accredited',
    outcome: 'charged',
    retry_safe: false,
    cashier: { action: 'give_receipt' },
  })
  expect(response.json().payments).toEqual([
    {
      id: expect.stringMatching(/^PAY/),
      amount: '1234.50',
      paid_amount: '1234.50',
      received_amount: '1234.50',
      tip_amount: '0.00',
      is_surplus: false,
      status: 'approved',
      status_detail: 'accredited',
      payment_method: { type: 'credit_card', installments: 3, id: 'visa' },
    },
  ])
  expect(response.body).not.toMatch(/450995|"3704"|APP_USR/)
})

test('absent description and ticket number read null, and the default expiry is 16 minutes', async () => {
  const till = await openOwnShop(service, 'absent')
  const { order_id } = (await charge(service, till, { reference: 'A-1', amount: '100,5' })).json()
  const order = (await readOrder(service, till, order_id)).json()
  expect(order).toMatchObject({ description: null, ticket_number: null, amount: '100.50' })
  expect(Date.parse(order.expires_at) - Date.parse(order.created_at)).toBe(16 * 60_000)
})

test('the cashier message is in Spanish, or in the language of the request', async () => {
  const till = await openOwnShop(service, 'speech')
  const { order_id } = (await charge(service, till, { reference: 'L-1' })).json()
  const message = async (language?: string) => {
    const response = await call(service, {
      url: `/orders/${order_id}`,
      token: till.key,
      headers: language === undefined ? {} : { 'accept-language': language },
    })
    return response.json().cashier.message as string
  }
  const [spanish, english, portuguese] = [
    await message(),
    await message('en'),
    await message('pt-BR,pt;q=0.9,en;q=0.8'),
  ]
  expect(spanish).toContain('El cobro')
  expect(english).toContain('The charge')
  expect(portuguese).toContain('A cobrança')
  expect(await message('fr, de;q=0.9')).toBe(spanish)
  expect(await message('es;q=0.1, en;q=0.9')).toBe(english)
})

test('an order of another client is answered like a missing one, byte for byte, on every route that names an order', async () => {
  const owner = await openOwnShop(service, 'owner')
  const other = await enrol(service, 'other')
  const { order_id } = (await charge(service, owner, { reference: 'O-1' })).json()
  const mpOrderId = ordersAtProvider(service, owner)[0]?.id ?? ''
  const missing = '00000000-0000-4000-8000-000000000000'
  const before = JSON.stringify(ordersAtProvider(service, owner))
  await forgetRequests(service)
  const routes = (id: string) => [
    { url: `/orders/${id}` },
    { url: '/orders/cancel', body: { order_id: id } },
    { url: '/orders/refund', body: { order_id: id } },
    { url: '/orders/refund', body: { order_id: id, amount: '1,00' } },
  ]
  const answers = async (id: string) => {
    const bodies: string[] = []
    for (const request of routes(id)) {
      const response = await call(service, { ...request, token: other.key })
      expect(response.statusCode).toBe(404)
      bodies.push(response.body.replace(/"request_id":"[^"]*"/, ''))
    }
    return bodies
  }
  const expected = await answers(missing)
  expect(JSON.parse(expected[1]?.replace(/,,/, ',') ?? '')).toMatchObject({
    code: 'NOT_FOUND',
    outcome: 'not_charged',
  })
  expect(await answers(order_id)).toEqual(expected)
  expect(await answers(mpOrderId)).toEqual(expected)
  expect(await providerRequests(service)).toEqual([])
  // An id of the provider's form that is unknown here is read there once, with the token of this client.
  const unknown = `ORDTST${'0'.repeat(26)}`
  expect(await answers(unknown)).toEqual(expected)
  expect(await providerRequests(service)).toMatchObject([
    { method: 'GET', path: `/v1/orders/${unknown}`, user_id: other.mpUserId },
  ])
  expect(JSON.stringify(ordersAtProvider(service, owner))).toBe(before)
  const listed = (await call(service, { url: '/orders', token: other.key })).json()
  expect(listed).toEqual({ orders: [], total: 0 })
})

test('orders are listed newest first, filtered, paged, and each client reads its own', async () => {
  const till = await openOwnShop(service, 'lister')
  const neighbour = await openOwnShop(service, 'neighbour')
  await charge(service, neighbour, { reference: 'L-0' })
  const ids: string[] = []
  for (const reference of ['L-0', 'L-1', 'L-2']) {
    const { order_id } = (await charge(service, till, { reference, amount: '5,00' })).json()
    ids.unshift(order_id)
    await cancel(service, till, order_id)
    service.clock.advance(1_000)
  }
  const { order_id: open } = (await charge(service, till, { reference: 'L-3' })).json()
  ids.unshift(open)
  const list = async (query = '') =>
    (await call(service, { url: `/orders${query}`, token: till.key })).json()
  const idsOf = (page: { orders: { order_id: string }[] }) => page.orders.map((o) => o.order_id)

  const all = await list()
  expect([idsOf(all), all.total]).toEqual([ids, 4])
  expect(all.orders[0]).toMatchObject({ status: 'created', client: 'lister', stale: false })
  expect(Object.keys(all.orders[0])).toEqual(
    Object.keys((await readOrder(service, till, open)).json()),
  )
  const page = await list('?limit=2&offset=1')
  expect([idsOf(page), page.total]).toEqual([ids.slice(1, 3), 4])
  expect(idsOf(await list('?status=canceled'))).toEqual(ids.slice(1))
  expect(idsOf(await list('?external_reference=L-2'))).toEqual([ids[1]])
  expect((await list('?caja_id=CAJA-9')).total).toBe(0)
  const at = encodeURIComponent(all.orders[2].created_at)
  expect(idsOf(await list(`?from=${at}`))).toEqual(ids.slice(0, 3))
  expect(idsOf(await list(`?to=${at}`))).toEqual([ids[3]])

  const everybody = (await asAdmin(service, { url: '/admin/orders?limit=200' })).json()
  expect(new Set(everybody.orders.map((o: { client: string }) => o.client)).size).toBeGreaterThan(1)
  const mine = (await asAdmin(service, { url: '/admin/orders?client=lister&limit=1' })).json()
  expect([idsOf(mine), mine.total]).toEqual([[open], 4])
  expect((await asAdmin(service, { url: '/admin/orders?client=nobody' })).json().total).toBe(0)
})

test.each([
  ['limit=0', 'limit'],
  ['limit=201', 'limit'],
  ['limit=x', 'limit'],
  ['limit=1.5', 'limit'],
  ['offset=-1', 'offset'],
  ['offset=1e30', 'offset'],
  ['status=paid', 'status'],
  ['from=yesterday', 'from'],
  ['to=2026-13-01T00:00:00Z', 'to'],
  [`external_reference=${'r'.repeat(65)}`, 'external_reference'],
  ['caja_id=%00', 'caja_id'],
])('a list with %s is refused, and the error names the field', async (query, path) => {
  const till = await shared()
  for (const [url, token] of [
    [`/orders?${query}`, till.key],
    [`/admin/orders?${query}`, undefined],
  ] as const) {
    const response = token ? await call(service, { url, token }) : await asAdmin(service, { url })
    expect(response.statusCode, url).toBe(422)
    expect(response.json().details[0].path).toBe(path)
  }
})

test('dates at the end of the calendar do not cause a 5xx', async () => {
  const till = await shared()
  for (const date of ['0001-01-01T00:00:00Z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59Z']) {
    for (const name of ['from', 'to']) {
      const response = await call(service, { url: `/orders?${name}=${date}`, token: till.key })
      expect(response.statusCode, `${name} ${date}`).toBeLessThan(500)
    }
  }
})

let sharedTill: Till | undefined
async function shared(): Promise<Till> {
  sharedTill ??= await enrol(service, 'shared')
  return sharedTill
}

test('a successful charge writes one log line, of at most 400 bytes, with its order', async () => {
  const till = await openOwnShop(service, 'logged')
  const before = service.logLines.length
  const { order_id } = (await charge(service, till, { reference: 'LOG-1' })).json()
  const lines = service.logLines.slice(before)
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['request done'])
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    req: { method: 'POST', route: '/orders' },
    res: { statusCode: 201 },
    orderId: order_id,
  })
  expect(Buffer.byteLength(lines[0] ?? '')).toBeLessThanOrEqual(400)
})

test('a box that does not exist or belongs to another client is 404 before any provider call', async () => {
  const till = await openOwnShop(service, 'boxes')
  const other = await enrol(service, 'no-boxes')
  await forgetRequests(service)
  for (const [key, box] of [
    [till.key, 'CAJA-9'],
    [other.key, 'CAJA-1'],
  ] as const) {
    const response = await charge(service, { ...till, key }, { reference: 'B-1', box })
    expect(response.statusCode).toBe(404)
    expect(response.json()).toMatchObject({ code: 'NOT_FOUND', outcome: 'not_charged' })
  }
  expect(await providerRequests(service)).toEqual([])
})

test('a charge without a connection is refused as not charged', async () => {
  const till = await openOwnShop(service, 'disconnected')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  const response = await charge(service, till, { reference: 'G-1' })
  expect(response.statusCode).toBe(409)
  expect(response.json()).toMatchObject({
    code: 'OAUTH_NOT_CONNECTED',
    outcome: 'not_charged',
    retry_safe: true,
  })
  expect((await call(service, { url: '/orders', token: till.key })).json().total).toBe(0)
})

test('two boxes of one store charge at the same time', async () => {
  const till = await enrol(service, 'wide', newAccount())
  await createStore(service, till, { id: 'SUC-2', boxes: ['C-1', 'C-2'] })
  const terminals = [
    await pairTerminal(service, till, 'C-1'),
    await pairTerminal(service, till, 'C-2'),
  ]
  const orders = await Promise.all(
    ['C-1', 'C-2'].map((box) => charge(service, till, { reference: 'W-1', box })),
  )
  expect(orders.map((response) => response.statusCode)).toEqual([201, 201])
  const made = ordersAtProvider(service, till)
  expect(made.map((order) => order.terminal_id).sort()).toEqual(terminals.sort())
  expect(made.map((order) => order.external_reference).sort()).toEqual(['W-1', 'W-1-2'])
})
