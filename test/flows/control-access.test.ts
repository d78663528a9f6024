import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildInfo } from '../../src/http/build-info.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import type { OpenApiDocument } from '../support/openapi.ts'
import { routesOf } from '../support/routes.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, enrol } from '../support/till.ts'

const syncToken = 'sync-token-for-tests-0123456789abcdef'
const metricsToken = 'metrics-token-for-tests-0123456789ab'
let service: TestService
let clientKey: string
let session: string
let open: TestFlows
let guarded: TestFlows
let unguarded: TestFlows

beforeAll(async () => {
  service = await startTestService()
  clientKey = (await enrol(service, 'acme', '7900001')).key
  const signedIn = await call(service, { url: '/session', body: { token: adminToken } })
  session = String(signedIn.headers['set-cookie']).split(';', 1)[0] ?? ''
  // An answer is read to its end here.
  open = await startTestFlows({ service, streams: { longestMs: 1 } })
  guarded = await startTestFlows({
    service,
    env: {
      SYNC_TOKEN: syncToken,
      METRICS_TOKEN: metricsToken,
      AUTH_FAILURES_PER_MINUTE: '100000',
    },
    streams: { longestMs: 1 },
  })
  unguarded = await startTestFlows({
    service,
    env: { SYNC_TOKEN: syncToken, SYNC_AUTH: 'none' },
    streams: { longestMs: 1 },
  })
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

/** Who calls, by headers; `session` and `client key` are of the payment listener, where they open doors. */
const callers = {
  nobody: () => ({}),
  'a malformed token': () => ({ 'x-api-token': ' \u00ff, x' }),
  'an empty token': () => ({ 'x-api-token': '' }),
  'a wrong token': () => ({ 'x-api-token': 'wrong' }),
  'part of the token': () => ({ 'x-api-token': syncToken.slice(0, -1) }),
  'a token with more behind it': () => ({ 'x-api-token': `${syncToken}x` }),
  'the token in another header': () => ({ authorization: `Bearer ${syncToken}` }),
  'the SYNC_TOKEN': () => ({ 'x-api-token': syncToken }),
  'the SYNC_TOKEN under another name of the host': () => ({
    'x-api-token': syncToken,
    host: 'sync.example',
  }),
  // Each listener has its own token: the one of the money is not tried out here.
  'the METRICS_TOKEN': () => ({ 'x-api-token': metricsToken }),
  'the METRICS_TOKEN as Prometheus sends it': () => ({ authorization: `Bearer ${metricsToken}` }),
  'the ADMIN_TOKEN': () => ({ 'x-api-token': adminToken }),
  'a client key': () => ({ 'x-api-token': clientKey }),
  'a session of the payment listener': () => ({ cookie: session, 'sec-fetch-site': 'same-origin' }),
  'its own page': () => ({ origin: 'http://127.0.0.1:8080', 'sec-fetch-site': 'same-origin' }),
  'a page elsewhere': () => ({ origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }),
  'a rebound name': () => ({ host: 'evil.example' }),
} satisfies Record<string, () => Record<string, string>>
type Caller = keyof typeof callers

/** How each listener answers each caller: `in`, or the refusal. */
const expectations: Record<'open' | 'guarded' | 'unguarded', Record<Caller, 'in' | 401 | 403>> = {
  // Without SYNC_TOKEN, on loopback: no token is required or read, but pages of other origins are refused.
  open: {
    nobody: 'in',
    'a malformed token': 'in',
    'an empty token': 'in',
    'a wrong token': 'in',
    'part of the token': 'in',
    'a token with more behind it': 'in',
    'the token in another header': 'in',
    'the SYNC_TOKEN': 'in',
    'the SYNC_TOKEN under another name of the host': 403,
    'the METRICS_TOKEN': 'in',
    'the METRICS_TOKEN as Prometheus sends it': 'in',
    'the ADMIN_TOKEN': 'in',
    'a client key': 'in',
    'a session of the payment listener': 'in',
    'its own page': 'in',
    'a page elsewhere': 403,
    'a rebound name': 403,
  },
  // With SYNC_TOKEN: that token, and nothing else.
  guarded: {
    nobody: 401,
    'a malformed token': 401,
    'an empty token': 401,
    'a wrong token': 401,
    'part of the token': 401,
    'a token with more behind it': 401,
    'the token in another header': 401,
    'the SYNC_TOKEN': 'in',
    'the SYNC_TOKEN under another name of the host': 'in',
    // But for the figures.
    'the METRICS_TOKEN': 401,
    'the METRICS_TOKEN as Prometheus sends it': 401,
    'the ADMIN_TOKEN': 401,
    'a client key': 401,
    'a session of the payment listener': 401,
    'its own page': 401,
    'a page elsewhere': 401,
    'a rebound name': 401,
  },
  // SYNC_AUTH=none: every caller.
  unguarded: Object.fromEntries(Object.keys(callers).map((name) => [name, 'in'])) as never,
}

/** Pages and their parts, which the document leaves out; every caller may read them. */
const pages = [
  '/',
  '/admin',
  '/admin/',
  '/admin/index.html',
  '/admin/page.css',
  '/admin/page.js',
  '/docs',
  '/docs/json',
  '/openapi.json',
  '/vendor/uPlot.iife.min.js',
]

type Listed = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  isPublic: boolean
  isForMetrics: boolean
  lets: number
}

/** Every operation of the served document, on a flow that does not exist, with the status for an admitted caller. */
async function operationsOf(flows: TestFlows): Promise<Listed[]> {
  const { paths: listed } = (await flows.call('GET', '/openapi.json')).json() as OpenApiDocument
  return Object.entries(listed).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security }]) => ({
      method: method.toUpperCase() as 'GET',
      path: path.replace('{count}', '3').replace(/\{\w+\}/g, 'nobody'),
      isPublic: security.length === 0,
      isForMetrics: security.some((one) => 'metricsToken' in one),
      lets: letsOf(method, path),
    })),
  )
}

/** The status for an admitted caller: the requests name unknown flows and send no definition. */
function letsOf(method: string, path: string): number {
  if (/^\/flow-(templates|definitions)\//.test(path) || method === 'put') return 400
  // Nobody signs in without a name.
  if (path === '/session' && method === 'post') return 400
  return /\{(name|file)\}/.test(path) ? 404 : 200
}

/** What a refused request could have changed. */
async function traces(): Promise<unknown> {
  const { db } = service.database
  return [
    await db.selectFrom('flow_activity').selectAll().execute(),
    await db.selectFrom('flow_pause').selectAll().execute(),
    await db.selectFrom('flow_state').selectAll().execute(),
  ]
}

test('the OpenAPI document lists every route of the listener except its pages', async () => {
  const described = (await operationsOf(guarded)).length
  const served = routesOf(guarded).filter(
    (route) =>
      !/^(GET|HEAD) \/($|\*$|(admin|docs|guide|vendor|shared)(\/|\*?$)|openapi\.json$)/.test(route),
  )
  expect(served).toHaveLength(described)
})

test.each(['open', 'guarded', 'unguarded'] as const)(
  'every route admits exactly its callers, and a refusal changes nothing: %s listener',
  { tags: ['long'] },
  async (name) => {
    const flows = { open, guarded, unguarded }[name]
    const before = await traces()
    const operations = await operationsOf(flows)
    const refusals = new Set<string>()
    const ask = async (caller: Caller) => {
      const expected = expectations[name][caller]
      const headers = callers[caller]()
      for (const { method, path, isPublic, isForMetrics, lets } of operations) {
        const answer = await flows.call(method, path, { headers })
        const isScrape = isForMetrics && caller.startsWith('the METRICS_TOKEN')
        const passes = expected === 'in' || isPublic || isScrape
        // No page of elsewhere signs anybody out.
        const isForeignEnd = caller === 'a page elsewhere' && method === 'DELETE' && isPublic
        // A session begins under a name of the service only.
        const isForeignName = 'host' in headers && method === 'POST' && isPublic
        const answered = isForeignEnd ? 403 : isForeignName ? 421 : passes ? lets : expected
        expect(answer.statusCode, `${method} ${path}, ${caller}`).toBe(answered)
        if (!passes) refusals.add(`${answer.headers['content-type']} ${answer.body}`)
      }
      for (const path of pages) {
        const { statusCode } = await flows.call('GET', path, { headers })
        expect(statusCode, `${path}, ${caller}`).toBe(path === '/' ? 404 : 200)
      }
    }
    const all = Object.keys(callers) as Caller[]
    const isIn = (caller: Caller) => expectations[name][caller] === 'in'
    for (const caller of all.filter((one) => !isIn(one))) await ask(caller)
    expect(await traces()).toEqual(before)
    for (const caller of all.filter(isIn)) await ask(caller)
    // The answer of a refusal is the same for every request and token.
    expect(refusals.size).toBe(name === 'unguarded' ? 0 : 1)
  },
)

test.each([
  ['a foreign Host', { host: 'evil.example' }],
  ['a rebound Host', { host: '127.0.0.1.evil.example' }],
  ['a Host that begins as loopback', { host: 'localhost.evil.example:8080' }],
  ['a Host that ends as loopback', { host: 'evil.example#localhost' }],
  ['a Host behind a user name', { host: 'localhost@evil.example' }],
  ['an address of this network as Host', { host: '192.168.0.10:8080' }],
  ['a Host of two', { host: 'localhost, evil.example' }],
  ['an Origin of another scheme', { origin: 'file://' }],
  ['an Origin behind a user name', { origin: 'http://127.0.0.1:8080@evil.example' }],
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

test('T38: a page elsewhere gets no form, no text and no preflight through to a flow', async () => {
  const { app } = open
  const page = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
  for (const type of ['application/x-www-form-urlencoded', 'text/plain', 'multipart/form-data']) {
    // As a form without the marks of newer browsers, too.
    for (const marks of [page, { origin: 'https://evil.example' }, { origin: 'null' }]) {
      const answer = await app.inject({
        method: 'POST',
        url: '/flows/pause',
        headers: { host: '127.0.0.1:8080', 'content-type': type, ...marks },
        payload: 'a=b',
      })
      expect([answer.statusCode, type]).toEqual([403, type])
    }
  }
  const preflight = await app.inject({
    method: 'OPTIONS',
    url: '/flows/pause',
    headers: { host: '127.0.0.1:8080', ...page, 'access-control-request-method': 'POST' },
  })
  // There is no such route, and no redirect for a browser.
  expect(preflight.statusCode).toBe(404)
  expect(Object.keys(preflight.headers).join()).not.toContain('access-control')
})

test('the root path redirects a browser to /admin', async () => {
  const answer = await guarded.call('GET', '/', { headers: { accept: 'text/html' } })
  expect([answer.statusCode, answer.headers.location]).toEqual([302, '/admin'])
})

test.each([
  { origin: 'http://127.0.0.1:8080', 'sec-fetch-site': 'same-origin' },
  { host: 'localhost:8080', origin: 'http://localhost:8080' },
  { host: '[::1]:8080' },
  { 'sec-fetch-site': 'none' },
])('without SYNC_TOKEN the page itself may send requests (%j)', async (headers) => {
  expect((await open.call('GET', '/stats', { headers })).statusCode).toBe(200)
})

test('wrong tokens are limited per minute over all routes, then 429; the right token is accepted', async () => {
  const flows = await startTestFlows({
    service,
    env: { SYNC_TOKEN: syncToken, AUTH_FAILURES_PER_MINUTE: '5', TRUST_PROXY: 'loopback' },
  })
  const ask = (address: string, token: string, path = '/stats') =>
    flows.call('GET', path, { headers: { 'x-api-token': token, 'x-forwarded-for': address } })
  const statuses: number[] = []
  for (let tries = 0; tries < 8; tries += 1) {
    const path = ['/health', ...paths][tries % (paths.length + 1)]
    statuses.push((await ask('2001:db8::1', `wrong-${tries}`, path)).statusCode)
  }
  const refused = await ask('2001:db8::2', 'wrong')
  const [own, other] = [await ask('2001:db8::1', syncToken), await ask('192.0.2.1', 'wrong')]
  await flows.stop()
  expect(statuses).toEqual([200, 401, 401, 401, 401, 429, 429, 429])
  expect([refused.statusCode, Object.keys(refused.json())]).toEqual([429, ['error']])
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  expect([own.statusCode, other.statusCode]).toEqual([200, 401])
})

test('SYNC_AUTH=none requires no token', async () => {
  expect((await unguarded.call('GET', '/stats')).statusCode).toBe(200)
})

test('T52: health, the page and the description are open', async () => {
  for (const path of ['/health', '/admin', '/openapi.json']) {
    expect((await guarded.call('GET', path)).statusCode).toBe(200)
  }
})

test('T52: health shows version and commit to flow operators and nothing to other callers', async () => {
  const plain = { status: 'ok', timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) }
  const detail = { ...plain, version: buildInfo.version, commit: await buildInfo.commit() }
  const health = async (flows: TestFlows, headers = {}) =>
    (await flows.call('GET', '/health', { headers })).json()
  expect(await health(guarded)).toEqual(plain)
  expect(await health(guarded, { 'x-api-token': 'wrong' })).toEqual(plain)
  expect(await health(guarded, { 'x-api-token': adminToken })).toEqual(plain)
  expect(await health(guarded, { 'x-api-token': syncToken })).toEqual(detail)
  expect(await health(open)).toEqual(detail)
  for (const headers of [{ host: 'evil.example' }, { origin: 'https://evil.example' }]) {
    expect(await health(open, headers)).toEqual(plain)
  }
})

test('the audit log records a login by token once in twelve hours, and wrong tokens within a limit', async () => {
  const entries = async (action: string) =>
    (await asAdmin(service, { url: `/admin/activity?limit=200&action=${action}` })).json().logs
  const visit = (token: string, remoteAddress: string) =>
    guarded.app.inject({
      url: '/stats',
      remoteAddress,
      headers: { host: 'x', 'x-api-token': token },
    })
  await Promise.all([1, 2, 3].map(() => visit(syncToken, '192.0.2.50')))
  const from = async () =>
    (await entries('control.entered')).filter(
      ({ ip_address: address }: { ip_address: string }) => address === '192.0.2.50',
    )
  expect(await from()).toMatchObject([
    { client_name: null, resource_type: 'session', status: 'success' },
  ])
  service.clock.advance(12 * 3_600_000)
  await visit(syncToken, '192.0.2.50')
  expect(await from()).toHaveLength(2)

  const before = (await entries('control.refused')).length
  for (let count = 0; count < 30; count += 1) {
    expect((await visit('wrong', '192.0.2.51')).statusCode).toBe(401)
  }
  const refused = await entries('control.refused')
  expect(refused).toHaveLength(before + 10)
  expect(refused[0]).toMatchObject({ ip_address: '192.0.2.51', status: 'failed' })
  expect(JSON.stringify(refused)).not.toContain(syncToken)
})

/** What a reverse proxy on this machine adds to a request of a caller elsewhere. */
test.each([
  { 'x-forwarded-for': '203.0.113.5' },
  { 'x-forwarded-for': '127.0.0.1' },
  { forwarded: 'for=203.0.113.5' },
  { 'x-real-ip': '203.0.113.5' },
  { 'x-forwarded-host': 'flows.example' },
  { 'x-forwarded-proto': 'https' },
  { via: '1.1 proxy' },
])(
  'without SYNC_TOKEN requests through a proxy on this machine are refused (%j)',
  async (headers) => {
    const host = '127.0.0.1:8080'
    const read = await open.call('GET', '/stats', { headers: { host, ...headers } })
    expect(read.statusCode).toBe(403)
    expect(read.json().error).toContain('SYNC_TOKEN')
    const paused = await open.call('POST', '/flows/pause', { headers: { host, ...headers } })
    expect(paused.statusCode).toBe(403)
    // With the token they do.
    const known = { ...headers, 'x-api-token': syncToken }
    expect((await guarded.call('GET', '/stats', { headers: known })).statusCode).toBe(200)
  },
)

test('with TRUST_PROXY a token is required, whatever the request contains', async () => {
  const flows = await startTestFlows({ service, env: { TRUST_PROXY: 'loopback' } })
  const read = await flows.call('GET', '/stats')
  await flows.stop()
  expect([read.statusCode, read.json().error]).toEqual([403, expect.stringContaining('SYNC_TOKEN')])
})
