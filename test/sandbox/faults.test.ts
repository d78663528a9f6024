import { request as rawRequest } from 'node:http'
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
  paidOrder,
  refund,
  type Shop,
  startTestSandbox,
} from './support.ts'

let sandbox: Sandbox
let shop: Shop

beforeEach(async () => {
  sandbox = await startTestSandbox()
  shop = await openShop(sandbox)
})
afterEach(() => sandbox.close())

function setRules(...rules: object[]) {
  return call(sandbox, 'PUT', '/_sandbox/faults', { body: rules })
}

const orders = { path: '/v1/orders', method: 'POST', count: 1 }

describe('calls', () => {
  it.each(['drop_before', 'reset'])('%s cuts the connection and nothing happened', async (kind) => {
    await setRules({ ...orders, kind })
    await expect(createOrder(sandbox, shop)).rejects.toThrow()
    expect(sandbox.ledger().orders).toEqual([])
    expect((await createOrder(sandbox, shop)).status).toBe(201)
  })

  it('drop_after cuts the connection although it happened; the same key finds it', async () => {
    await setRules({ ...orders, kind: 'drop_after' })
    const again = { token: shop.token, key: newKey(), body: orderBody(shop) }
    await expect(call(sandbox, 'POST', '/v1/orders', again)).rejects.toThrow()
    const [made] = sandbox.ledger().orders
    expect(made?.idempotency_key).toBe(again.key)
    const answer = await call(sandbox, 'POST', '/v1/orders', again)
    expect(answer).toMatchObject({ status: 201, body: { id: made?.id } })
    expect(sandbox.ledger().orders).toHaveLength(1)
  })

  it('a rule with an account does not affect other accounts', async () => {
    const other = await openShop(sandbox, 2_025_799_999)
    await setRules({ ...orders, kind: '500', user_id: shop.userId })
    expect((await createOrder(sandbox, other)).status).toBe(201)
    expect((await createOrder(sandbox, shop)).status).toBe(500)
  })

  it('torn_body sends half of an answer whose effect happened', async () => {
    await setRules({ ...orders, kind: 'torn_body' })
    const torn = await new Promise<{ status: number; text: string; aborted: boolean }>(
      (resolve, reject) => {
        const sent = rawRequest(
          `${sandbox.url}/v1/orders`,
          {
            method: 'POST',
            headers: {
              'content-type': 'application/json',
              authorization: `Bearer ${shop.token}`,
              'x-idempotency-key': newKey(),
            },
          },
          (response) => {
            let text = ''
            const done = (aborted: boolean) =>
              resolve({ status: response.statusCode ?? 0, text, aborted })
            response.on('data', (chunk) => {
              text += chunk
            })
            response.on('end', () => done(false))
            response.on('error', () => done(true))
          },
        )
        sent.on('error', reject)
        sent.end(JSON.stringify(orderBody(shop)))
      },
    )
    expect(torn).toMatchObject({ status: 201, aborted: true })
    expect(torn.text).toMatch(/^\{"id":"ORDTST/)
    expect(() => JSON.parse(torn.text)).toThrow()
    expect(sandbox.ledger().orders).toHaveLength(1)
  })

  it.each([
    ['hang_before', 0],
    ['hang', 0],
    ['hang_after', 1],
  ])('%s never answers and leaves %i orders', async (kind, count) => {
    await setRules({ ...orders, kind })
    const options = {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${shop.token}`,
        'x-idempotency-key': newKey(),
      },
      body: JSON.stringify(orderBody(shop)),
      signal: AbortSignal.timeout(50),
    }
    await expect(fetch(`${sandbox.url}/v1/orders`, options)).rejects.toThrow('timeout')
    expect(sandbox.ledger().orders).toHaveLength(count)
  })

  it('latency delays and the call succeeds', async () => {
    await setRules({ ...orders, kind: 'latency', delay_ms: 40 })
    const started = performance.now()
    expect((await createOrder(sandbox, shop)).status).toBe(201)
    expect(performance.now() - started).toBeGreaterThanOrEqual(39)
  })

  it('answers statuses in the envelope of the path, with Retry-After', async () => {
    await setRules(
      { ...orders, kind: '429', retry_after: 7 },
      { path: '/oauth/token', kind: '429' },
      { path: '/users/me', kind: '5xx', status: 502 },
      { path: '/terminals', kind: '503' },
    )
    const limited = await createOrder(sandbox, shop)
    expect(limited.status).toBe(429)
    expect(limited.headers.get('retry-after')).toBe('7')
    expect(limited.body.errors[0].code).toBe('too_many_requests')
    const { token } = shop
    const oauth = await call(sandbox, 'POST', '/oauth/token', { body: {} })
    expect(oauth).toMatchObject({ status: 429, body: { error: 'local_rate_limited', status: 429 } })
    const me = await call(sandbox, 'GET', '/users/me', { token })
    expect(me).toMatchObject({ status: 502, body: { status: 502 } })
    const list = await call(sandbox, 'GET', '/terminals/v1/list', { token })
    expect(list).toMatchObject({ status: 503, body: { errors: [{ code: '503' }] } })
    expect(sandbox.ledger().orders).toEqual([])
  })

  it('answers any named code, so that every documented refusal can be tested', async () => {
    const path = '^/v1/orders/[^/]+/refund$'
    await setRules({
      path,
      kind: 'status',
      status: 425,
      code: 'order_payment_not_yet_enabled_for_refund',
    })
    const { body } = await createOrder(sandbox, shop)
    const answer = await call(sandbox, 'POST', `/v1/orders/${body.id}/refund`, {
      token: shop.token,
    })
    expect(answer.status).toBe(425)
    expect(answer.body.errors[0].code).toBe('order_payment_not_yet_enabled_for_refund')
  })
})

describe('wrong answers', () => {
  it.each([
    ['provider', 'application/json', '{"errors":[{"code":"forbidden"'],
    ['bare', 'application/json', '{"message":'],
    ['html', 'text/html', '<html>'],
  ])('status_after in the form %s denies what happened', async (form, type, begin) => {
    await setRules({ ...orders, kind: 'status_after', status: 403, code: 'forbidden', form })
    const response = await fetch(`${sandbox.url}/v1/orders`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${shop.token}`,
        'x-idempotency-key': newKey(),
      },
      body: JSON.stringify(orderBody(shop)),
    })
    expect(response.status).toBe(403)
    expect(response.headers.get('content-type')).toContain(type)
    expect((await response.text()).startsWith(begin)).toBe(true)
    expect(sandbox.ledger().orders).toHaveLength(1)
  })

  it('status takes the same forms, and nothing happened', async () => {
    await setRules({ ...orders, kind: 'status', status: 404, form: 'html' })
    const answer = await createOrder(sandbox, shop)
    expect(answer.status).toBe(404)
    expect(answer.headers.get('content-type')).toContain('text/html')
    expect(sandbox.ledger().orders).toEqual([])
  })
})

describe('a call that arrives late', () => {
  let clock: ReturnType<typeof createClock>
  beforeEach(async () => {
    await sandbox.close()
    clock = createClock()
    sandbox = await startTestSandbox({ now: clock.now })
    shop = await openShop(sandbox)
    await setRules({ ...orders, kind: 'arrive_late', delay_ms: 7000 })
  })
  const send = (key: string) =>
    call(sandbox, 'POST', '/v1/orders', { token: shop.token, key, body: orderBody(shop) })
  const keys = () => sandbox.ledger().orders.map((order) => order.idempotency_key)
  const arrive = async () => {
    clock.advance(7000)
    return (await call(sandbox, 'GET', '/_sandbox/requests')).body.requests.findLast(
      (request: { fault: string | null }) => request.fault === 'arrived_late',
    )
  }

  it('gets no answer and has its effect after its delay', async () => {
    await expect(send('first')).rejects.toThrow()
    clock.advance(6999)
    expect((await getOrder(sandbox, shop, 'none')).status).toBe(400)
    expect(keys()).toEqual([])
    expect(await arrive()).toMatchObject({ status: 201, path: '/v1/orders' })
    expect(keys()).toEqual(['first'])
  })

  it('arrives after its delay without another call', async () => {
    await setRules({ ...orders, kind: 'arrive_late', delay_ms: 0 })
    await expect(send('first')).rejects.toThrow()
    await expect.poll(keys).toEqual(['first'])
  })

  it('has no effect when the next attempt with its key has arrived first', async () => {
    await expect(send('first')).rejects.toThrow()
    const { body } = await send('first')
    expect(await arrive()).toMatchObject({ status: 201 })
    expect(sandbox.ledger().orders.map(({ id }) => id)).toEqual([body.id])
  })

  it('has its effect before calls after its time', async () => {
    await expect(send('first')).rejects.toThrow()
    clock.advance(7000)
    const answers = await Promise.all(Array.from({ length: 5 }, () => createOrder(sandbox, shop)))
    expect(answers.map(({ status }) => status)).toEqual([409, 409, 409, 409, 409])
    expect(keys()).toEqual(['first'])
  })

  it('has no effect when another order is on the terminal', async () => {
    await expect(send('first')).rejects.toThrow()
    await send('another')
    expect(await arrive()).toMatchObject({ status: 409 })
    expect(keys()).toEqual(['another'])
  })

  it('takes a terminal that is free again after a later attempt was refused', async () => {
    const { body } = await call(sandbox, 'DELETE', '/_sandbox/faults').then(() => send('another'))
    await setRules({ ...orders, kind: 'arrive_late', delay_ms: 7000 })
    await expect(send('first')).rejects.toThrow()
    expect((await send('first')).status).toBe(409)
    await act(sandbox, body.id, { do: 'pay' })
    expect(await arrive()).toMatchObject({ status: 201 })
    expect(keys()).toEqual(['another', 'first'])
  })

  it('gets an answer of the gateway, or none', async () => {
    await setRules(
      { ...orders, kind: 'arrive_late', answer: 'status', form: 'html', delay_ms: 7000 },
      { path: '/cancel$', kind: 'arrive_late', answer: 'hang', delay_ms: 7000 },
    )
    expect((await send('first')).status).toBe(504)
    const { body } = await send('second')
    const hanging = fetch(`${sandbox.url}/v1/orders/${body.id}/cancel`, {
      method: 'POST',
      headers: { authorization: `Bearer ${shop.token}`, 'x-idempotency-key': newKey() },
      signal: AbortSignal.timeout(50),
    })
    await expect(hanging).rejects.toThrow('timeout')
    expect((await getOrder(sandbox, shop, body.id)).body.status).toBe('created')
    await arrive()
    expect((await getOrder(sandbox, shop, body.id)).body.status).toBe('canceled')
  })
})

describe('what no document describes', () => {
  it('another application puts an order on the terminal', async () => {
    const placed = await call(sandbox, 'POST', '/_sandbox/orders', { body: orderBody(shop) })
    expect(placed).toMatchObject({
      status: 201,
      body: { status: 'created', integration_data: { application_id: 'another' } },
    })
    expect((await createOrder(sandbox, shop)).body.errors[0].code).toBe(
      'already_queued_order_on_terminal',
    )
    const again = await call(sandbox, 'POST', '/_sandbox/orders', { body: orderBody(shop) })
    expect(again.status).toBe(409)
    await act(sandbox, placed.body.id, { do: 'pay' })
    expect((await createOrder(sandbox, shop)).status).toBe(201)
  })

  it('an order may show another state and other payments, and the ledger keeps the true ones', async () => {
    const { id, paymentId } = await paidOrder(sandbox, shop, '10.00')
    const { payments } = (await getOrder(sandbox, shop, id)).body.transactions
    const shown = {
      status: 'under_review',
      transactions: { payments: [{ ...payments[0], id: 'PAY0', status: 'failed' }, payments[0]] },
    }
    await call(sandbox, 'PUT', `/_sandbox/orders/${id}/shown`, { body: shown })
    const { body } = await getOrder(sandbox, shop, id)
    expect(body).toMatchObject({ id, ...shown })
    expect(body.transactions.payments.map((each: { id: string }) => each.id)).toEqual([
      'PAY0',
      paymentId,
    ])
    expect(sandbox.ledger().orders[0]).toMatchObject({ status: 'processed', paid_amount: '10.00' })
    await call(sandbox, 'PUT', `/_sandbox/orders/${id}/shown`, { body: 'null' })
    expect((await getOrder(sandbox, shop, id)).body.status).toBe('processed')
  })

  it('a key may end before its day is over', async () => {
    const again = { token: shop.token, key: newKey(), body: { ...orderBody(shop) } }
    await call(sandbox, 'POST', '/v1/orders', again)
    await call(sandbox, 'PUT', '/_sandbox/keys', { body: { memory_ms: 0 } })
    const forgotten = await call(sandbox, 'POST', '/v1/orders', again)
    expect(forgotten.body.errors[0].code).toBe('already_queued_order_on_terminal')
    await call(sandbox, 'PUT', '/_sandbox/keys', { body: {} })
    expect((await call(sandbox, 'POST', '/v1/orders', again)).status).toBe(201)
  })
})

it('one call may have two faults: a wrong answer after the effect, and a delay', async () => {
  const { id } = await paidOrder(sandbox, shop, '10.00')
  const path = '/refund$'
  await setRules(
    { path, kind: 'latency_after', delay_ms: 20 },
    { path, kind: 'status_after', status: 502 },
  )
  const started = performance.now()
  expect((await refund(sandbox, shop, id)).status).toBe(502)
  expect(performance.now() - started).toBeGreaterThanOrEqual(19)
  expect(sandbox.ledger().refunded_total).toBe('10.00')
})

describe('rules', () => {
  it('fire by chance in the same places for the same seed', async () => {
    const pattern = async (seed: number) => {
      await setRules({ path: '/users/me', kind: '500', chance: 0.4, seed })
      const seen: number[] = []
      for (let i = 0; i < 24; i += 1) {
        seen.push((await call(sandbox, 'GET', '/users/me', { token: shop.token })).status)
      }
      return seen.join()
    }
    const first = await pattern(7)
    expect(first).toContain('200')
    expect(first).toContain('500')
    expect(await pattern(7)).toBe(first)
    expect(await pattern(8)).not.toBe(first)
  })

  it('end after their count, do not affect other methods and the control surface, and can be cleared', async () => {
    await setRules({ path: '/', kind: '500', count: 2, method: 'get' })
    const me = async () => (await call(sandbox, 'GET', '/users/me', { token: shop.token })).status
    expect((await createOrder(sandbox, shop)).status).toBe(201)
    expect([await me(), await me(), await me()]).toEqual([500, 500, 200])
    const listed = await call(sandbox, 'GET', '/_sandbox/faults')
    expect(listed.body.rules[0]).toMatchObject({ fired: 2, met: 3, kind: 'status', status: 500 })
    await setRules({ path: '/', kind: '500' })
    await call(sandbox, 'DELETE', '/_sandbox/faults')
    expect(await me()).toBe(200)
  })

  it('can begin later, be added to, and be ended for one account', async () => {
    const other = await openShop(sandbox, 2_025_799_999)
    const me = async (who: Shop) =>
      (await call(sandbox, 'GET', '/users/me', { token: who.token })).status
    await setRules({ path: '/users/me', kind: '503', skip: 1, count: 1, user_id: shop.userId })
    const more = [{ path: '/users/me', kind: '500', user_id: other.userId }]
    await call(sandbox, 'POST', '/_sandbox/faults', { body: more })
    expect([await me(shop), await me(shop), await me(shop)]).toEqual([200, 503, 200])
    expect(await me(other)).toBe(500)
    await call(sandbox, 'DELETE', `/_sandbox/faults?user_id=${other.userId}`)
    expect(await me(other)).toBe(200)
    expect((await call(sandbox, 'GET', '/_sandbox/faults')).body.rules).toHaveLength(1)
  })

  it.each([
    [{ kind: 'nonsense' }, 'kind'],
    [{ kind: '500', chance: 2 }, 'chance'],
    [{ kind: '500', path: '(' }, 'path'],
    [{ kind: '500', typo: 1 }, 'typo'],
    [{ kind: 'status', status: 200 }, 'status'],
    [{ kind: 'status_after', form: 'pdf' }, 'form'],
    [{ kind: 'arrive_late', answer: 'twice' }, 'answer'],
    [{ kind: 'refund_processing', ends: 'perhaps' }, 'ends'],
  ])('refuses %o and keeps the old ones', async (rule, word) => {
    await setRules({ path: '/', kind: '429' })
    const answer = await setRules(rule)
    expect(answer.status).toBe(400)
    expect(answer.body).toMatchObject({ code: 'BAD_REQUEST', error: expect.stringContaining(word) })
    expect((await call(sandbox, 'GET', '/_sandbox/faults')).body.rules).toHaveLength(1)
  })
})

it('keeps a log of what callers sent, without their secrets', async () => {
  await setRules({ ...orders, kind: 'drop_before' })
  await expect(createOrder(sandbox, shop)).rejects.toThrow()
  const { requests } = (await call(sandbox, 'GET', '/_sandbox/requests')).body
  const last = requests.at(-1)
  expect(last).toMatchObject({
    method: 'POST',
    path: '/v1/orders',
    user_id: shop.userId,
    fault: 'drop_before',
    status: null,
    body: orderBody(shop),
    headers: { authorization: '***', 'x-idempotency-key': expect.any(String) },
  })
  const text = JSON.stringify(requests)
  expect(text).not.toContain(shop.token)
  expect(text).not.toContain(shop.refreshToken)
  expect(text).not.toContain(sandbox.info.client_secret)
})
