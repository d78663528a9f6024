import { createHash } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../sandbox/server.ts'

export const verifier = 'a-verifier-that-is-long-enough-for-the-rule-of-43'
export const challenge = createHash('sha256').update(verifier).digest('base64url')
export const redirectUri = 'http://127.0.0.1:3000/oauth/callback'

export type Answer = {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of unknown shape
  body: any
}

/** A clock that moves only by `advance`. */
export function createClock(start = '2026-11-20T14:00:00.000Z') {
  let now = Date.parse(start)
  return {
    now: () => new Date(now),
    advance: (ms: number) => {
      now += ms
    },
  }
}

export async function startTestSandbox(options: Partial<SandboxOptions> = {}) {
  return startSandbox({ port: 0, pace: { fetchMs: 0, eventMs: 0 }, ...options })
}

export async function call(
  sandbox: Sandbox,
  method: string,
  path: string,
  options: { token?: string; body?: unknown; key?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const { token, body, key } = options
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(sandbox.url + path, {
    method,
    redirect: 'manual',
    headers: {
      ...(method !== 'GET' && { 'content-type': 'application/json' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(key !== undefined && { 'x-idempotency-key': key }),
      ...options.headers,
    },
    ...(text !== undefined && { body: text }),
  })
  const answer = await response.text()
  let parsed: unknown = answer
  try {
    parsed = JSON.parse(answer)
  } catch {}
  return { status: response.status, headers: response.headers, body: parsed }
}

export function authorizationPath(sandbox: Sandbox, changes: Record<string, string | null> = {}) {
  const query = new URLSearchParams({
    client_id: sandbox.info.client_id,
    response_type: 'code',
    platform_id: 'mp',
    state: 'state-1',
    redirect_uri: redirectUri,
    code_challenge: challenge,
    code_challenge_method: 'S256',
  })
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name)
    else query.set(name, value)
  }
  return `/authorization?${query}`
}

/** An authorization code from the redirect. */
export async function approve(sandbox: Sandbox, user?: number): Promise<string> {
  const answer = await call(sandbox, 'GET', authorizationPath(sandbox), {
    headers: {
      'x-sandbox-consent': 'approve',
      ...(user !== undefined && { 'x-sandbox-user': String(user) }),
    },
  })
  return new URL(answer.headers.get('location') ?? '').searchParams.get('code') ?? ''
}

export async function token(sandbox: Sandbox, fields: Record<string, unknown>): Promise<Answer> {
  const { client_id, client_secret } = sandbox.info
  return call(sandbox, 'POST', '/oauth/token', { body: { client_id, client_secret, ...fields } })
}

export async function exchange(sandbox: Sandbox, code: string): Promise<Answer> {
  return token(sandbox, {
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectUri,
    code_verifier: verifier,
  })
}

export type Connection = { token: string; refreshToken: string; userId: number }

export async function connect(sandbox: Sandbox, user?: number): Promise<Connection> {
  const { body } = await exchange(sandbox, await approve(sandbox, user))
  return { token: body.access_token, refreshToken: body.refresh_token, userId: body.user_id }
}

export const location = {
  street_number: '1234',
  street_name: 'Av. Corrientes',
  city_name: 'Balvanera',
  state_name: 'Capital Federal',
  latitude: -34.6037,
  longitude: -58.3816,
}

export type Shop = Connection & { storeId: number; posId: number; terminalId: string }

/** A connected seller with one store, one box and one terminal in PDV. */
export async function openShop(sandbox: Sandbox, user?: number): Promise<Shop> {
  const connection = await connect(sandbox, user)
  const { token, userId } = connection
  const store = await call(sandbox, 'POST', `/users/${userId}/stores`, {
    token,
    body: { name: 'Sucursal Centro', external_id: `SUC${userId}`, location },
  })
  const pos = await call(sandbox, 'POST', '/v2/pos', {
    token,
    key: `pos-${userId}`,
    body: { name: 'Caja 1', store_id: String(store.body.id), external_id: `CAJA${userId}` },
  })
  const terminal = await call(sandbox, 'POST', '/_sandbox/terminals', {
    body: { pos_id: pos.body.id },
  })
  return {
    ...connection,
    storeId: store.body.id,
    posId: pos.body.id,
    terminalId: terminal.body.id,
  }
}

export function orderBody(shop: Shop, amount = '1234.50', reference = 'TCK-0001') {
  return {
    type: 'point',
    external_reference: reference,
    transactions: { payments: [{ amount }] },
    config: { point: { terminal_id: shop.terminalId, print_on_terminal: 'no_ticket' } },
  }
}

let keys = 0
export function newKey(): string {
  keys += 1
  return `key-${keys}`
}

export async function createOrder(sandbox: Sandbox, shop: Shop, amount?: string): Promise<Answer> {
  return call(sandbox, 'POST', '/v1/orders', {
    token: shop.token,
    key: newKey(),
    body: orderBody(shop, amount),
  })
}

export async function act(sandbox: Sandbox, id: string, body: object): Promise<Answer> {
  return call(sandbox, 'POST', `/_sandbox/orders/${id}/act`, { body })
}

export async function paidOrder(
  sandbox: Sandbox,
  shop: Shop,
  amount?: string,
  how: object = {},
): Promise<{ id: string; paymentId: string }> {
  const { body } = await createOrder(sandbox, shop, amount)
  const paid = await act(sandbox, body.id, { do: 'pay', ...how })
  if (paid.body.status !== 'processed') throw new Error(JSON.stringify(paid.body))
  return { id: body.id, paymentId: body.transactions.payments[0].id }
}

export async function getOrder(sandbox: Sandbox, shop: Connection, id: string): Promise<Answer> {
  return call(sandbox, 'GET', `/v1/orders/${id}`, { token: shop.token })
}

export async function refund(
  sandbox: Sandbox,
  shop: Connection,
  id: string,
  options: { body?: unknown; key?: string } = {},
): Promise<Answer> {
  return call(sandbox, 'POST', `/v1/orders/${id}/refund`, {
    token: shop.token,
    key: options.key ?? newKey(),
    ...(options.body !== undefined && { body: options.body }),
  })
}

// biome-ignore lint/suspicious/noExplicitAny: webhook bodies differ by topic
export type Received = { url: URL; headers: IncomingHttpHeaders; body: any }

/** A service that receives webhooks and answers with `answers`, then 200. */
export async function startReceiver(answers: number[] = []) {
  const received: Received[] = []
  const waiting: (() => void)[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => {
      const url = new URL(request.url ?? '/', 'http://receiver')
      received.push({ url, headers: request.headers, body: JSON.parse(text) })
      response.writeHead(answers.shift() ?? 200).end()
      for (const wake of waiting.splice(0)) wake()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    received,
    /** Resolves with the webhooks that fit once this many have arrived; fails after two seconds. */
    until: async (count: number, fits: (one: Received) => boolean = () => true) => {
      const giveUp = AbortSignal.timeout(2000)
      for (;;) {
        const found = received.filter(fits)
        if (found.length >= count) return found
        await new Promise<void>((resolve, reject) => {
          waiting.push(resolve)
          giveUp.addEventListener('abort', () => {
            reject(new Error(`${found.length} of ${count} webhooks arrived`))
          })
        })
      }
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
