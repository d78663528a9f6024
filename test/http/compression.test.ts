import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openStream } from '../support/event-stream.ts'
import { deliver, openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, type Till } from '../support/till.ts'

/** Long answers are sent compressed to who takes it, and nothing that holds a secret ever is. */
let service: TestService
let shop: Till
beforeAll(async () => {
  service = await startTestService()
  shop = await openOwnShop(service, 'acme')
  await createStore(service, shop, {
    id: 'SUC-2',
    boxes: Array.from({ length: 12 }, (_, index) => `B-${index}`),
  })
})
afterAll(() => service.stop())

const stores = (accepted?: string) =>
  call(service, {
    url: '/stores',
    token: shop.key,
    ...(accepted !== undefined && { headers: { 'accept-encoding': accepted } }),
  })

test.each([
  ['br', 'br', brotliDecompressSync],
  ['gzip', 'gzip', gunzipSync],
  ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
  ['br;q=0, gzip', 'gzip', gunzipSync],
])(
  'a client that accepts %s gets %s with its length, and the same content as the others',
  async (accepted, encoding, unpack) => {
    const plain = await stores()
    const packed = await stores(accepted)
    expect(packed.headers).toMatchObject({
      'content-encoding': encoding,
      'content-type': plain.headers['content-type'],
      'cache-control': 'no-store',
      vary: expect.stringContaining('accept-encoding'),
    })
    expect(Number(packed.headers['content-length'])).toBe(packed.rawPayload.length)
    expect(packed.rawPayload.length).toBeLessThan(plain.rawPayload.length / 2)
    expect(unpack(packed.rawPayload).toString()).toBe(plain.body)
  },
)

test.each([undefined, '', 'identity', 'deflate', 'br;q=0, gzip;q=0'])(
  'a client that accepts %s gets it uncompressed',
  async (accepted) => {
    const answer = await stores(accepted)
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-encoding']).toBeUndefined()
    expect(answer.json().stores).toHaveLength(2)
  },
)

test('an answer too long to be compressed at once comes whole, piece by piece', {
  tags: ['long'],
}, async () => {
  const plain = await call(service, { url: '/openapi.json' })
  expect(plain.rawPayload.length).toBeGreaterThan(100_000)
  const packed = await call(service, {
    url: '/openapi.json',
    headers: { 'accept-encoding': 'br' },
  })
  expect(packed.headers['content-encoding']).toBe('br')
  expect(packed.headers['content-length']).toBeUndefined()
  expect(brotliDecompressSync(packed.rawPayload).toString()).toBe(plain.body)
})

test('a short answer and an error are not compressed', async () => {
  for (const [url, status] of [
    ['/orders', 200],
    ['/orders?limit=x', 422],
  ] as const) {
    const headers = { 'accept-encoding': 'br' }
    const answer = await call(service, { url, token: shop.key, headers })
    expect([answer.statusCode, answer.headers['content-encoding']]).toEqual([status, undefined])
  }
})

test('an answer with tokens, and one to a write, is never compressed, however long', async () => {
  const long = 'x'.repeat(15_000)
  await sql`update oauth_connections set public_key = ${long}`.execute(service.database.db)
  await deliver(service, { dataId: '1', body: { type: 'payment', note: long } })
  const { logs } = (await asAdmin(service, { url: '/admin/webhooks/logs' })).json()
  for (const request of [
    { url: '/admin/clients/acme' },
    { url: `/admin/webhooks/${logs[0].id}/replay`, method: 'POST' as const },
  ]) {
    const answer = await asAdmin(service, {
      ...request,
      headers: { 'accept-encoding': 'br, gzip' },
    })
    expect([answer.statusCode, answer.headers['content-encoding']]).toEqual([200, undefined])
    expect(answer.rawPayload.length).toBeGreaterThan(15_000)
  }
})

test('compression does not delay a stream of events', async () => {
  const stream = await openStream(service.app, '/events', {
    'x-api-token': adminToken,
    'accept-encoding': 'gzip, br',
  })
  expect(stream.response.headers.get('content-encoding')).toBeNull()
  expect(await stream.next()).toMatchObject({ event: 'resync' })
  stream.disconnect()
})

test('a compressed body is refused, since a small one could contain a large one', async () => {
  const answer = await service.app.inject({
    method: 'POST',
    url: '/orders',
    headers: {
      'x-api-token': shop.key,
      'content-type': 'application/json',
      'content-encoding': 'gzip',
    },
    payload: Buffer.from('1f8b0800000000000003ab56ca4e55b2520200', 'hex'),
  })
  expect([answer.statusCode, answer.json().code]).toEqual([400, 'BAD_REQUEST'])
})
