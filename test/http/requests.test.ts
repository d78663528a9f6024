import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { createServer } from '../../src/http/create-server.ts'
import { exchange, json, open, publicServer, readAll, sampleApp } from './sample-app.ts'

const { app, seen } = sampleApp()
afterAll(() => app.close())

test.each([
  ['GET', '/nope'],
  ['POST', '/nope'],
  ['DELETE', '/echo'],
  ['GET', '/echo'],
  ['OPTIONS', '/echo'],
  ['HEAD', '/items/a'],
  ['GET', '/items/a/'],
  ['GET', '//items/a'],
  ['GET', '/ITEMS/a'],
  ['GET', '/'],
] as const)('%s %s is 404 in the error shape', async (method, url) => {
  const answer = await app.inject({ method, url })
  expect(answer.statusCode).toBe(404)
  if (method !== 'HEAD') {
    expect(answer.json()).toEqual({
      error: 'Not found',
      code: 'NOT_FOUND',
      request_id: answer.headers['x-request-id'],
    })
  }
})

test('an unknown path is 404 before its body is read', async () => {
  for (const payload of ['{', 'x'.repeat(2_000_000)]) {
    const answer = await app.inject({ method: 'POST', url: '/nope', headers: json, payload })
    expect(answer.statusCode).toBe(404)
  }
  const answer = await app.inject({
    method: 'POST',
    url: '/nope',
    headers: { 'content-type': 'text/x' },
    payload: 'a',
  })
  expect(answer.statusCode).toBe(404)
})

test.each(['/items/%', '/items/%zz', '/items/%c3%28', '/items/%ed%a0%80', '/%ff'])(
  'the bad percent-encoding of %s is 400 in the error shape',
  async (url) => {
    const answer = await app.inject({ method: 'GET', url })
    expect([answer.statusCode, answer.json().code]).toEqual([400, 'BAD_REQUEST'])
    expect(answer.headers).toMatchObject({ 'x-api-version': '1', 'cache-control': 'no-store' })
    expect(answer.headers['x-request-id']).toBe(answer.json().request_id)
  },
)

test('T47: path parameters hold up to 1,024 characters of any script; a longer one is 404', async () => {
  for (const char of ['a', 'ñ', '|', '/', '\n']) {
    seen.length = 0
    const url = `/items/${encodeURIComponent(char.repeat(1024))}`
    expect((await app.inject({ method: 'GET', url })).statusCode).toBe(200)
    expect(seen).toEqual([char.repeat(1024)])
  }
  const answer = await app.inject({ method: 'GET', url: `/items/${'a'.repeat(1025)}` })
  expect([answer.statusCode, answer.json().code]).toEqual([404, 'NOT_FOUND'])
})

test('NUL in the path or the query is 422 and names the parameter', async () => {
  for (const [url, path] of [
    ['/items/a%00b', 'name'],
    ['/items/a?search=a%00', 'search'],
  ] as const) {
    const answer = await app.inject({ method: 'GET', url })
    expect([answer.statusCode, answer.json().details[0].path]).toEqual([422, path])
  }
})

test('T27: a query parameter that is wrong, unknown or given twice is 422 under its name', async () => {
  for (const [query, path] of [
    ['limit=x', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['limti=1', 'limti'],
    ['__proto__=1', '__proto__'],
  ] as const) {
    const answer = await app.inject({ method: 'GET', url: `/items/a?${query}` })
    expect([query, answer.statusCode, answer.json().details?.[0].path]).toEqual([query, 422, path])
  }
})

test('every answer carries the version, a request id and, unless a route sets another, no-store', async () => {
  const answer = await app.inject({ method: 'GET', url: '/items/a' })
  expect(answer.headers).toMatchObject({ 'x-api-version': '1', 'cache-control': 'no-store' })
  expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
})

test('the caller may name the request with a plain id, and nothing else', async () => {
  const idFor = async (id: string) => {
    const answer = await app.inject({
      method: 'GET',
      url: '/nope',
      headers: { 'x-request-id': id },
    })
    expect(answer.json().request_id).toBe(answer.headers['x-request-id'])
    return answer.headers['x-request-id']
  }
  for (const id of ['till-7.order_12', 'a'.repeat(64)]) expect(await idFor(id)).toBe(id)
  for (const id of ['', 'a'.repeat(65), 'a b', '<b>', 'a, b', 'a"b']) {
    expect(await idFor(id)).toMatch(/^[0-9a-f-]{36}$/)
  }
})

test('a forwarded address counts only from a listed proxy', async () => {
  const addressSeenBy = async (trustProxy: string[]) => {
    const { app: own } = sampleApp({ trustProxy })
    const answer = await own.inject({
      method: 'GET',
      url: '/items/a',
      headers: { 'x-forwarded-for': '6.6.6.6, 10.0.0.7' },
      remoteAddress: '127.0.0.1',
    })
    return answer.json().address
  }
  expect(await addressSeenBy([])).toBe('127.0.0.1')
  expect(await addressSeenBy(['192.168.0.0/16'])).toBe('127.0.0.1')
  expect(await addressSeenBy(['loopback'])).toBe('10.0.0.7')
  expect(await addressSeenBy(['loopback', '10.0.0.0/8'])).toBe('6.6.6.6')
})

test('T39: security headers stand on every answer, errors included, and forbid everything inline and foreign', async () => {
  // The last two are refused by the router, before any hook runs.
  for (const url of [
    '/items/a',
    '/nope',
    '/items/a?limit=x',
    '/items/%zz',
    `/items/${'x'.repeat(1025)}`,
  ]) {
    const { headers } = await app.inject({ method: 'GET', url })
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
    })
    const policy = String(headers['content-security-policy'])
    expect(policy.split(';').sort()).toEqual([
      "base-uri 'none'",
      "connect-src 'self'",
      "default-src 'none'",
      "font-src 'self'",
      "form-action 'self'",
      "frame-ancestors 'none'",
      "img-src 'self' data:",
      "script-src 'self'",
      "style-src 'self'",
    ])
  }
})

test('T3: the app does not start with a route that stands in no scope with an audience', async () => {
  const own = createServer({ logger: false })
  own.register(async (scope) => {
    scope.decorate('audience', 'public')
    scope.get('/open', async () => 'x')
  })
  own.register(async (scope) => {
    scope.delete('/forgotten', async () => 'x')
  })
  await expect(own.ready()).rejects.toThrow('DELETE /forgotten')
})

const head = 'POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'

test.each([
  [
    'both lengths (smuggling)',
    `${head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /items/smuggled HTTP/1.1\r\nhost: x\r\n\r\n`,
  ],
  ['two lengths', `${head}content-length: 5\r\ncontent-length: 6\r\n\r\n{"a":1}`],
  ['an unknown transfer coding', `${head}transfer-encoding: chunked, x\r\n\r\n0\r\n\r\n`],
  ['a broken chunk', `${head}transfer-encoding: chunked\r\n\r\nzz\r\n`],
  ['a header with a space', 'GET /items/a HTTP/1.1\r\nhost : x\r\n\r\n'],
  ['a folded header', 'GET /items/a HTTP/1.1\r\nhost: x\r\na: b\r\n c: d\r\n\r\n'],
  ['headers of 20 kB', `GET /items/a HTTP/1.1\r\nhost: x\r\na: ${'b'.repeat(20_000)}\r\n\r\n`],
  ['no HTTP at all', '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n'],
])(
  'T22: broken HTTP with %s is 400 in the error shape, once, and the socket is closed',
  async (_kind, text) => {
    seen.length = 0
    const answer = await exchange(app, text)
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
    expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1)
    expect(answer).toMatch(/connection: close\r\n/)
    const body = JSON.parse(answer.split('\r\n\r\n')[1] ?? '')
    expect(body).toEqual({
      error: expect.any(String),
      code: 'BAD_REQUEST',
      request_id: expect.any(String),
    })
    expect(answer).toContain(`x-request-id: ${body.request_id}\r\n`)
    expect(seen).toEqual([])
  },
)

test.each([
  ['broken HTTP', 'GET /items/a HTTP/1.1\r\nhost : x\r\n\r\n', 400],
  [
    'two Host headers',
    'GET /items/a HTTP/1.1\r\nHost: a\r\nhost: b\r\nconnection: close\r\n\r\n',
    400,
  ],
  [
    'two equal Host headers',
    'GET /items/a HTTP/1.1\r\nHost: a\r\nHost: a\r\nconnection: close\r\n\r\n',
    400,
  ],
  ['an HTTP/1.1 request without Host', 'GET /items/a HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
  ['a method that HTTP does not know', 'FOO /items/a HTTP/1.1\r\nhost: x\r\n\r\n', 400],
  [
    'an unknown expectation',
    'GET /items/a HTTP/1.1\r\nhost: x\r\nexpect: x\r\nconnection: close\r\n\r\n',
    200,
  ],
  ['HTTP/1.0 without Host', 'GET /items/a HTTP/1.0\r\n\r\n', 200],
])(
  'what Node answers by itself to %s has the headers and the shape of every answer too',
  async (_kind, text, status) => {
    const [head = '', body = ''] = (await exchange(app, text)).split('\r\n\r\n')
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(head).toMatch(/\r\ncontent-security-policy: default-src 'none';/)
    expect(head).toMatch(/\r\nx-content-type-options: nosniff\r\n/)
    expect(head).toMatch(/\r\nx-api-version: 1\r\n/)
    if (status === 400) expect(JSON.parse(body).code).toBe('BAD_REQUEST')
  },
)

test('T22: a content type given twice cannot get past the validation', async () => {
  seen.length = 0
  const answer = await exchange(
    app,
    'POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 10\r\n\r\n{"name":5}',
  )
  expect(answer).toMatch(/^HTTP\/1\.1 (422|415) /)
  expect(seen).toEqual([])
})

test('garbage after a request that is still being answered is not answered in its place', async () => {
  const own = publicServer()
  let finish: (() => void) | undefined
  own.post(
    '/charge',
    { config: { money: { retrySafeWhenUnknown: true } } },
    () => new Promise((resolve) => (finish = () => resolve({ charged: true }))),
  )
  const socket = await open(own, 'POST /charge HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n')
  const answer = readAll(socket)
  while (!finish) await new Promise((resolve) => setTimeout(resolve, 5))
  socket.write('garbage\r\n\r\n')
  expect(await answer).toBe('')
  finish()
  await own.close()
})

test('answers that do not fit their schema are a constant 500', async () => {
  const own = publicServer()
  own.get(
    '/wrong',
    { schema: { response: { 200: z.object({ n: z.number() }) } } },
    // The type would not allow it; data from a database may.
    async () => JSON.parse('{"n":"secret text"}'),
  )
  const answer = await own.inject({ method: 'GET', url: '/wrong' })
  expect([answer.statusCode, answer.json().code]).toEqual([500, 'INTERNAL_ERROR'])
  expect(answer.body).not.toContain('secret')
})
