import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Sandbox, startSandbox } from '../../sandbox/server.ts'
import {
  createProvider,
  type NewProviderOrder,
  type Provider,
  type TokenGrant,
} from '../../src/provider/provider.ts'
import { verifySignature } from '../../src/provider/webhook-signature.ts'
import { providerFailure, sale } from './provider-setup.ts'

type Delivery = { url: URL; headers: IncomingMessage['headers'] }

const waitOptions = { timeout: 10_000, interval: 20 }
const deliveries: Delivery[] = []
const receiver = createServer((request, response) => {
  deliveries.push({ url: new URL(request.url ?? '', 'http://x'), headers: request.headers })
  request.resume().on('end', () => response.end('{}'))
})

let sandbox: Sandbox

beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const { port } = receiver.address() as AddressInfo
  sandbox = await startSandbox({
    port: 0,
    pace: { fetchMs: 0, eventMs: 0 },
    webhookUrl: `http://127.0.0.1:${port}/webhooks`,
  })
})

afterAll(async () => {
  await sandbox.close()
  receiver.closeAllConnections()
  receiver.close()
})

async function control(method: string, path: string, body?: unknown): Promise<void> {
  const answer = await fetch(`${sandbox.url}/_sandbox/${path}`, {
    method,
    ...(body !== undefined && {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
}

function searchOf({ externalReference }: NewProviderOrder) {
  const hourMs = 3600_000
  const from = new Date(Date.now() - hourMs)
  return { externalReference, from, to: new Date(Date.now() + hourMs) }
}

const redirectUri = 'http://127.0.0.1:9/oauth/callback'

async function connect(provider: Provider): Promise<TokenGrant> {
  const codeVerifier = randomBytes(32).toString('base64url')
  const codeChallenge = createHash('sha256').update(codeVerifier).digest('base64url')
  const address = provider.oauth.authorizationUrl({ state: 'state-1', codeChallenge, redirectUri })
  const consent = await fetch(address, {
    redirect: 'manual',
    headers: { 'x-sandbox-consent': 'approve' },
  })
  const back = new URL(consent.headers.get('location') ?? '')
  expect(back.searchParams.get('state')).toBe('state-1')
  const code = back.searchParams.get('code') ?? ''
  const wrong = provider.oauth.exchangeCode({ code, codeVerifier: 'w'.repeat(43), redirectUri })
  expect(await providerFailure(wrong)).toMatchObject({ kind: 'refused', effect: 'none' })
  return provider.oauth.exchangeCode({ code, codeVerifier, redirectUri })
}

describe.each(['v1', 'v2'] as const)('a shop with POS API %s', (posApi) => {
  let provider: Provider
  let token: string
  let userId: number
  let terminalId: string
  let runs = 0

  beforeAll(async () => {
    provider = createProvider({
      apiUrl: sandbox.url,
      authUrl: sandbox.url,
      clientId: sandbox.info.client_id,
      clientSecret: sandbox.info.client_secret,
      timeoutMs: 2_000,
      posApi,
      sleep: () => Promise.resolve(),
    })
    token = (await connect(provider)).accessToken
    userId = (await provider.users.me(token)).id
    const { mpPosId } = await openBox('SALES')
    await control('POST', 'terminals', { pos_id: mpPosId, operating_mode: 'PDV' })
    const { terminals } = await provider.terminals.list(token, { mpPosId })
    terminalId = terminals[0]?.id ?? ''
  })

  afterAll(() => provider.close())

  const newStore = (name: string) => ({
    name: 'Sucursal Centro',
    externalId: `SUC${posApi}${name}`,
    location: {
      streetName: 'Av. Corrientes',
      streetNumber: '1234',
      cityName: 'Balvanera',
      stateName: 'Capital Federal',
      latitude: -34.6037,
      longitude: -58.3816,
      reference: 'Planta baja',
    },
  })

  /** A store with one box, whose ids end with `name`. */
  async function openBox(name: string) {
    const store = newStore(name)
    const { mpStoreId } = await provider.stores.create(token, userId, store)
    const newPos = {
      name: 'Caja N° 1',
      externalId: `CAJA${posApi}${name}`,
      mpStoreId,
      mpExternalStoreId: store.externalId,
    }
    const { mpPosId } = await provider.pos.create(token, `pos-${posApi}-${name}`, newPos)
    return { store, newPos, mpStoreId, mpPosId }
  }

  function newSale(change: Partial<NewProviderOrder> = {}): [string, NewProviderOrder] {
    runs += 1
    const externalReference = `TCK-${posApi}-${runs}`
    return [`key-${posApi}-${runs}`, { ...sale, externalReference, terminalId, ...change }]
  }

  async function act(mpOrderId: string, body: object): Promise<void> {
    await control('POST', `orders/${mpOrderId}/act`, body)
  }

  test('connects with PKCE, refreshes once per token and reads its account', async () => {
    const first = await connect(provider)
    expect(first).toMatchObject({ mpUserId: expect.any(Number), expiresInSeconds: 15552000 })
    const grant = await provider.oauth.refresh(first.refreshToken ?? '')
    const again = await providerFailure(provider.oauth.refresh(first.refreshToken ?? ''))
    expect(again).toMatchObject({ kind: 'refused', providerCode: 'invalid_grant' })
    const user = await provider.users.me(grant.accessToken)
    expect(user).toMatchObject({ id: first.mpUserId, siteId: 'MLA', isTestUser: true })
    const unknownToken = await providerFailure(provider.users.me('APP_USR-unknown'))
    expect(unknownToken).toMatchObject({ kind: 'unauthorized', status: 401 })
  })

  test('creates a store and a box and finds both', async () => {
    const { store, newPos, mpStoreId, mpPosId } = await openBox('FOUND')
    expect(await provider.stores.findByExternalId(token, userId, store.externalId)).toMatchObject({
      mpStoreId,
    })
    expect(await provider.stores.findByExternalId(token, userId, 'OTHER')).toBeUndefined()
    const twice = await providerFailure(provider.stores.create(token, userId, store))
    expect(twice).toMatchObject({ kind: 'refused', status: 400 })

    const found = await provider.pos.findByExternalId(token, newPos.externalId)
    expect(found).toEqual({ mpPosId, mpStoreId })
    const other = provider.pos.create(token, `pos-${posApi}-again`, newPos)
    expect(await providerFailure(other)).toMatchObject({
      status: 409,
      providerCode: posApi === 'v1' ? 'point_of_sale_exists' : 'pos_already_exists',
    })
  })

  test('lists the terminal of the box and sets its mode', async () => {
    const { newPos, mpStoreId, mpPosId } = await openBox('MODES')
    await control('POST', 'terminals', { pos_id: mpPosId, operating_mode: 'STANDALONE' })
    const before = await provider.terminals.list(token, { mpPosId, limit: 50, offset: 0 })
    expect(before).toMatchObject({
      total: 1,
      terminals: [
        { mpPosId, mpStoreId, externalPosId: newPos.externalId, operatingMode: 'STANDALONE' },
      ],
    })
    const first = before.terminals[0]?.id ?? ''
    await provider.terminals.setMode(token, first, 'PDV')
    const after = await provider.terminals.list(token, { mpPosId })
    expect(after.terminals[0]).toMatchObject({ operatingMode: 'PDV', providerMode: 'PDV' })

    await control('POST', 'terminals', { pos_id: mpPosId, operating_mode: 'STANDALONE' })
    const both = await provider.terminals.list(token, { mpPosId })
    const second = both.terminals.find(({ id }) => id !== first)?.id ?? ''
    expect(await providerFailure(provider.terminals.setMode(token, second, 'PDV'))).toMatchObject({
      status: 412,
      effect: 'none',
    })
  })

  test('charges, and create, read and search give the same evidence', async () => {
    const [key, order] = newSale()
    const created = await provider.orders.create(token, key, order)
    expect(created).toMatchObject({
      status: 'created',
      externalReference: order.externalReference,
      terminalId,
      mpUserId: String(userId),
      amountCents: 123_450,
      paidCents: 0,
    })
    expect(await provider.orders.get(token, created.mpOrderId)).toEqual(created)
    expect(await provider.orders.create(token, key, order)).toEqual(created)
    const { orders: found } = await provider.orders.search(token, searchOf(order))
    expect(found).toMatchObject([{ evidence: created, isOurs: true, isPoint: true }])

    const [otherKey, otherSale] = newSale()
    const busy = await providerFailure(provider.orders.create(token, otherKey, otherSale))
    expect(busy).toMatchObject({
      kind: 'refused',
      effect: 'none',
      providerCode: 'already_queued_order_on_terminal',
    })
    const changed = provider.orders.create(token, key, { ...order, amountCents: 1 })
    expect(await providerFailure(changed)).toMatchObject({
      effect: 'unknown',
      providerCode: 'idempotency_key_already_used',
    })

    await act(created.mpOrderId, { do: 'fetch' })
    // The terminal may still charge an order whose cancel was only requested.
    expect(await provider.orders.cancel(token, created.mpOrderId, `${key}-cancel`)).toMatchObject({
      status: 'at_terminal',
      statusDetail: 'cancellation_requested',
    })
    await act(created.mpOrderId, { do: 'pay', payment_method_type: 'credit_card' })
    const paid = await provider.orders.get(token, created.mpOrderId)
    expect(paid).toMatchObject({
      status: 'processed',
      paidCents: 123_450,
      refundedCents: 0,
      payments: [{ status: 'approved', methodType: 'credit_card', amountCents: 123_450 }],
    })

    const partial = { paymentId: paid.payments[0]?.id ?? '', amountCents: 23_450 }
    const part = await provider.orders.refund(token, paid.mpOrderId, `${key}-r1`, partial)
    expect(part).toMatchObject({
      mpOrderId: paid.mpOrderId,
      status: 'partially_refunded',
      refunds: [{ amountCents: 23_450 }],
    })
    expect(await provider.orders.get(token, paid.mpOrderId)).toMatchObject({
      status: 'partially_refunded',
      refundedCents: 23_450,
    })
    const tooMuch = provider.orders.refund(token, paid.mpOrderId, `${key}-r2`, {
      ...partial,
      amountCents: 123_450,
    })
    expect(await providerFailure(tooMuch)).toMatchObject({ providerCode: 'refund_amount_exceeds' })
    const rest = await provider.orders.refund(token, paid.mpOrderId, `${key}-r3`, null)
    expect(rest.status).toBe('refunded')
    expect(await provider.orders.get(token, paid.mpOrderId)).toMatchObject({
      status: 'refunded',
      paidCents: 123_450,
      refundedCents: 123_450,
    })
  })

  test('cancels a waiting order, and the answer equals a read', async () => {
    const [key, order] = newSale({ description: null, ticketNumber: null, printTicket: false })
    const { mpOrderId } = await provider.orders.create(token, key, order)
    const canceled = await provider.orders.cancel(token, mpOrderId, `${key}-cancel`)
    expect(canceled).toMatchObject({ status: 'canceled', paidCents: 0 })
    expect(await provider.orders.get(token, mpOrderId)).toEqual(canceled)
    const again = provider.orders.cancel(token, mpOrderId, `${key}-again`)
    expect(await providerFailure(again)).toMatchObject({ providerCode: 'order_already_canceled' })
  })

  test('a simulated decline ends as failed', async () => {
    const [key, order] = newSale()
    const { mpOrderId } = await provider.orders.create(token, key, order)
    await provider.orders.simulate(token, mpOrderId, {
      status: 'failed',
      paymentMethodType: 'credit_card',
      statusDetail: 'insufficient_amount',
    })
    const failed = await vi.waitUntil(async () => {
      const evidence = await provider.orders.get(token, mpOrderId)
      return evidence.status === 'failed' ? evidence : undefined
    }, waitOptions)
    expect(failed).toMatchObject({
      paidCents: 0,
      payments: [{ status: 'rejected', statusDetail: 'insufficient_amount' }],
    })
  })

  test('finds an order whose answer was lost by its key, and charges once', async () => {
    for (const kind of ['drop_after', 'torn_body', 'reset', '503']) {
      const [key, order] = newSale()
      await control('PUT', 'faults', [{ path: '/v1/orders', method: 'POST', kind, count: 1 }])
      const { mpOrderId } = await provider.orders.create(token, key, order)
      await control('DELETE', 'faults')
      const { orders } = await provider.orders.search(token, searchOf(order))
      expect(orders.map(({ evidence }) => evidence.mpOrderId)).toEqual([mpOrderId])
      await provider.orders.cancel(token, mpOrderId, `${key}-cancel`)
    }
  })

  test('leaves the effect unknown when no answer comes, although the order exists', async () => {
    const shortTimeout = createProvider({
      apiUrl: sandbox.url,
      authUrl: sandbox.url,
      clientId: sandbox.info.client_id,
      clientSecret: sandbox.info.client_secret,
      timeoutMs: 150,
      posApi,
    })
    const [key, order] = newSale()
    await control('PUT', 'faults', [{ path: '/v1/orders', kind: 'hang_after', count: 1 }])
    const lost = shortTimeout.orders.create(token, key, order, { maxAttempts: 1 })
    expect(await providerFailure(lost)).toMatchObject({ kind: 'ambiguous', effect: 'unknown' })
    await control('DELETE', 'faults')
    const { mpOrderId, status } = await provider.orders.create(token, key, order)
    expect(status).toBe('created')
    await provider.orders.cancel(token, mpOrderId, `${key}-cancel`)
    await shortTimeout.close()
  })

  test('receives webhooks with valid signatures', async () => {
    const [key, order] = newSale()
    const { mpOrderId } = await provider.orders.create(token, key, order)
    await provider.orders.cancel(token, mpOrderId, `${key}-cancel`)
    const isOrder = ({ url }: Delivery) => url.searchParams.get('type') === 'order'
    await vi.waitUntil(() => deliveries.some(isOrder), waitOptions)
    for (const { url, headers } of deliveries.filter(isOrder)) {
      const input = {
        xSignature: headers['x-signature'],
        xRequestId: headers['x-request-id'],
        dataId: url.searchParams.get('data.id') ?? undefined,
        now: new Date(),
      }
      const secrets = sandbox.info.webhook_secrets
      const verification = verifySignature({ ...input, secrets: ['retired', ...secrets] })
      expect(verification).toMatchObject({ valid: true, form: 'lower' })
      expect(verifySignature({ ...input, secrets: ['retired'] }).valid).toBe(false)
    }
  })

  test('deletes a box and a store, and a repeated deletion succeeds', async () => {
    const { store, newPos, mpStoreId, mpPosId } = await openBox('DELETED')
    await provider.pos.delete(token, mpPosId)
    await provider.pos.delete(token, mpPosId)
    expect(await provider.pos.findByExternalId(token, newPos.externalId)).toBeUndefined()
    await provider.stores.delete(token, userId, mpStoreId)
    await provider.stores.delete(token, userId, mpStoreId)
    const found = await provider.stores.findByExternalId(token, userId, store.externalId)
    expect(found).toBeUndefined()
  })
})
