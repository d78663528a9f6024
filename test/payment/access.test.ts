import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Row, table } from '../support/access-table.ts'
import { routesOf } from '../support/routes.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, type Call, call, enrol } from '../support/till.ts'

const syncToken = 'sync-token-for-tests-0123456789abcdef'
const metricsToken = 'metrics-token-for-tests-0123456789ab'
const ownPage = { 'sec-fetch-site': 'same-origin' }
const isOwnPage = (headers: Record<string, string>) =>
  headers['sec-fetch-site'] === 'same-origin' || headers.origin === 'http://127.0.0.1:3000'

/** What a browser sends with its cookie; writes of the pages are JSON. */
const session = (of: 'acme' | 'admin', headers: Record<string, string>, query = '') => ({
  token: undefined,
  session: of,
  headers: { 'content-type': 'application/json', ...headers },
  query,
})

/** Callers: the token or the session, and the `client` query where one is sent. */
const callers: Record<
  string,
  {
    token: string | undefined
    query: string
    session?: 'acme' | 'admin'
    headers?: Record<string, string>
  }
> = {
  nobody: { token: undefined, query: '' },
  'an unknown key': { token: `mk_${'0'.repeat(64)}`, query: '' },
  'an unknown token': { token: 'not-a-token', query: '' },
  'a revoked key': { token: 'revoked', query: '' },
  'a masked key': { token: 'masked', query: '' },
  'a malformed token': { token: ' \u00ff, mk_', query: '' },
  'the token of the control API': { token: syncToken, query: '' },
  'the metrics token': { token: metricsToken, query: '' },
  'the metrics token as Prometheus sends it': {
    ...{ token: undefined, query: '' },
    headers: { authorization: `Bearer ${metricsToken}` },
  },
  'the administrator by another header': {
    ...{ token: undefined, query: '' },
    headers: { authorization: `Bearer ${adminToken}` },
  },
  'a key': { token: 'acme', query: '' },
  'a key naming its own client': { token: 'acme', query: 'client=acme' },
  'the key of another client': { token: 'other', query: '' },
  'a key naming another client': { token: 'acme', query: 'client=other' },
  'a key naming two clients': { token: 'acme', query: 'client=acme&client=other' },
  'the administrator': { token: 'admin', query: '' },
  'the administrator for a client': { token: 'admin', query: 'client=acme' },
  'the administrator for an unknown client': { token: 'admin', query: 'client=nobody' },
  'the administrator for two clients': { token: 'admin', query: 'client=acme&client=other' },
  'a session': session('acme', ownPage),
  'a session naming another client': session('acme', ownPage, 'client=other'),
  'a session by its Origin': session('acme', { origin: 'http://127.0.0.1:3000' }),
  'a session without an origin': session('acme', {}),
  'a session from another site': session('acme', { 'sec-fetch-site': 'cross-site' }),
  'a session from another port': session('acme', { origin: 'http://127.0.0.1:8080' }),
  'a session beside a wrong token': { ...session('acme', ownPage), token: 'not-a-token' },
  'a session of the administrator': session('admin', ownPage),
  'a session of the administrator for a client': session('admin', ownPage, 'client=acme'),
  'a session of the administrator from another site': session('admin', {
    'sec-fetch-site': 'same-site',
  }),
}
type Caller = string

/** Routes that answer every caller with the same page, file or document. */
const isDocument = (route: string) =>
  /^(GET|HEAD) \/(openapi\.json|guide|docs|dashboard|vendor|shared|\*)/.test(route)
/** One caller of each kind: these routes have no guard, and some of their answers take 50 ms. */
const callersOfDocuments: Caller[] = [
  'nobody',
  'an unknown token',
  'a revoked key',
  'a key',
  'a key naming another client',
  'a key naming two clients',
  'the administrator',
  'a session',
  'a session from another site',
]

/** The answer of the guard by access class; `lets` where the guard lets the request through. */
const refused: Record<
  'client' | 'admin',
  Record<Caller, string | { reading: string; writing: string }>
> = {
  client: {
    nobody: '401 UNAUTHORIZED',
    'an unknown key': '401 UNAUTHORIZED',
    'an unknown token': '401 UNAUTHORIZED',
    'a revoked key': '401 UNAUTHORIZED',
    'a masked key': '401 UNAUTHORIZED',
    'a key': 'lets',
    'a key naming its own client': 'lets',
    'the key of another client': 'lets',
    'a key naming another client': '403 FORBIDDEN',
    'a key naming two clients': '422 VALIDATION_ERROR',
    'the administrator': '422 VALIDATION_ERROR',
    'the administrator for a client': 'lets',
    'the administrator for an unknown client': '404 NOT_FOUND',
    'the administrator for two clients': '422 VALIDATION_ERROR',
    'a malformed token': '401 UNAUTHORIZED',
    'the token of the control API': '401 UNAUTHORIZED',
    'the metrics token': '401 UNAUTHORIZED',
    'the metrics token as Prometheus sends it': '401 UNAUTHORIZED',
    'the administrator by another header': '401 UNAUTHORIZED',
    'a session': 'lets',
    'a session naming another client': '403 FORBIDDEN',
    'a session by its Origin': 'lets',
    'a session without an origin': { reading: 'lets', writing: '401 UNAUTHORIZED' },
    'a session from another site': '401 UNAUTHORIZED',
    'a session from another port': '401 UNAUTHORIZED',
    'a session beside a wrong token': '401 UNAUTHORIZED',
    'a session of the administrator': '422 VALIDATION_ERROR',
    'a session of the administrator for a client': 'lets',
    'a session of the administrator from another site': '401 UNAUTHORIZED',
  },
  admin: {
    nobody: '401 UNAUTHORIZED',
    'an unknown key': '401 UNAUTHORIZED',
    'an unknown token': '401 UNAUTHORIZED',
    'a revoked key': '401 UNAUTHORIZED',
    'a masked key': '401 UNAUTHORIZED',
    'a key': '403 FORBIDDEN',
    'a key naming its own client': '403 FORBIDDEN',
    'the key of another client': '403 FORBIDDEN',
    'a key naming another client': '403 FORBIDDEN',
    'a key naming two clients': '403 FORBIDDEN',
    'the administrator': 'lets',
    'the administrator for a client': 'lets',
    'the administrator for an unknown client': 'lets',
    'the administrator for two clients': 'lets',
    'a malformed token': '401 UNAUTHORIZED',
    'the token of the control API': '401 UNAUTHORIZED',
    'the metrics token': '401 UNAUTHORIZED',
    'the metrics token as Prometheus sends it': '401 UNAUTHORIZED',
    'the administrator by another header': '401 UNAUTHORIZED',
    'a session': '403 FORBIDDEN',
    'a session naming another client': '403 FORBIDDEN',
    'a session by its Origin': '403 FORBIDDEN',
    'a session without an origin': {
      reading: '403 FORBIDDEN',
      writing: '401 UNAUTHORIZED',
    },
    'a session from another site': '401 UNAUTHORIZED',
    'a session from another port': '401 UNAUTHORIZED',
    'a session beside a wrong token': '401 UNAUTHORIZED',
    'a session of the administrator': 'lets',
    'a session of the administrator for a client': 'lets',
    'a session of the administrator from another site': '401 UNAUTHORIZED',
  },
}

let service: TestService
const tokens: Record<string, string> = { admin: adminToken }
let cookies: Record<string, string> = {}
const signIn = async (token: string) => {
  const { headers } = await call(service, { url: '/session', body: { token } })
  return String(headers['set-cookie']).split(';', 1)[0] ?? ''
}
beforeAll(async () => {
  // This file makes more requests and refusals from one address than the limits allow.
  service = await startTestService({
    env: {
      AUTH_FAILURES_PER_MINUTE: '100000',
      METRICS_TOKEN: metricsToken,
    },
    // Reads the stream of events to its end.
    streams: { longestMs: 1 },
  })
  const [acme, other, retired] = [
    await enrol(service, 'acme', '101'),
    await enrol(service, 'other', '102'),
    await enrol(service, 'retired', '103'),
  ]
  for (const till of [acme, other, retired]) {
    await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  }
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'retired' } })
  Object.assign(tokens, { acme: acme.key, other: other.key, revoked: retired.key })
  tokens.masked = (await asAdmin(service, { url: '/admin/clients/acme' })).json().api_key.key
})
afterAll(() => service.stop())

const callerOf = (name: Caller) => {
  const caller = callers[name]
  if (!caller) throw new Error(`there is no ${name}`)
  return caller
}

function requestOf(route: string, row: Row, caller: Caller): Call & { method: never } {
  const { token, query, session, headers } = callerOf(caller)
  const [method = '', pattern = ''] = route.split(' ')
  const url = row.url ?? pattern
  const value = token === undefined ? undefined : (tokens[token] ?? token)
  return {
    method: method as never,
    url: query === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${query}`,
    ...(row.body && { body: row.body }),
    headers: { ...(session && { cookie: cookies[session] ?? '' }), ...headers },
    // A header holds Latin-1 only; the ellipsis of a masked key goes as its UTF-8 bytes.
    ...(value !== undefined && { token: Buffer.from(value).toString('latin1') }),
  }
}

test('T3: the table lists every route of the service, and nothing else', () => {
  const served = routesOf(service).filter((route) => route !== 'GET /dashboard')
  expect(served).toEqual(Object.keys(table).sort())
})

/** The expected answer to one caller by the table and the access class of the route. */
function expectedOf(route: string, row: Row, caller: Caller): string {
  const { query, headers } = callerOf(caller)
  const isOneName = query === '' || query.split('&').length === 1
  if (row.access === 'signed') return '401'
  if (row.access === 'public') {
    // The path of the login names a client already.
    if (row.takesClient && query !== '') return '422'
    const isFromPage = headers === undefined ? false : isOwnPage(headers)
    const hasOrigin = 'origin' in (headers ?? {}) || 'sec-fetch-site' in (headers ?? {})
    if (hasOrigin && !isFromPage && row.fromForeignPage) return `${row.fromForeignPage}`
    return `${isFromPage ? (row.fromOwnPage ?? row.lets) : row.lets}`
  }
  if (row.allClients && /^(the|a session of the) administrator$/.test(caller)) return `${row.lets}`
  if (row.access === 'metrics' && caller.startsWith('the metrics token')) return `${row.lets}`
  const answer = refused[row.access === 'client' ? 'client' : 'admin'][caller]
  if (answer === undefined) throw new Error(`the table has no answer for ${caller}`)
  const way = route.startsWith('GET ') || route.startsWith('HEAD ') ? 'reading' : 'writing'
  const expected = typeof answer === 'string' ? answer : answer[way]
  if (expected !== 'lets') return expected
  // Neither a key nor the token of the administrator is a person.
  if (row.access === 'person') return '403 FORBIDDEN'
  return row.takesClient && !isOneName ? '422' : `${row.lets}`
}

test.each(Object.entries(table))(
  '%s answers each caller as its access class demands',
  { tags: ['long'] },
  async (route, row) => {
    // New sessions, because one of the routes ends them.
    cookies = { acme: await signIn(tokens.acme ?? ''), admin: await signIn(adminToken) }
    for (const caller of isDocument(route) ? callersOfDocuments : Object.keys(callers)) {
      const answer = await call(service, requestOf(route, row, caller))
      const [status, code] = expectedOf(route, row, caller).split(' ')
      expect(answer.statusCode, caller).toBe(Number(status))
      if (code !== undefined) {
        expect(answer.json().code, caller).toBe(code)
        if (code === 'VALIDATION_ERROR') {
          expect(answer.json().details, caller).toMatchObject([{ path: 'client' }])
        }
      } else if (row.access === 'client') {
        // A 422 of the body, not of `client`; a 404 of the record, not of the client.
        expect(answer.body, caller).not.toContain('"path":"client"')
        expect(answer.body, caller).not.toContain('There is no such client"')
      }
    }
  },
)

test('the dashboard page needs no token', async () => {
  const { statusCode } = await call(service, { url: '/dashboard', token: 'not-a-token' })
  expect([200, 404]).toContain(statusCode)
})

test('T6: on client routes the administrator names one client, by a valid name', {
  tags: ['long'],
}, async () => {
  for (const [route, row] of Object.entries(table)) {
    if (row.access !== 'client') continue
    for (const [name, status] of [
      ['', 422],
      ['acme%00', 422],
      ['acme%0A', 422],
      ['%20acme', 404],
      ['ACME', 404],
      ['__proto__', 404],
      [`${'x'.repeat(101)}`, 404],
      ['acme', row.lets],
    ] as const) {
      const request = requestOf(route, row, 'the administrator')
      const answer = await call(service, { ...request, url: `${request.url}?client=${name}` })
      expect(answer.statusCode, `${route} ${name}`).toBe(status)
    }
  }
})

test('missing, unknown, masked and revoked tokens get the same answer', async () => {
  const bodies = new Set<string>()
  const refusedCallers: Caller[] = [
    'nobody',
    'an unknown key',
    'an unknown token',
    'a revoked key',
    'a masked key',
  ]
  for (const caller of refusedCallers) {
    for (const route of ['GET /stores', 'GET /api-keys']) {
      const row = table[route]
      if (!row) throw new Error(`${route} is not in the table`)
      const answer = await call(service, requestOf(route, row, caller))
      const { request_id, ...body } = answer.json()
      expect(request_id).toEqual(expect.any(String))
      bodies.add(JSON.stringify([body, answer.headers['www-authenticate'] ?? null]))
    }
  }
  expect(bodies.size).toBe(1)
})

test('a token counts only as a whole: a part, an extension, other case or two of them are unknown', async () => {
  const key = tokens.acme ?? ''
  const wrong = [
    key.slice(0, -1),
    `${key}0`,
    key.toUpperCase(),
    `${key}, ${key}`,
    `${adminToken}, ${adminToken}`,
    adminToken.slice(0, -1),
    `${adminToken}x`,
    `Bearer ${key}`,
    '__proto__',
  ]
  for (const token of wrong) {
    const answer = await call(service, { url: '/stores?client=acme', token })
    expect(answer.statusCode, token.length.toString()).toBe(401)
  }
  expect((await call(service, { url: '/stores', token: key })).statusCode).toBe(200)
})

test('T1: whatever is wrong with a token, the answer is the same to the byte', async () => {
  await service.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = service.app.server.address() as { port: number }
  const key = tokens.acme ?? ''
  const ask = async (headers: readonly string[], path = '/stores?client=acme') => {
    const socket = connect({ host: '127.0.0.1', port })
    const head = ['host: x', 'connection: close', 'x-request-id: same', ...headers]
    socket.write(`GET ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n`)
    return (await text(socket)).replace(/^date: .*\r\n/im, '')
  }
  const token = (value: string) => [`x-api-token: ${value}`]
  const refused = await ask([])
  expect(refused).toMatch(/^HTTP\/1\.1 401 /)
  for (const headers of [
    token(''),
    token('x'),
    token(key.slice(0, -1)),
    token(`${key}0`),
    token(key.slice(3)),
    token(`mk-${key.slice(3)}`),
    token(key.toUpperCase()),
    token('x'.repeat(4_000)),
    token(adminToken.slice(0, -1)),
    token(`${adminToken}0`),
    token(adminToken.toUpperCase()),
    // Two headers in one request arrive as one text with a comma.
    [...token(key), ...token(key)],
    [...token(adminToken), ...token(adminToken)],
    [...token(key), ...token('x')],
    [`authorization: Bearer ${key}`],
    [`cookie: x-api-token=${key}`],
  ]) {
    expect(await ask(headers), headers.join(' ').length.toString()).toBe(refused)
  }
  // A token in an address is not accepted either.
  expect(await ask([], `/oauth/status?x-api-token=${key}`)).toBe(refused)
  expect(await ask(token(key))).toMatch(/^HTTP\/1\.1 200 /)
})
