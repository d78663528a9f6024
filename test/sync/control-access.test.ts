import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'

const syncToken = 'sync-token-for-tests'
let service: TestService
let open: TestFlows
let guarded: TestFlows
let unguarded: TestFlows

beforeAll(async () => {
  service = await startTestService()
  // An answer is read to its end here.
  open = await startTestFlows({ service, streams: { longestMs: 1 } })
  guarded = await startTestFlows({ service, env: { SYNC_TOKEN: syncToken } })
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

test.each([syncToken, adminToken])(
  'with SYNC_TOKEN it and the ADMIN_TOKEN are accepted',
  async (token) => {
    const headers = { 'x-api-token': token, host: 'sync.example' }
    expect((await guarded.call('GET', '/stats', { headers })).statusCode).toBe(200)
  },
)

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
