import { afterAll, beforeAll, expect, test } from 'vitest'
import { forgetRequests, ordersAtProvider, providerRequests } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, enrol, openShop, type Till } from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService({
    env: { AUTH_FAILURES_PER_MINUTE: '100000' },
  })
  till = await openShop(service, 'valid')
})
afterAll(() => service.stop())

const order = { caja_id: 'CAJA-1', external_reference: 'T-1', amount: '10,00' }
const unknownOrder = '00000000-0000-4000-8000-000000000000'

function post(url: string, body: unknown, headers: Record<string, string> = {}) {
  return call(service, { url, token: till.key, body, headers })
}

/** The outcome in the answer to an invalid body. The order of a cancel or refund may be paid, and was not read. */
const outcomeAt = (url: string) => (url === '/orders' ? 'not_charged' : 'unknown')

/** The request is refused, the error names the field and the outcome, and no call reaches the provider. */
async function expectRefused(url: string, body: unknown, path: string) {
  await forgetRequests(service)
  const response = await post(url, body)
  expect(response.statusCode, JSON.stringify(body)).toBe(422)
  const answer = response.json()
  expect(answer).toMatchObject({
    error: expect.any(String),
    code: 'VALIDATION_ERROR',
    request_id: expect.any(String),
    outcome: outcomeAt(url),
    retry_safe: false,
  })
  expect(answer.details.map((detail: { path: string }) => detail.path)).toContain(path)
  for (const detail of answer.details) expect(detail.message).toEqual(expect.any(String))
  expect(await providerRequests(service)).toEqual([])
}

const badAmounts: unknown[] = [
  '10.50',
  '-1,00',
  '0,00',
  '0,0',
  '1.234,50',
  '١,٠٠',
  10.5,
  10,
  0,
  '',
  '1,',
  ',5',
  '1,234',
  '1e3',
  '1e3,00',
  ' 1,00',
  '1,00 ',
  '1,00\n',
  '9999999999999,00',
  'NaN',
  'Infinity',
  '\uff11,00',
  null,
  true,
  ['1,00'],
  { cents: 100 },
]

test.each(badAmounts.map((amount) => [JSON.stringify(amount), amount]))(
  'a charge of %s is refused on the field amount without a call to the provider',
  async (_name, amount) => {
    await expectRefused('/orders', { ...order, amount }, 'amount')
  },
)

test.each(badAmounts.map((amount) => [JSON.stringify(amount), amount]))(
  'a refund of %s is refused on the field amount without a call to the provider',
  async (_name, amount) => {
    await expectRefused('/orders/refund', { order_id: unknownOrder, amount }, 'amount')
  },
)

test('T25: the error of an amount shows the right format', async () => {
  const { details } = (await post('/orders', { ...order, amount: '10.50' })).json()
  expect(details).toEqual([{ path: 'amount', message: expect.stringContaining('1234,50') }])
  const zero = (await post('/orders', { ...order, amount: '0,00' })).json()
  expect(zero.details).toEqual([{ path: 'amount', message: expect.stringContaining('zero') }])
})

test.each([
  ['caja_id', undefined],
  ['caja_id', ''],
  ['caja_id', null],
  ['caja_id', 7],
  ['caja_id', 'x'.repeat(65)],
  ['caja_id', 'a\u0007b'],
  ['external_reference', undefined],
  ['external_reference', ''],
  ['external_reference', null],
  ['external_reference', 4711],
  ['external_reference', 'r'.repeat(65)],
  ['external_reference', 'line\nbreak'],
  ['external_reference', 'nul\u0000'],
  ['external_reference', 'half\ud800'],
  ['amount', undefined],
  ['description', 'd'.repeat(151)],
  ['description', null],
  ['description', 5],
  ['ticket_number', 'n'.repeat(65)],
  ['ticket_number', null],
  ['ticket_number', 12],
  ['print_ticket', 'true'],
  ['print_ticket', 1],
  ['print_ticket', null],
  ['payment_method', 'cash'],
  ['payment_method', 'ALL'],
  ['payment_method', ''],
  ['payment_method', null],
  ['payment_method', 1],
  ['expiration_minutes', 0],
  ['expiration_minutes', 181],
  ['expiration_minutes', -1],
  ['expiration_minutes', 1.5],
  ['expiration_minutes', '16'],
  ['expiration_minutes', null],
  ['expiration_minutes', 1e30],
  ['ammount', '10,00'],
  ['client', 'somebody'],
  ['status', 'processed'],
  ['amount_cents', 1],
])('an order whose %s is %j is refused on that field', async (path, value) => {
  const { [path as keyof typeof order]: _left, ...rest } = order
  const body = value === undefined ? rest : { ...rest, [path]: value }
  await expectRefused('/orders', body, path)
})

test.each([
  ['/orders/cancel', {}, 'order_id'],
  ['/orders/cancel', { order_id: '' }, 'order_id'],
  ['/orders/cancel', { order_id: null }, 'order_id'],
  ['/orders/cancel', { order_id: 5 }, 'order_id'],
  ['/orders/cancel', { order_id: 'x'.repeat(101) }, 'order_id'],
  ['/orders/cancel', { order_id: unknownOrder, force: true }, 'force'],
  ['/orders/refund', {}, 'order_id'],
  ['/orders/refund', { order_id: null }, 'order_id'],
  // A misspelt `amount` must not become a total refund.
  ['/orders/refund', { order_id: unknownOrder, ammount: '1,00' }, 'ammount'],
])('%s of %j is refused on its field', async (url, body, path) => {
  await expectRefused(url, body, path)
})

test.each(['/orders', '/orders/cancel', '/orders/refund'])(
  'an invalid body of %s is refused in the error shape, with the outcome',
  async (url) => {
    const send = (payload: string, type = 'application/json') =>
      service.app.inject({
        method: 'POST',
        url,
        headers: { 'x-api-token': till.key, 'content-type': type },
        payload,
      })
    for (const [payload, type, status, code] of [
      ['{"amount":', undefined, 400, 'BAD_REQUEST'],
      ['{"__proto__":{"amount":"1,00"}}', undefined, 400, 'BAD_REQUEST'],
      ['', undefined, 422, 'VALIDATION_ERROR'],
      ['[]', undefined, 422, 'VALIDATION_ERROR'],
      ['"text"', undefined, 422, 'VALIDATION_ERROR'],
      ['null', undefined, 422, 'VALIDATION_ERROR'],
      ['amount=1', 'application/x-www-form-urlencoded', 415, 'UNSUPPORTED_MEDIA_TYPE'],
      ['{}', 'text/plain', 415, 'UNSUPPORTED_MEDIA_TYPE'],
      [`{"a":"${'x'.repeat(262_144)}"}`, undefined, 413, 'PAYLOAD_TOO_LARGE'],
    ] as const) {
      const response = await send(payload, type)
      expect(response.statusCode, payload.slice(0, 40)).toBe(status)
      const outcome = outcomeAt(url)
      expect(response.json()).toMatchObject({ code, outcome, retry_safe: false })
    }
  },
)

test.each(['', ' ', 'has space', 'k'.repeat(129), 'ñ', 'a, b'])(
  'the Idempotency-Key %j is refused on both routes that accept one',
  async (key) => {
    for (const [url, body] of [
      ['/orders', order],
      ['/orders/refund', { order_id: unknownOrder }],
    ] as const) {
      const response = await post(url, body, { 'idempotency-key': key })
      expect(response.statusCode).toBe(422)
      expect(response.json().details[0].path).toBe('idempotency-key')
    }
  },
)

test('the edges of every limit are accepted', { tags: ['long'] }, async () => {
  const accepted: Record<string, unknown>[] = [
    { external_reference: 'r'.repeat(64) },
    { external_reference: 'x' },
    { external_reference: 'T-desc', description: 'd'.repeat(150) },
    { external_reference: 'T-ticket', ticket_number: 'n'.repeat(64) },
    { external_reference: 'T-1min', expiration_minutes: 1 },
    { external_reference: 'T-180min', expiration_minutes: 180 },
    { external_reference: 'T-one', amount: '0,01' },
    { external_reference: 'T-long', amount: '000000000007,5' },
    { external_reference: 'T-all', payment_method: 'all', print_ticket: false },
  ]
  for (const fields of accepted) {
    const response = await post('/orders', { ...order, ...fields })
    expect(response.statusCode, JSON.stringify(fields)).toBe(201)
    const { order_id } = response.json()
    expect((await post('/orders/cancel', { order_id })).statusCode).toBe(200)
  }
})

type Route = [method: 'GET' | 'POST', url: string, body?: object]
const clientRoutes: Route[] = [
  ['GET', '/orders'],
  ['GET', `/orders/${unknownOrder}`],
  ['POST', '/orders', { ...order, caja_id: 'NO-BOX' }],
  ['POST', '/orders/cancel', { order_id: unknownOrder }],
  ['POST', '/orders/refund', { order_id: unknownOrder }],
]
const adminRoutes: Route[] = [
  ['GET', '/admin/orders'],
  ['POST', `/admin/orders/${unknownOrder}/simulate`, { status: 'processed' }],
  ['POST', `/admin/orders/simulate/${unknownOrder}`, { status: 'processed' }],
  ['POST', `/admin/webhooks/${unknownOrder}/replay`],
]

test.each([...clientRoutes, ...adminRoutes])(
  '%s %s answers a missing, unknown or revoked key with the same 401',
  async (method, url, body) => {
    const other = await openKey('revoked')
    await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'revoked' } })
    const bodies = new Set<string>()
    for (const token of [undefined, '', 'mk_', `mk_${'0'.repeat(64)}`, other, `${adminToken}x`]) {
      const response = await call(service, {
        method,
        url,
        ...(body && { body }),
        headers: token === undefined ? {} : { 'x-api-token': token },
      })
      expect(response.statusCode).toBe(401)
      bodies.add(response.body.replace(/"request_id":"[^"]*",?/, ''))
    }
    expect([...bodies]).toHaveLength(1)
    expect(body401([...bodies])).toMatchObject({
      code: 'UNAUTHORIZED',
      ...(method === 'POST' && url.startsWith('/orders') && { outcome: 'unknown' }),
    })
  },
)

test.each(clientRoutes)(
  '%s %s accepts a client key for its own client only, and the admin token with one client',
  async (method, url, body) => {
    const send = (token: string, query: string) =>
      call(service, { method, url: `${url}${query}`, token, ...(body && { body }) })
    const named = await send(till.key, '?client=other')
    expect([named.statusCode, named.json().code]).toEqual([403, 'FORBIDDEN'])
    expect((await send(till.key, '?client=valid')).statusCode).not.toBe(403)

    for (const query of ['', '?client=', '?client=valid&client=other']) {
      const response = await send(adminToken, query)
      expect([response.statusCode, response.json().details?.[0].path]).toEqual([422, 'client'])
    }
    const unknown = await send(adminToken, '?client=nobody')
    expect([unknown.statusCode, unknown.json().code]).toEqual([404, 'NOT_FOUND'])
    expect((await send(adminToken, '?client=valid')).statusCode).not.toBe(422)
  },
)

test.each(adminRoutes)('%s %s refuses client keys', async (method, url, body) => {
  const response = await call(service, { method, url, token: till.key, ...(body && { body }) })
  expect([response.statusCode, response.json().code]).toEqual([403, 'FORBIDDEN'])
})

test('the administrator charges for a client that he names', async () => {
  const response = await asAdmin(service, {
    url: '/orders?client=valid',
    body: { ...order, external_reference: 'T-admin' },
  })
  expect(response.statusCode).toBe(201)
  expect(ordersAtProvider(service, till).map((made) => made.external_reference)).toContain(
    'T-admin',
  )
  await post('/orders/cancel', { order_id: response.json().order_id })
})

function body401(bodies: string[]): Record<string, unknown> {
  return JSON.parse((bodies[0] ?? '').replace(/,}$/, '}'))
}

/** A new key of a client that may exist already. */
async function openKey(client: string): Promise<string> {
  const known = await asAdmin(service, { url: `/admin/clients/${client}` })
  if (known.statusCode === 404) return (await enrol(service, client)).key
  return (await asAdmin(service, { url: '/api-keys', body: { client } })).json().key
}
