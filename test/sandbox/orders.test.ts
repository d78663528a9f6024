import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  act,
  call,
  createClock,
  createOrder,
  getOrder,
  newKey,
  openShop,
  orderBody,
  type Shop,
  startTestSandbox,
} from './support.ts'

let clock: ReturnType<typeof createClock>
let sandbox: Sandbox
let shop: Shop

beforeEach(async () => {
  clock = createClock()
  sandbox = await startTestSandbox({ now: clock.now })
  shop = await openShop(sandbox)
})
afterEach(() => sandbox.close())

function post(
  path: string,
  options: { body?: unknown; key?: string; headers?: Record<string, string> },
) {
  return call(sandbox, 'POST', path, { token: shop.token, ...options })
}

function cancel(id: string, headers: Record<string, string> = {}) {
  return post(`/v1/orders/${id}/cancel`, { key: newKey(), headers })
}

describe('create', () => {
  it('answers the documented order', async () => {
    const answer = await post('/v1/orders', {
      key: 'k1',
      body: {
        ...orderBody(shop, '10.5'),
        description: 'Venta mostrador',
        expiration_time: 'PT16M',
        integration_data: { platform_id: 'p', sponsor: { id: '9' } },
        config: {
          point: { terminal_id: shop.terminalId, ticket_number: 'B-1' },
          payment_method: {
            default_type: 'credit_card',
            default_installments: 6,
            installments_cost: 'seller',
          },
        },
      },
    })
    expect(answer.status).toBe(201)
    expect(answer.body.id).toMatch(/^ORDTST[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(answer.body.created_date).toMatch(/^2026-11-20T14:00:00\.000\d{6}Z$/)
    expect(answer.body.last_updated_date).toBe(answer.body.created_date)
    expect(answer.body).toMatchObject({
      type: 'point',
      user_id: String(shop.userId),
      status: 'created',
      status_detail: 'created',
      expiration_time: 'PT16M',
      integration_data: {
        application_id: sandbox.info.client_id,
        platform_id: 'p',
        sponsor: { id: '9' },
      },
      config: {
        point: {
          terminal_id: shop.terminalId,
          print_on_terminal: 'seller_ticket',
          ticket_number: 'B-1',
        },
        payment_method: {
          default_type: 'credit_card',
          default_installments: '6',
          installments_cost: 'seller',
        },
      },
    })
    const [payment] = answer.body.transactions.payments
    expect(payment).toEqual({
      id: expect.stringMatching(/^PAY.{26}$/),
      amount: '10.50',
      status: 'created',
    })
  })

  it('allows one unfinished order per terminal, and one at another terminal', async () => {
    const first = await createOrder(sandbox, shop)
    const second = await createOrder(sandbox, shop)
    expect(second).toMatchObject({
      status: 409,
      body: { errors: [{ code: 'already_queued_order_on_terminal' }] },
    })
    const other = await openShop(sandbox, 5001)
    expect((await createOrder(sandbox, other)).status).toBe(201)
    await act(sandbox, first.body.id, { do: 'fetch' })
    expect((await createOrder(sandbox, shop)).status).toBe(409)
    await act(sandbox, first.body.id, { do: 'hold' })
    expect((await createOrder(sandbox, shop)).status).toBe(201)
  })

  it('gives one of two racing creations the terminal', async () => {
    const answers = await Promise.all([createOrder(sandbox, shop), createOrder(sandbox, shop)])
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409])
    expect(sandbox.ledger().orders).toHaveLength(1)
  })

  it('refuses a terminal of another seller and an unknown one in the same way', async () => {
    const other = await openShop(sandbox, 5001)
    const refused = {
      status: 403,
      body: { errors: [{ code: 'forbidden_checking_terminal_owner' }] },
    }
    expect(await createOrder(sandbox, { ...shop, terminalId: other.terminalId })).toMatchObject(
      refused,
    )
    expect(await createOrder(sandbox, { ...shop, terminalId: 'PAX_A910__1' })).toMatchObject(
      refused,
    )
    expect(sandbox.ledger().orders).toEqual([])
  })

  const wrongBodies: [string, (body: Record<string, unknown>) => unknown, string, string][] = [
    [
      'no reference',
      ({ external_reference, ...rest }) => rest,
      'required_properties',
      'external_reference',
    ],
    [
      'a reference with spaces',
      (b) => ({ ...b, external_reference: 'a b' }),
      'property_value',
      'external_reference',
    ],
    [
      'a reference of 65',
      (b) => ({ ...b, external_reference: 'a'.repeat(65) }),
      'property_value',
      'external_reference',
    ],
    [
      'a comma amount',
      (b) => ({ ...b, transactions: { payments: [{ amount: '10,50' }] } }),
      'property_value',
      'amount',
    ],
    [
      'a zero amount',
      (b) => ({ ...b, transactions: { payments: [{ amount: '0.00' }] } }),
      'property_value',
      'amount',
    ],
    [
      'three decimals',
      (b) => ({ ...b, transactions: { payments: [{ amount: '1.001' }] } }),
      'property_value',
      'amount',
    ],
    [
      'a number as amount',
      (b) => ({ ...b, transactions: { payments: [{ amount: 10 }] } }),
      'property_type',
      'amount',
    ],
    ['no payment', (b) => ({ ...b, transactions: { payments: [] } }), 'minimum_items', 'payments'],
    [
      'two payments',
      (b) => ({ ...b, transactions: { payments: [{ amount: '1' }, { amount: '1' }] } }),
      'maximum_items',
      'payments',
    ],
    ['a title', (b) => ({ ...b, title: 'x' }), 'unsupported_properties', 'title'],
    [
      'a webhook address',
      (b) => ({ ...b, notification_url: 'http://x' }),
      'unsupported_properties',
      'notification_url',
    ],
    [
      'no terminal',
      (b) => ({ ...b, config: { point: {} } }),
      'required_properties',
      'config.point.terminal_id',
    ],
    ['an online order', (b) => ({ ...b, type: 'online' }), 'property_value', 'type'],
    [
      '29 seconds',
      (b) => ({ ...b, expiration_time: 'PT29S' }),
      'property_value',
      'expiration_time',
    ],
    [
      'over 3 hours',
      (b) => ({ ...b, expiration_time: 'PT3H1S' }),
      'property_value',
      'expiration_time',
    ],
    [
      'a text of 151',
      (b) => ({ ...b, description: 'x'.repeat(151) }),
      'property_value',
      'description',
    ],
    [
      'installments of a debit card',
      (b) => ({
        ...b,
        config: {
          point: { terminal_id: 'x' },
          payment_method: { default_type: 'debit_card', default_installments: 3 },
        },
      }),
      'property_value',
      'default_installments',
    ],
    ['a list', () => [], 'property_type', 'body'],
  ]
  it.each(wrongBodies)('refuses %s', async (_name, change, code, detail) => {
    const answer = await post('/v1/orders', { key: newKey(), body: change(orderBody(shop)) })
    expect(answer.status).toBe(400)
    expect(Object.keys(answer.body)).toEqual(['errors'])
    const [error] = answer.body.errors
    expect(error.code).toBe(code)
    expect(error.details.join()).toContain(detail)
  })

  it('refuses an empty object, bad JSON, a missing and an overlong key', async () => {
    const code = async (options: Parameters<typeof post>[1]) => {
      return (await post('/v1/orders', options)).body.errors[0].code
    }
    expect(await code({ key: 'a', body: {} })).toBe('minimum_properties')
    expect(await code({ key: 'a', body: '{"type":' })).toBe('json_syntax_error')
    expect(await code({ body: orderBody(shop) })).toBe('empty_required_header')
    expect(await code({ key: 'a'.repeat(129), body: orderBody(shop) })).toBe(
      'invalid_idempotency_key_length',
    )
  })

  it('answers a flat 401 without, with an odd and with an unknown token', async () => {
    const ask = (headers: Record<string, string>) =>
      call(sandbox, 'GET', '/v1/orders/x', { headers })
    const absent = { code: 'unauthorized', message: 'authorization value not present' }
    const unknown = { code: 'unauthorized', message: 'user not found' }
    expect(await ask({})).toMatchObject({ status: 401, body: absent })
    expect(await ask({ authorization: 'Basic eA==' })).toMatchObject({ status: 401, body: absent })
    expect(await ask({ authorization: 'Bearer APP_USR-1' })).toMatchObject({
      status: 401,
      body: unknown,
    })
  })
})

describe('idempotency memory', () => {
  it('answers with the first order, as it is now, for the same key and body', async () => {
    const body = orderBody(shop)
    const first = await post('/v1/orders', { key: 'k1', body })
    await act(sandbox, first.body.id, { do: 'pay' })
    const { config, ...rest } = body
    const again = await post('/v1/orders', { key: 'k1', body: { config, ...rest } })
    expect(again.status).toBe(201)
    expect(again.body).toMatchObject({ id: first.body.id, status: 'processed' })
    expect(sandbox.ledger().orders).toHaveLength(1)
  })

  it('makes one order of ten racing creations with one key', async () => {
    const body = orderBody(shop)
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post('/v1/orders', { key: 'k1', body })),
    )
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1)
    expect(sandbox.ledger().orders).toHaveLength(1)
  })

  it('refuses another body for 24 hours, then takes the key again', async () => {
    const first = await post('/v1/orders', { key: 'k1', body: orderBody(shop) })
    await act(sandbox, first.body.id, { do: 'pay' })
    const other = orderBody(shop, '5.00')
    const refused = await post('/v1/orders', { key: 'k1', body: other })
    expect(refused).toMatchObject({
      status: 409,
      body: { errors: [{ code: 'idempotency_key_already_used' }] },
    })
    clock.advance(24 * 3_600_000)
    const later = await post('/v1/orders', { key: 'k1', body: other })
    expect(later.status).toBe(201)
    expect(later.body.id).not.toBe(first.body.id)
  })

  it('stores keys by seller and by endpoint', async () => {
    const other = await openShop(sandbox, 5001)
    const mine = await post('/v1/orders', { key: 'k1', body: orderBody(shop) })
    const theirs = await call(sandbox, 'POST', '/v1/orders', {
      token: other.token,
      key: 'k1',
      body: orderBody(other),
    })
    expect(theirs.status).toBe(201)
    const canceled = await post(`/v1/orders/${mine.body.id}/cancel`, { key: 'k1' })
    expect(canceled.status).toBe(200)
    const repeated = await post(`/v1/orders/${mine.body.id}/cancel`, { key: 'k1' })
    expect(repeated).toMatchObject({ status: 200, body: { status: 'canceled' } })
  })

  it('does not remember a refusal', async () => {
    const blocker = await createOrder(sandbox, shop)
    const body = orderBody(shop, '5.00')
    expect((await post('/v1/orders', { key: 'k9', body })).status).toBe(409)
    await cancel(blocker.body.id)
    expect((await post('/v1/orders', { key: 'k9', body })).status).toBe(201)
  })
})

describe('read and search', () => {
  it('hides orders of other sellers and refuses ids of another form', async () => {
    const other = await openShop(sandbox, 5001)
    const { body } = await createOrder(sandbox, shop)
    expect((await getOrder(sandbox, shop, body.id)).body).toEqual(body)
    const missing = body.id.replace(/.$/, body.id.endsWith('0') ? '1' : '0')
    const hidden = await getOrder(sandbox, other, body.id)
    expect(hidden).toMatchObject({ status: 404, body: { errors: [{ code: 'order_not_found' }] } })
    expect((await getOrder(sandbox, shop, missing)).body).toEqual(hidden.body)
    const bad = await getOrder(sandbox, shop, 'ORD1')
    expect(bad).toMatchObject({ status: 400, body: { errors: [{ code: 'invalid_path_param' }] } })
    expect((await cancelAs(other.token, body.id)).status).toBe(404)
  })

  function cancelAs(token: string, id: string) {
    return call(sandbox, 'POST', `/v1/orders/${id}/cancel`, { token, key: newKey() })
  }

  it('shows no orders older than three months', async () => {
    const { body } = await createOrder(sandbox, shop)
    clock.advance(93 * 86_400_000)
    expect((await getOrder(sandbox, shop, body.id)).status).toBe(404)
  })

  it('finds by reference and dates, in pages, only the own orders', async () => {
    const ids: string[] = []
    for (const reference of ['A', 'B', 'A', 'A']) {
      const made = await post('/v1/orders', {
        key: newKey(),
        body: orderBody(shop, '1.00', reference),
      })
      ids.push(made.body.id)
      await cancel(made.body.id)
      clock.advance(1000)
    }
    const other = await openShop(sandbox, 5001)
    await createOrder(sandbox, other)
    const search = (query: string) =>
      call(sandbox, 'GET', `/v1/orders?begin_date=2026-11-20T14:00:00Z&${query}`, {
        token: shop.token,
      })
    const all = await search('end_date=2026-11-21T00:00:00Z')
    expect(all.body.paging).toEqual({ total: '4', total_pages: '1', offset: '0', limit: '20' })
    const pages = 'end_date=2026-11-21T00:00:00Z&external_reference=A&page_size=2&sort_order=asc'
    const first = await search(pages)
    expect(first.body.data.map((order: { id: string }) => order.id)).toEqual([ids[0], ids[2]])
    const second = await search(`${pages}&page=2`)
    expect(second.body.data.map((order: { id: string }) => order.id)).toEqual([ids[3]])
    expect((await search('end_date=2026-11-20T14:00:00.500Z')).body.data).toHaveLength(1)
    expect((await search('')).body.errors[0].code).toBe('required_properties')
  })
})

describe('cancel', () => {
  it('cancels a created order and frees the terminal', async () => {
    const { body } = await createOrder(sandbox, shop)
    const answer = await cancel(body.id)
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({
      id: body.id,
      status: 'canceled',
      status_detail: 'canceled',
    })
    expect(answer.body.transactions.payments[0].status_detail).toBe('canceled_by_api')
    expect((await cancel(body.id)).body.errors[0].code).toBe('order_already_canceled')
    expect((await createOrder(sandbox, shop)).status).toBe(201)
  })

  it('refuses at the terminal without the header, with another value and with old software', async () => {
    const { body } = await createOrder(sandbox, shop)
    await act(sandbox, body.id, { do: 'fetch' })
    const refused = { status: 409, body: { errors: [{ code: 'cannot_cancel_order' }] } }
    expect(await cancel(body.id)).toMatchObject(refused)
    expect(await cancel(body.id, { 'x-allow-cancelable-status': 'created' })).toMatchObject(refused)
    const pos = await call(sandbox, 'POST', '/v2/pos', {
      token: shop.token,
      key: newKey(),
      body: { name: 'Caja 2', store_id: String(shop.storeId) },
    })
    const old = await call(sandbox, 'POST', '/_sandbox/terminals', {
      body: { pos_id: pos.body.id, cancel_by_api: false },
    })
    const second = await createOrder(sandbox, { ...shop, terminalId: old.body.id })
    await act(sandbox, second.body.id, { do: 'fetch' })
    const asked = await cancel(second.body.id, { 'x-allow-cancelable-status': 'at_terminal' })
    expect(asked).toMatchObject(refused)
  })

  it('takes a cancel at the terminal with the header, and the terminal ends the order', async () => {
    const headers = { 'x-allow-cancelable-status': 'at_terminal,created' }
    const { body } = await createOrder(sandbox, shop)
    await act(sandbox, body.id, { do: 'fetch' })
    const asked = await cancel(body.id, headers)
    expect(asked.status).toBe(202)
    expect(asked.body).toEqual({
      id: body.id,
      status: 'at_terminal',
      status_detail: 'at_terminal',
      transactions: {
        payments: [
          {
            id: body.transactions.payments[0].id,
            status: 'at_terminal',
            status_detail: 'cancellation_requested',
          },
        ],
      },
    })
    const ended = await act(sandbox, body.id, { do: 'cancel' })
    expect(ended.body.transactions.payments[0].status_detail).toBe('canceled_by_api')
    const next = await createOrder(sandbox, shop)
    await act(sandbox, next.body.id, { do: 'fetch' })
    await cancel(next.body.id, headers)
    const paid = await act(sandbox, next.body.id, { do: 'pay' })
    expect(paid.body.status).toBe('processed')
  })

  it('refuses final orders', async () => {
    const { body } = await createOrder(sandbox, shop)
    await act(sandbox, body.id, { do: 'pay' })
    expect((await cancel(body.id)).body.errors[0].code).toBe('cannot_cancel_order')
  })
})

describe('time', () => {
  it('expires after a quarter of an hour without an expiration_time', async () => {
    const { body } = await createOrder(sandbox, shop)
    clock.advance(900_000 - 1)
    expect((await getOrder(sandbox, shop, body.id)).body.status).toBe('created')
    clock.advance(1)
    const expired = await getOrder(sandbox, shop, body.id)
    expect(expired.body).toMatchObject({ status: 'expired', status_detail: 'expired' })
    expect(expired.body.transactions.payments[0].status_detail).toBe('expired')
  })

  it('expires at the terminal too, after the time asked for', async () => {
    const made = await post('/v1/orders', {
      key: newKey(),
      body: { ...orderBody(shop), expiration_time: 'PT30S' },
    })
    await act(sandbox, made.body.id, { do: 'fetch' })
    clock.advance(30_000)
    expect((await getOrder(sandbox, shop, made.body.id)).body.status).toBe('expired')
  })

  it('lets a terminal in PDV fetch by itself at the set pace, one in STANDALONE never', async () => {
    await call(sandbox, 'PUT', '/_sandbox/pace', { body: { fetch_ms: 3000 } })
    const { body } = await createOrder(sandbox, shop)
    clock.advance(2999)
    expect((await getOrder(sandbox, shop, body.id)).body.status).toBe('created')
    clock.advance(1)
    expect((await getOrder(sandbox, shop, body.id)).body.status).toBe('at_terminal')
    await act(sandbox, body.id, { do: 'pay' })
    await call(sandbox, 'PATCH', '/terminals/v1/setup', {
      token: shop.token,
      body: { terminals: [{ id: shop.terminalId, operating_mode: 'STANDALONE' }] },
    })
    const ignored = await createOrder(sandbox, shop)
    clock.advance(60_000)
    expect((await getOrder(sandbox, shop, ignored.body.id)).body.status).toBe('created')
    expect((await act(sandbox, ignored.body.id, { do: 'pay' })).status).toBe(409)
    clock.advance(900_000)
    expect((await getOrder(sandbox, shop, ignored.body.id)).body.status).toBe('expired')
  })
})
