import { expect, test } from 'vitest'
import type { Provider } from '../../src/provider/provider.ts'
import { answer, type Seen, startServer } from '../outbound/raw-server.ts'
import { orderId, paymentId, providerAt, sale } from './provider-setup.ts'

const order = { id: orderId, status: 'created' }
const grant = { access_token: 'A', expires_in: 60 }
const location = {
  streetName: 'Av. Corrientes',
  streetNumber: '1234',
  cityName: 'Balvanera',
  stateName: 'Capital Federal',
  latitude: -34.6037,
  longitude: -58.3816,
  reference: 'Planta baja',
}
const store = { name: 'Sucursal Centro', externalId: 'SUC001', location }
const box = {
  name: 'Caja N° 1 — "Niños"',
  externalId: 'SUC001POS001',
  mpStoreId: '87482378',
  mpExternalStoreId: 'SUC001',
}

/** The request of one call: `headers` without those of every request. */
async function requestOf(
  use: (provider: Provider) => Promise<unknown>,
  reply: unknown,
  posApi: 'v1' | 'v2' = 'v2',
): Promise<{ line: string; headers: Record<string, unknown>; body: unknown }> {
  await using server = await startServer(answer(200, reply))
  await use(providerAt(server.url, { posApi }).provider)
  expect(server.seen).toHaveLength(1)
  const { method, url, headers, body } = server.seen[0] as Seen
  const {
    host,
    connection,
    accept,
    'user-agent': agent,
    'content-length': length,
    ...own
  } = headers
  expect([accept, agent]).toEqual(['application/json', 'tillbridge'])
  return { line: `${method} ${url}`, headers: own, body: body === '' ? null : JSON.parse(body) }
}

const json = { 'content-type': 'application/json' }
const bearer = { authorization: 'Bearer token-1' }
const key = { 'x-idempotency-key': 'key-1' }

test('create sends every given field and nothing else', async () => {
  expect(await requestOf((p) => p.orders.create('token-1', 'key-1', sale), order)).toEqual({
    line: 'POST /v1/orders',
    headers: { ...json, ...bearer, ...key },
    body: {
      type: 'point',
      external_reference: 'TCK-0001-00004711',
      expiration_time: 'PT16M',
      transactions: { payments: [{ amount: '1234.50' }] },
      config: {
        point: {
          terminal_id: 'NEWLAND_N950__SBX0000001',
          print_on_terminal: 'seller_ticket',
          ticket_number: 'B-0001-00004711',
        },
        payment_method: { default_type: 'credit_card' },
      },
      description: 'Venta mostrador',
    },
  })
})

test('create omits fields that are not given, and always sets printing', async () => {
  const bare = {
    ...sale,
    amountCents: 100,
    description: null,
    ticketNumber: null,
    printTicket: false,
    paymentMethod: 'all' as const,
    expirationMinutes: 180,
  }
  const sent = await requestOf((p) => p.orders.create('token-1', 'key-1', bare), order)
  expect(sent.body).toEqual({
    type: 'point',
    external_reference: 'TCK-0001-00004711',
    expiration_time: 'PT180M',
    transactions: { payments: [{ amount: '1.00' }] },
    config: {
      point: { terminal_id: 'NEWLAND_N950__SBX0000001', print_on_terminal: 'no_ticket' },
    },
  })
})

test('cancel and total refund send their key and no body; only the cancel allows orders at the terminal', async () => {
  expect(await requestOf((p) => p.orders.cancel('token-1', orderId, 'key-1'), order)).toEqual({
    line: `POST /v1/orders/${orderId}/cancel`,
    headers: { ...json, ...bearer, ...key, 'x-allow-cancelable-status': 'at_terminal' },
    body: null,
  })
  expect(await requestOf((p) => p.orders.refund('token-1', orderId, 'key-1', null), order)).toEqual(
    {
      line: `POST /v1/orders/${orderId}/refund`,
      headers: { ...json, ...bearer, ...key },
      body: null,
    },
  )
})

test('a partial refund names the payment and the amount', async () => {
  const partial = { paymentId, amountCents: 23_405 }
  expect(
    await requestOf((p) => p.orders.refund('token-1', orderId, 'key-1', partial), order),
  ).toEqual({
    line: `POST /v1/orders/${orderId}/refund`,
    headers: { ...json, ...bearer, ...key },
    body: { transactions: [{ id: paymentId, amount: '234.05' }] },
  })
})

test('an order is read without key and body', async () => {
  expect(await requestOf((p) => p.orders.get('token-1', orderId), order)).toEqual({
    line: `GET /v1/orders/${orderId}`,
    headers: bearer,
    body: null,
  })
})

test('an id is encoded in the path', async () => {
  const hostileId = '../users/me?x=1#'
  const sent = await requestOf((p) => p.orders.get('token-1', hostileId), {
    ...order,
    id: hostileId,
  })
  expect(sent.line).toBe('GET /v1/orders/..%2Fusers%2Fme%3Fx%3D1%23')
})

test('a simulated event sends only given fields and no key', async () => {
  const full = {
    status: 'failed',
    paymentMethodType: 'credit_card',
    installments: 3,
    paymentMethodId: 'visa',
    statusDetail: 'insufficient_amount',
  } as const
  expect(await requestOf((p) => p.orders.simulate('token-1', orderId, full), null)).toEqual({
    line: `POST /v1/orders/${orderId}/events`,
    headers: { ...json, ...bearer },
    body: {
      status: 'failed',
      payment_method_type: 'credit_card',
      installments: 3,
      payment_method_id: 'visa',
      status_detail: 'insufficient_amount',
    },
  })
  const bare = { status: 'expired', installments: null, statusDetail: null } as const
  const sent = await requestOf((p) => p.orders.simulate('token-1', orderId, bare), null)
  expect(sent.body).toEqual({ status: 'expired' })
})

test('a search of orders sends the reference and both dates', async () => {
  const dates = { from: new Date('2026-11-01T00:00:00Z'), to: new Date('2026-11-20T00:00:00Z') }
  const named = await requestOf(
    (p) => p.orders.search('token-1', { externalReference: 'TCK-1', ...dates }),
    { data: [] },
  )
  const query = new URL(named.line.slice(4), 'http://x').searchParams
  expect(Object.fromEntries(query)).toEqual({
    begin_date: '2026-11-01T00:00:00.000Z',
    end_date: '2026-11-20T00:00:00.000Z',
    external_reference: 'TCK-1',
    type: 'point',
    page_size: '100',
  })
})

test('token requests have their parameters in the body only, and no bearer', async () => {
  const exchange = await requestOf(
    (p) =>
      p.oauth.exchangeCode({
        code: 'TG-1',
        codeVerifier: 'v'.repeat(43),
        redirectUri: 'https://x/cb',
      }),
    grant,
  )
  expect(exchange).toEqual({
    line: 'POST /oauth/token',
    headers: json,
    body: {
      client_id: '7654321098765432',
      client_secret: 'app-secret-value',
      grant_type: 'authorization_code',
      code: 'TG-1',
      redirect_uri: 'https://x/cb',
      code_verifier: 'v'.repeat(43),
    },
  })
  const refresh = await requestOf((p) => p.oauth.refresh('TG-2'), grant)
  expect(refresh.line).toBe('POST /oauth/token')
  expect(refresh.body).toEqual({
    client_id: '7654321098765432',
    client_secret: 'app-secret-value',
    grant_type: 'refresh_token',
    refresh_token: 'TG-2',
  })
})

test('the authorization address has the state and the S256 challenge', () => {
  const { provider } = providerAt('http://127.0.0.1:1', { authUrl: 'https://auth.example.com/' })
  const url = new URL(
    provider.oauth.authorizationUrl({
      state: 'st ate&1',
      codeChallenge: 'abc-_1',
      redirectUri: 'https://shop.example.com/oauth/callback',
    }),
  )
  expect(url.origin + url.pathname).toBe('https://auth.example.com/authorization')
  expect(Object.fromEntries(url.searchParams)).toEqual({
    client_id: '7654321098765432',
    response_type: 'code',
    platform_id: 'mp',
    state: 'st ate&1',
    redirect_uri: 'https://shop.example.com/oauth/callback',
    code_challenge: 'abc-_1',
    code_challenge_method: 'S256',
  })
})

test('a store is created, found and deleted under its user', async () => {
  expect(
    await requestOf((p) => p.stores.create('token-1', 2025701502, store), { id: 87482378 }),
  ).toEqual({
    line: 'POST /users/2025701502/stores',
    headers: { ...json, ...bearer },
    body: {
      name: 'Sucursal Centro',
      external_id: 'SUC001',
      location: {
        street_name: 'Av. Corrientes',
        street_number: '1234',
        city_name: 'Balvanera',
        state_name: 'Capital Federal',
        latitude: -34.6037,
        longitude: -58.3816,
        reference: 'Planta baja',
      },
    },
  })
  const bare = await requestOf(
    (p) => p.stores.create('token-1', 1, { ...store, location: { ...location, reference: null } }),
    { id: 1 },
  )
  expect((bare.body as { location: object }).location).not.toHaveProperty('reference')
  const found = await requestOf((p) => p.stores.findByExternalId('token-1', '9', 'SUC001'), {
    results: [],
  })
  expect(found).toEqual({
    line: 'GET /users/9/stores/search?external_id=SUC001',
    headers: bearer,
    body: null,
  })
  const deletion = await requestOf((p) => p.stores.delete('token-1', 9, '87482378'), {
    store: 87482378,
  })
  expect(deletion).toEqual({ line: 'DELETE /users/9/stores/87482378', headers: bearer, body: null })
})

test('POS v2 sends a key, a string id and a reduced name', async () => {
  const made = { id: 1 }
  expect(await requestOf((p) => p.pos.create('token-1', 'key-1', box), made)).toEqual({
    line: 'POST /v2/pos',
    headers: { ...json, ...bearer, ...key },
    body: { name: 'Caja N 1 Ninos', external_id: 'SUC001POS001', store_id: '87482378' },
  })
  const unnamed = await requestOf(
    (p) => p.pos.create('token-1', 'key-1', { ...box, name: '¡¿!' }),
    made,
  )
  expect(unnamed.body).toMatchObject({ name: 'SUC001POS001' })
  const list = await requestOf((p) => p.pos.findByExternalId('token-1', 'B1'), { results: [] })
  expect(list.line).toBe('GET /v2/pos?external_id=B1')
  expect((await requestOf((p) => p.pos.delete('token-1', '138301467'), null)).line).toBe(
    'DELETE /v2/pos/138301467',
  )
})

test('POS v1 sends a fixed amount and no key', async () => {
  const made = { id: 1 }
  expect(await requestOf((p) => p.pos.create('token-1', 'key-1', box), made, 'v1')).toEqual({
    line: 'POST /pos',
    headers: { ...json, ...bearer },
    body: {
      name: 'Caja N° 1 — "Niños"',
      external_id: 'SUC001POS001',
      store_id: '87482378',
      external_store_id: 'SUC001',
      fixed_amount: true,
    },
  })
  const bare = { ...box, mpExternalStoreId: null }
  const sent = await requestOf((p) => p.pos.create('token-1', 'key-1', bare), made, 'v1')
  expect(sent.body).not.toHaveProperty('external_store_id')
  const list = await requestOf(
    (p) => p.pos.findByExternalId('token-1', 'B1'),
    { results: [] },
    'v1',
  )
  expect(list.line).toBe('GET /pos?external_id=B1')
  expect((await requestOf((p) => p.pos.delete('token-1', '5'), null, 'v1')).line).toBe(
    'DELETE /pos/5',
  )
})

test('terminals are listed by the given filters only, and their mode is set one at a time', async () => {
  const empty = { data: { terminals: [] }, paging: { total: 0, offset: 0, limit: 50 } }
  const all = await requestOf((p) => p.terminals.list('token-1', {}), empty)
  expect(all).toEqual({ line: 'GET /terminals/v1/list', headers: bearer, body: null })
  const some = await requestOf(
    (p) => p.terminals.list('token-1', { mpPosId: '7', mpStoreId: '8', limit: 50, offset: 0 }),
    empty,
  )
  expect(some.line).toBe('GET /terminals/v1/list?limit=50&offset=0&store_id=8&pos_id=7')
  const set = await requestOf((p) => p.terminals.setMode('token-1', 'PAX_A910__1', 'PDV'), {})
  expect(set).toEqual({
    line: 'PATCH /terminals/v1/setup',
    headers: { ...json, ...bearer },
    body: { terminals: [{ id: 'PAX_A910__1', operating_mode: 'PDV' }] },
  })
})

test('the own user is read with the bearer', async () => {
  const me = await requestOf((p) => p.users.me('token-1'), { id: 5 })
  expect(me).toEqual({ line: 'GET /users/me', headers: bearer, body: null })
})
