import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'

const syncToken = 'sync-token-for-tests-0123456789abcdef'
let service: TestService
let open: TestFlows
let guarded: TestFlows
let unguarded: TestFlows

beforeAll(async () => {
  service = await startTestService()
  // An answer is read to its end here.
  open = await startTestFlows({ service, streams: { longestMs: 1 } })
  guarded = await startTestFlows({
    service,
    env: { SYNC_TOKEN: syncToken, AUTH_FAILURES_PER_MINUTE: '100000' },
  })
  unguarded = await startTestFlows({ service, env: { SYNC_TOKEN: syncToken, SYNC_AUTH: 'none' } })
})
afterAll(async () => {
  for (const flows of [open, guarded, unguarded]) await flows.stop()
  await service.stop()
})

const paths = [
  '/stats',
  '/metrics',
  '/errors',
  '/flows/status',
  '/flows',
  '/flows/activity',
  '/flows/events',
]

test.each(paths)('without SYNC_TOKEN a local caller may read %s', async (path) => {
  expect((await open.call('GET', path)).statusCode).toBe(200)
})

test.each([
  ['a foreign Host', { host: 'evil.example' }],
  ['a rebound Host', { host: '127.0.0.1.evil.example' }],
  ['a foreign Origin', { origin: 'https://evil.example' }],
  ['the Origin null', { origin: 'null' }],
  ['another local port', { origin: 'http://127.0.0.1:3000' }],
  ['a cross-site fetch', { 'sec-fetch-site': 'cross-site' }],
  ['a same-site fetch', { 'sec-fetch-site': 'same-site' }],
])('without SYNC_TOKEN %s is refused, reading and writing', async (_, headers) => {
  for (const [method, path] of [
    ['GET', '/stats'],
    ['POST', '/flows/pause'],
  ] as const) {
    const response = await open.call(method, path, { headers })
    expect([response.statusCode, Object.keys(response.json())]).toEqual([403, ['error']])
  }
})

test('the bare address leads a browser to /admin', async () => {
  const answer = await guarded.call('GET', '/', { headers: { accept: 'text/html' } })
  expect([answer.statusCode, answer.headers.location]).toEqual([302, '/admin'])
})

test.each([
  { origin: 'http://127.0.0.1:8080', 'sec-fetch-site': 'same-origin' },
  { host: 'localhost:8080', origin: 'http://localhost:8080' },
  { host: '[::1]:8080' },
  { 'sec-fetch-site': 'none' },
])('without SYNC_TOKEN the page itself may call (%j)', async (headers) => {
  expect((await open.call('GET', '/stats', { headers })).statusCode).toBe(200)
})

test.each([
  ['no token', {}],
  ['a wrong token', { 'x-api-token': 'wrong' }],
  ['an empty token', { 'x-api-token': '' }],
  ['a token with more behind it', { 'x-api-token': `${syncToken}x` }],
  // Each listener has its own token: the one of the money is not tried out here.
  ['the ADMIN_TOKEN', { 'x-api-token': adminToken }],
  ['another header', { authorization: `Bearer ${syncToken}` }],
])('with SYNC_TOKEN %s is 401, reading and writing', async (_, headers) => {
  for (const [method, path] of [
    ...paths.map((path) => ['GET', path] as const),
    ['POST', '/flows/pause'] as const,
    ['POST', '/sync/x'] as const,
  ]) {
    const response = await guarded.call(method, path, { headers })
    expect([response.statusCode, Object.keys(response.json())]).toEqual([401, ['error']])
  }
})

test('with SYNC_TOKEN it is accepted, from any host', async () => {
  const headers = { 'x-api-token': syncToken, host: 'sync.example' }
  expect((await guarded.call('GET', '/stats', { headers })).statusCode).toBe(200)
})

test('whoever guesses has so many tries a minute over all routes, then 429; the right token passes', async () => {
  const flows = await startTestFlows({
    service,
    env: { SYNC_TOKEN: syncToken, AUTH_FAILURES_PER_MINUTE: '5', TRUST_PROXY: 'loopback' },
  })
  const ask = (address: string, token: string, path = '/stats') =>
    flows.call('GET', path, { headers: { 'x-api-token': token, 'x-forwarded-for': address } })
  const statuses: number[] = []
  for (let tries = 0; tries < 8; tries += 1) {
    const path = paths[tries % paths.length]
    statuses.push((await ask('2001:db8::1', `wrong-${tries}`, path)).statusCode)
  }
  const refused = await ask('2001:db8::2', 'wrong')
  const [own, other] = [await ask('2001:db8::1', syncToken), await ask('192.0.2.1', 'wrong')]
  await flows.stop()
  expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429])
  expect([refused.statusCode, Object.keys(refused.json())]).toEqual([429, ['error']])
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  expect([own.statusCode, other.statusCode]).toEqual([200, 401])
})

test('SYNC_AUTH=none never asks', async () => {
  expect((await unguarded.call('GET', '/stats')).statusCode).toBe(200)
})

test('health, the page and the description are open', async () => {
  for (const path of ['/health', '/admin', '/openapi.json']) {
    expect((await guarded.call('GET', path)).statusCode).toBe(200)
  }
  expect((await guarded.call('GET', '/health')).json()).toEqual({
    status: 'ok',
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
  })
})
