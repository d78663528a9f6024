import { request as rawRequest } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  act,
  call,
  createOrder,
  getOrder,
  newKey,
  openShop,
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

function setup(terminals: unknown, token = shop.token) {
  return call(sandbox, 'PATCH', '/terminals/v1/setup', { token, body: { terminals } })
}

function pair(body: object) {
  return call(sandbox, 'POST', '/_sandbox/terminals', { body })
}

describe('terminals', () => {
  it('are listed by box and store, in pages of at most fifty', async () => {
    const second = await pair({ pos_id: shop.posId, model: 'PAX_A910' })
    expect(second.body).toEqual({
      id: expect.stringMatching(/^PAX_A910__SMARTPOS\d{9}$/),
      pos_id: shop.posId,
      store_id: String(shop.storeId),
      external_pos_id: `CAJA${shop.userId}`,
      operating_mode: 'STANDALONE',
    })
    const list = async (query: string) => {
      return (await call(sandbox, 'GET', `/terminals/v1/list?${query}`, { token: shop.token })).body
    }
    const all = await list('limit=500')
    expect(all.paging).toEqual({ total: 2, offset: 0, limit: 50 })
    expect(all.data.terminals[1]).toEqual(second.body)
    expect((await list('limit=1&offset=1')).data.terminals).toEqual([second.body])
    expect((await list(`pos_id=${shop.posId}&store_id=${shop.storeId}`)).paging.total).toBe(2)
    expect((await list('pos_id=1')).data.terminals).toEqual([])
    expect((await list('limit=0')).errors[0].code).toBe('property_value')
    const other = await openShop(sandbox, 5001)
    const theirs = await call(sandbox, 'GET', '/terminals/v1/list', { token: other.token })
    expect(theirs.body.paging.total).toBe(1)
  })

  it('change mode one at a time, with one PDV per box', async () => {
    const second = (await pair({ pos_id: shop.posId })).body.id
    const refused = await setup([{ id: second, operating_mode: 'PDV' }])
    expect(refused.status).toBe(412)
    expect(refused.body.errors[0].message).toBe(
      'Only one pos-store with PDV mode ON or SUSPENDED is allowed',
    )
    const off = [{ id: shop.terminalId, operating_mode: 'STANDALONE' }]
    expect(await setup(off)).toMatchObject({ status: 200, body: { terminals: off } })
    expect((await setup([{ id: second, operating_mode: 'PDV' }])).status).toBe(200)
    expect((await setup([{ id: second, operating_mode: 'PDV' }])).status).toBe(200)
    const both = await setup([...off, { id: second, operating_mode: 'PDV' }])
    expect(both).toMatchObject({ status: 400, body: { errors: [{ code: 'invalid_payload' }] } })
  })

  it('refuse unknown and foreign ones, odd modes and ones without a box', async () => {
    const other = await openShop(sandbox, 5001)
    const code = async (terminals: unknown) => (await setup(terminals)).body.errors[0].code
    expect(await code([{ id: other.terminalId, operating_mode: 'PDV' }])).toBe('not_found')
    expect(await code([{ id: 'x', operating_mode: 'PDV' }])).toBe('not_found')
    expect(await code([{ id: shop.terminalId, operating_mode: 'UNDEFINED' }])).toBe(
      'property_value',
    )
    expect(await code([{ id: shop.terminalId }])).toBe('required_properties')
    expect(await code([{ id: shop.terminalId, operating_mode: 'PDV', x: 1 }])).toBe(
      'unsupported_properties',
    )
    expect(await code('x')).toBe('property_type')
    await call(sandbox, 'DELETE', `/v2/pos/${shop.posId}`, { token: shop.token })
    const bare = await setup([{ id: shop.terminalId, operating_mode: 'PDV' }])
    expect(bare).toMatchObject({ status: 403, body: { errors: [{ code: 'store_pos_not_found' }] } })
  })
})

describe('pairing', () => {
  it('finds the box by either id and wants the seller where the text is not enough', async () => {
    const other = await openShop(sandbox, 5001)
    for (const { token, storeId } of [shop, other]) {
      await call(sandbox, 'POST', '/v2/pos', {
        token,
        key: newKey(),
        body: { store_id: String(storeId), external_id: 'SAME' },
      })
    }
    expect((await pair({ external_pos_id: 'SAME' })).status).toBe(409)
    const mine = await pair({ external_pos_id: 'SAME', user_id: shop.userId })
    expect(mine).toMatchObject({ status: 201, body: { operating_mode: 'PDV' } })
    expect((await pair({ external_pos_id: 'NONE' })).status).toBe(404)
    expect((await pair({})).status).toBe(400)
    expect((await pair({ pos_id: shop.posId, operating_mode: 'ON' })).status).toBe(400)
    expect((await pair({ pos_id: shop.posId, operating_mode: 'PDV' })).status).toBe(409)
    expect((await pair({ pos_id: shop.posId, typo: 1 })).status).toBe(400)
  })
})

describe('the buyer', () => {
  it('makes only transitions that are allowed', async () => {
    const { id } = (await createOrder(sandbox, shop)).body
    const fetched = await act(sandbox, id, { do: 'fetch' })
    expect(fetched).toMatchObject({ status: 200, body: { id, status: 'at_terminal' } })
    expect((await act(sandbox, id, { do: 'fetch' })).status).toBe(409)
    const paid = await act(sandbox, id, { do: 'pay', payment_method_type: 'qr' })
    expect(paid.body.transactions.payments[0]).toMatchObject({
      payment_method: { type: 'qr', id: 'account_money', installments: 1 },
      provider: 'mercadopago',
    })
    for (const deed of ['fetch', 'pay', 'decline', 'cancel', 'hold', 'expire']) {
      const answer = await act(sandbox, id, { do: deed })
      expect([deed, answer.status, answer.body.code]).toEqual([deed, 409, 'CONFLICT'])
    }
    expect((await act(sandbox, 'ORD1', { do: 'pay' })).status).toBe(404)
  })

  it('pays with the method the order forces', async () => {
    const made = await call(sandbox, 'POST', '/v1/orders', {
      token: shop.token,
      key: newKey(),
      body: {
        type: 'point',
        external_reference: 'T',
        transactions: { payments: [{ amount: '1.00' }] },
        config: {
          point: { terminal_id: shop.terminalId },
          payment_method: { default_type: 'debit_card' },
        },
      },
    })
    const paid = await act(sandbox, made.body.id, { do: 'pay' })
    const [payment] = paid.body.transactions.payments
    expect(payment.payment_method).toMatchObject({ type: 'debit_card', id: 'debvisa' })
  })

  it('can pay after the close by force', async () => {
    const { id } = (await createOrder(sandbox, shop)).body
    await act(sandbox, id, { do: 'expire' })
    await act(sandbox, id, { do: 'pay', force: true })
    expect((await getOrder(sandbox, shop, id)).body.status).toBe('processed')
    expect(sandbox.ledger().charges).toBe(1)
  })

  it.each([
    [{}, 'do must be'],
    [{ do: 'jump' }, 'do must be'],
    [{ do: 'pay', payment_method_type: 'shells' }, 'payment_method_type'],
    [{ do: 'pay', installments: 0 }, 'installments'],
    [{ do: 'decline', status_detail: 'bored' }, 'status_detail'],
    [{ do: 'pay', amount: '1.00' }, 'amount'],
  ])('gets an error that names what is wrong in %o', async (body, words) => {
    const { id } = (await createOrder(sandbox, shop)).body
    const answer = await act(sandbox, id, body)
    expect(answer).toMatchObject({ status: 400, body: { error: expect.stringContaining(words) } })
    expect((await getOrder(sandbox, shop, id)).body.status).toBe('created')
  })
})

describe('control surface', () => {
  it('shows its credentials and its ledger', async () => {
    const info = await call(sandbox, 'GET', '/_sandbox/info')
    expect(info.body).toEqual(sandbox.info)
    const { id } = (await createOrder(sandbox, shop, '12.30')).body
    await act(sandbox, id, { do: 'pay' })
    const { body } = await call(sandbox, 'GET', '/_sandbox/ledger')
    expect(body).toMatchObject({ charges: 1, charged_total: '12.30', refunds: 0 })
    expect(body.orders[0]).toMatchObject({
      id,
      external_reference: 'TCK-0001',
      user_id: shop.userId,
      terminal_id: shop.terminalId,
      amount: '12.30',
      status: 'processed',
      status_detail: 'accredited',
      paid_amount: '12.30',
      refunded_amount: '0.00',
      idempotency_key: expect.any(String),
    })
    const seqs = body.effects.map((effect: { seq: number }) => effect.seq)
    expect(seqs).toEqual(seqs.map((_: number, index: number) => index + 1))
    expect(body.effects.at(-1)).toMatchObject({ kind: 'order.processed', ref: id })
    const short = await call(sandbox, 'GET', '/_sandbox/ledger?effects=0')
    expect(short.body).toEqual({ ...body, effects: undefined })
  })

  it('shows the page everything except credentials', async () => {
    const { id } = (await createOrder(sandbox, shop)).body
    const { body } = await call(sandbox, 'GET', '/_sandbox/state')
    expect(body.terminals[0]).toMatchObject({
      id: shop.terminalId,
      order: { id, status: 'created' },
      pos: { name: 'Caja 1', store_name: 'Sucursal Centro' },
    })
    const text = JSON.stringify(body)
    for (const secret of [shop.token, shop.refreshToken, sandbox.info.client_secret]) {
      expect(text).not.toContain(secret)
    }
  })

  it('answers this machine and this site only', async () => {
    const ask = (headers: Record<string, string>, path = '/_sandbox/info') =>
      new Promise<number>((resolve, reject) => {
        rawRequest(`${sandbox.url}${path}`, { headers }, (response) => {
          response.resume()
          resolve(response.statusCode ?? 0)
        })
          .on('error', reject)
          .end()
      })
    const { port } = new URL(sandbox.url)
    expect(await ask({})).toBe(200)
    expect(await ask({ host: `localhost:${port}` })).toBe(200)
    expect(await ask({ host: 'evil.example' })).toBe(403)
    expect(await ask({ host: '127.0.0.1.evil.example' })).toBe(403)
    expect(await ask({ host: 'evil.example' }, '/')).toBe(403)
    expect(await ask({ origin: 'https://evil.example' })).toBe(403)
    expect(await ask({ origin: 'null' })).toBe(403)
    expect(await ask({ 'sec-fetch-site': 'cross-site' })).toBe(403)
    expect(await ask({ 'sec-fetch-site': 'same-origin', origin: sandbox.url })).toBe(200)
  })

  it('serves the page without inline script, its files with a strict policy', async () => {
    for (const path of ['/', '/terminals', '/_sandbox/', '/_sandbox']) {
      const page = await call(sandbox, 'GET', path)
      expect(page.status).toBe(200)
      expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
      expect(page.body).not.toMatch(/<script(?![^>]*src=)|\son[a-z]+=|style=/)
      for (const [, file] of page.body.matchAll(/(?:src|href)="(\/page\/[^"]+)"/g)) {
        expect((await call(sandbox, 'GET', file)).status).toBe(200)
      }
    }
    expect((await call(sandbox, 'GET', '/page/../server.ts')).status).toBe(404)
    expect((await call(sandbox, 'GET', '/page/%2e%2e/server.ts')).status).toBeGreaterThanOrEqual(
      400,
    )
  })
})

describe('hostile input', () => {
  const paths = [
    '/v1/orders',
    '/oauth/token',
    '/pos',
    '/v2/pos',
    '/_sandbox/terminals',
    '/_sandbox/faults',
  ]
  it.each(paths)('%s survives bad JSON, NUL, __proto__ and two megabytes', async (path) => {
    const method = path.endsWith('faults') ? 'PUT' : 'POST'
    const send = async (body: string, headers: Record<string, string> = {}) => {
      const options = { token: shop.token, key: newKey(), body, headers }
      return (await call(sandbox, method, path, options)).status
    }
    expect(await send('{"a":')).toBe(400)
    expect(await send('\u0000')).toBe(400)
    expect(await send('null')).toBe(400)
    expect(await send('"\\u0000"')).toBe(400)
    expect(await send('{"__proto__":{"type":"point"},"constructor":{"prototype":{"x":1}}}')).toBe(
      400,
    )
    expect(await send(`"${'x'.repeat(2_000_000)}"`)).toBe(413)
    expect(await send('<x/>', { 'content-type': 'application/xml' })).toBe(415)
    expect(Object.hasOwn(Object.prototype, 'x')).toBe(false)
    expect((await createOrder(sandbox, shop)).status).toBe(201)
  })

  it('answers odd paths', async () => {
    for (const path of [
      '/%00',
      '/%zz',
      '/v1/orders/%00',
      `/v1/orders/${'x'.repeat(5000)}`,
      '//evil.example',
    ]) {
      const { status } = await call(sandbox, 'GET', path, { token: shop.token })
      expect([path.slice(0, 20), status >= 400 && status < 500]).toEqual([path.slice(0, 20), true])
    }
  })
})
