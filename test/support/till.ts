import type { LightMyRequestResponse } from 'fastify'
import { seedShop, seedTill, storeLocation } from './seeded-shop.ts'
import { adminToken, type TestService } from './service.ts'

export type Call = {
  method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  url: string
  body?: unknown
  token?: string
  headers?: Record<string, string>
}

/** One request to the service; `token` is the x-api-token. */
export async function call(service: TestService, request: Call): Promise<LightMyRequestResponse> {
  return service.app.inject({
    method: request.method ?? (request.body === undefined ? 'GET' : 'POST'),
    url: request.url,
    headers: { ...(request.token && { 'x-api-token': request.token }), ...request.headers },
    ...(request.body !== undefined && { payload: request.body as object }),
  })
}

/** The same with the admin token. */
export function asAdmin(service: TestService, request: Call): Promise<LightMyRequestResponse> {
  return call(service, { ...request, token: adminToken })
}

/**
 * Connects a client by OAuth as its owner would, on an account of its own. With the administrator's token one whose account
 * was released may take another.
 */
export async function connect(
  service: TestService,
  client: string,
  account?: string,
  token?: string,
): Promise<LightMyRequestResponse> {
  const url = `/oauth/login?client=${encodeURIComponent(client)}`
  const login = await call(service, { url, ...(token !== undefined && { token }) })
  const consent = await fetch(String(login.headers.location), {
    redirect: 'manual',
    headers: {
      'x-sandbox-consent': 'approve',
      ...(account !== undefined && { 'x-sandbox-user': account }),
    },
  })
  const back = new URL(String(consent.headers.get('location')))
  return call(service, { url: `${back.pathname}${back.search}` })
}

export type Till = {
  client: string
  key: string
  mpUserId: number
}

/** A connected client with a key: its rows are written, and no request is made. */
export async function enrol(service: TestService, client: string, account?: string): Promise<Till> {
  return (
    (await seedTill(service, client, account)) ?? (await enrolThroughApi(service, client, account))
  )
}

/**
 * The same by the requests of its owner and the administrator. Services that give the provider a short time may need a second
 * try on a busy machine, as their users would.
 */
export async function enrolThroughApi(
  service: TestService,
  client: string,
  account?: string,
): Promise<Till> {
  const created = await untilStatus(201, async () => {
    await connect(service, client, account).catch(() => undefined)
    return asAdmin(service, { url: '/api-keys', body: { client } })
  })
  const { key, mp_user_id } = created.json()
  return { client, key, mpUserId: mp_user_id }
}

async function untilStatus(
  status: number,
  attempt: () => Promise<LightMyRequestResponse>,
): Promise<LightMyRequestResponse> {
  for (let tries = 1; ; tries += 1) {
    const response = await attempt()
    if (response.statusCode === status) return response
    if (tries === 5) throw new Error(`set-up failed: ${response.statusCode} ${response.body}`)
  }
}

/** The administrator moves a client to another account. Its keys end, and it gets a new one. */
export async function changeAccount(
  service: TestService,
  { client }: Till,
  account: string,
): Promise<Till> {
  const name = encodeURIComponent(client)
  await asAdmin(service, { method: 'POST', url: `/oauth/logout?client=${name}` })
  await asAdmin(service, { method: 'POST', url: `/admin/clients/${name}/unpin` })
  const connected = await connect(service, client, account, adminToken)
  if (connected.statusCode !== 200) throw new Error(`not connected: ${connected.body}`)
  const { key } = (await asAdmin(service, { url: '/api-keys', body: { client } })).json()
  return { client, key, mpUserId: Number(account) }
}

export const location = {
  street_name: storeLocation.streetName,
  street_number: storeLocation.streetNumber,
  city_name: storeLocation.cityName,
  state_name: storeLocation.stateName,
  latitude: storeLocation.latitude,
  longitude: storeLocation.longitude,
}

/** Creates a store with boxes. */
export async function createStore(
  service: TestService,
  till: Till,
  store: { id: string; boxes: string[] },
): Promise<LightMyRequestResponse> {
  return call(service, {
    url: '/stores',
    token: till.key,
    body: {
      name: `Sucursal ${store.id}`,
      external_id: store.id,
      location,
      pos: store.boxes.map((id) => ({ name: `Caja ${id}`, external_id: id })),
    },
  })
}

/** Calls the sandbox's control surface, without a socket. */
export async function sandboxCall(
  service: TestService,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
): Promise<unknown> {
  const { statusCode, payload: text } = await service.sandbox.inject({
    method,
    url: path,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { payload: JSON.stringify(body) }),
  })
  if (statusCode >= 400) throw new Error(`sandbox ${method} ${path}: ${statusCode} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

/** Pairs a new virtual terminal with a box; answers its id. */
export async function pairTerminal(
  service: TestService,
  till: Till,
  box: string,
  mode: 'PDV' | 'STANDALONE' | 'UNDEFINED' = 'PDV',
): Promise<string> {
  const row = await service.database.db
    .selectFrom('pos')
    .select('mp_pos_id')
    .where('external_id', '=', box)
    .where('client', '=', till.client as never)
    .executeTakeFirstOrThrow()
  const terminal = (await sandboxCall(service, 'POST', '/_sandbox/terminals', {
    pos_id: row.mp_pos_id,
    user_id: till.mpUserId,
    operating_mode: mode,
  })) as { id: string }
  return terminal.id
}

export type Shop = Till & { terminalId: string }

/** A client with a store `SUC-1`, a box `CAJA-1` in it and a terminal in PDV on the box: its rows are written. */
export async function openShop(
  service: TestService,
  client: string,
  account?: string,
): Promise<Shop> {
  return (
    (await seedShop(service, client, account)) ??
    (await openShopThroughApi(service, client, account))
  )
}

/** The same by the requests of its owner and the administrator: for tests of what these leave behind. */
export async function openShopThroughApi(
  service: TestService,
  client: string,
  account?: string,
): Promise<Shop> {
  const till = await enrolThroughApi(service, client, account)
  await untilStatus(201, () => createStore(service, till, { id: 'SUC-1', boxes: ['CAJA-1'] }))
  return { ...till, terminalId: await pairTerminal(service, till, 'CAJA-1') }
}

/** Charges `amount` (decimal comma) on a box. */
export async function charge(
  service: TestService,
  till: Till,
  order: { reference: string; amount?: string; box?: string; headers?: Record<string, string> },
): Promise<LightMyRequestResponse> {
  return call(service, {
    url: '/orders',
    token: till.key,
    headers: order.headers ?? {},
    body: {
      caja_id: order.box ?? 'CAJA-1',
      external_reference: order.reference,
      amount: order.amount ?? '1234,50',
    },
  })
}

/** The buyer does something at the terminal; `orderId` is ours. */
export async function act(
  service: TestService,
  orderId: string,
  action: Record<string, unknown>,
): Promise<void> {
  const row = await service.database.db
    .selectFrom('orders')
    .select('mp_order_id')
    .where('id', '=', orderId)
    .executeTakeFirstOrThrow()
  await sandboxCall(service, 'POST', `/_sandbox/orders/${row.mp_order_id}/act`, action)
}

export const payByCard = {
  do: 'pay',
  payment_method_type: 'credit_card',
  payment_method_id: 'visa',
  installments: 1,
}

export async function readOrder(
  service: TestService,
  till: Till,
  orderId: string,
): Promise<LightMyRequestResponse> {
  return call(service, { url: `/orders/${orderId}`, token: till.key })
}
