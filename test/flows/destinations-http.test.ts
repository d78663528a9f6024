import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { clock, job, never } from './destinations-job.ts'

type Call = { method: string; url: string; headers: IncomingMessage['headers']; body: string }

const calls: Call[] = []
let answer: (response: ServerResponse, call: Call) => void = (response) => response.end()
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const { method = '', url = '', headers } = request
    const call = { method, url, headers, body }
    calls.push(call)
    answer(response, call)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterEach(() => {
  calls.length = 0
  answer = (response) => response.end()
})

afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

function open(change: Partial<HttpSettings> = {}) {
  return new HttpDestination({
    request: { method: 'PUT', url: written(`${base}/api/stores/{pk}`), headers: {} },
    timeoutMs: 5_000,
    respectRetryAfter: true,
    agent,
    now: clock(),
    ...change,
  })
}

/** A literal text of the flow file, and a referenced one. */
const written = (text: string) => new Secret([{ text, isWritten: true }], text)
const secret = (text: string) => new Secret(text, '${env' + ':X}')

function answerWith(status: number, headers: Record<string, string> = {}, body = '') {
  answer = (response) => response.writeHead(status, headers).end(body)
}

test('an item arrives as JSON under its percent-encoded key, with the idempotency key', async () => {
  const pk = 'a/b?c#d%2F ñ😀|x'
  expect(await open().deliver(job({ pk }), never)).toEqual({ ok: true, status: 200 })
  const [call] = calls
  expect(call?.method).toBe('PUT')
  expect(call?.url).toBe(`/api/stores/${encodeURIComponent(pk)}`)
  expect(call?.headers['idempotency-key']).toMatch(/^[0-9a-f]{64}$/)
  expect(call?.headers['content-type']).toBe('application/json')
  expect(JSON.parse(call?.body ?? '')).toEqual({ external_id: 'SUC-1', name: 'Centro' })
})

test('headers of the definition have precedence in any case, and may contain the placeholders', async () => {
  const headers = {
    'Idempotency-Key': written('own-{jobKey}'),
    authorization: secret('Bearer t0ken-of-the-shop'),
    'x-item': written('item {pk}'),
  }
  const request = { method: 'POST', url: written(`${base}/items?key={jobKey}`), headers } as const
  await open({ request }).deliver(job({ pk: 'ñ\r\nx: y' }), never)
  const [call] = calls
  const key = String(call?.headers['idempotency-key']).replace('own-', '')
  expect(key).toMatch(/^[0-9a-f]{64}$/)
  expect(call?.headers.authorization).toBe('Bearer t0ken-of-the-shop')
  expect(call?.headers['x-item']).toBe('item %C3%B1%0D%0Ax%3A%20y')
  expect(call?.headers.x).toBeUndefined()
  expect(call?.url).toBe(`/items?key=${key}`)
})

test.each(['.', '..'])('the key %s never changes the path', async (pk) => {
  const result = await open().deliver(job({ pk }), never)
  expect(result).toMatchObject({ ok: false, retryable: false, outage: false })
  expect(calls).toHaveLength(0)
})

test('nothing is sent when the mapping returns nothing', async () => {
  for (const body of [undefined, null]) {
    expect(await open().deliver(job({ body }), never)).toMatchObject({ retryable: false })
  }
  expect(calls).toHaveLength(0)
})

test('GET and DELETE carry no body; a delete uses its own request and statuses', async () => {
  const destination = open({
    delete: {
      method: 'DELETE',
      url: written(`${base}/gone/{pk}`),
      headers: {},
      okStatus: [204, 404],
    },
  })
  answerWith(404)
  expect(await destination.deliver(job({ kind: 'delete' }), never)).toEqual({
    ok: true,
    status: 404,
  })
  answerWith(200)
  expect(await destination.deliver(job({ kind: 'delete' }), never)).toMatchObject({ ok: false })
  expect(calls.map((call) => [call.method, call.url, call.body])).toEqual([
    ['DELETE', '/gone/SUC-1', ''],
    ['DELETE', '/gone/SUC-1', ''],
  ])
  expect(calls[0]?.headers['content-type']).toBeUndefined()
})

test('a delete without a delete request is refused without a request', async () => {
  const result = await open().deliver(job({ kind: 'delete' }), never)
  expect(result).toMatchObject({ ok: false, retryable: false })
  expect(calls).toHaveLength(0)
})

test.each([
  [200, true, false, false],
  [299, true, false, false],
  [302, false, false, false],
  [400, false, false, false],
  [404, false, false, false],
  [408, false, true, false],
  [409, false, true, false],
  [423, false, true, false],
  [425, false, true, false],
  [429, false, true, true],
  [500, false, true, true],
  [503, false, true, true],
])('status %i: ok %s, retryable %s, outage %s', async (status, ok, retryable, outage) => {
  answerWith(status)
  const result = await open().deliver(job(), never)
  expect(result).toMatchObject(ok ? { ok } : { ok, retryable, outage, status })
})

test('the list of retried statuses replaces the default one', async () => {
  const destination = open({ retryStatus: [409] })
  answerWith(409)
  expect(await destination.deliver(job(), never)).toMatchObject({ retryable: true, outage: false })
  answerWith(503)
  expect(await destination.deliver(job(), never)).toMatchObject({ retryable: false, outage: true })
})

test('Retry-After is returned in seconds, from a number and from a date, when it is respected', async () => {
  for (const [header, seconds] of [
    ['17', 17],
    ['Sat, 21 Nov 2026 14:31:30 GMT', 90],
  ] as const) {
    answerWith(429, { 'retry-after': header })
    expect(await open().deliver(job(), never)).toMatchObject({ retryAfterSeconds: seconds })
    expect(await open({ respectRetryAfter: false }).deliver(job(), never)).not.toHaveProperty(
      'retryAfterSeconds',
    )
  }
})

test('a refusal shows status, media type and a short text, without secrets', async () => {
  const headers = {
    authorization: secret('Bearer t0ken-of-the-shop'),
    'x-key': secret('k3y-of-the-shop'),
  }
  const url = secret(`${base}/api?auth=s3cret-in-the-query`)
  const echo = `bad\u0000 \u001b[31mname, you sent t0ken-of-the-shop k3y-of-the-shop s3cret-in-the-query ${'x'.repeat(500)}`
  answerWith(422, { 'content-type': 'text/plain; charset=utf-8' }, echo)
  const result = await open({ request: { method: 'PUT', url, headers } }).deliver(job(), never)
  const reason = result.ok ? '' : sentenceOf(result.why, 'en')
  expect(reason).toMatch(/^HTTP 422 \(text\/plain\) bad \[31mname, you sent \[masked\]/)
  expect(reason).not.toMatch(/t0ken|k3y|s3cret/)
  expect(reason.length).toBeLessThan(250)
})

test('a secret is hidden in every spelling in which a receiver may repeat it', async () => {
  const token = 'p4ss/w+rd "of" the shop'
  const login = Buffer.from(`till:${token}`).toString('base64')
  const headers = { authorization: secret(`Basic ${login}`), 'x-key': secret(token) }
  const request = { method: 'PUT', url: written(base), headers } as const
  const inBase64 = ['', 'a', 'ab'].map((before) => Buffer.from(`${before}${token}!`))
  for (const echo of [
    JSON.stringify({ token }),
    JSON.stringify({ token }).replaceAll('/', '\\/'),
    encodeURIComponent(token),
    `till:${token}`,
    login,
    ...inBase64.flatMap((bytes) => [bytes.toString('base64'), bytes.toString('base64url')]),
  ]) {
    answerWith(401, { 'content-type': 'text/plain' }, `no access for ${echo}`)
    const result = await open({ request }).deliver(job(), never)
    const reason = result.ok ? '' : sentenceOf(result.why, 'en')
    expect(reason).toMatch(/no access for .*\[masked\]/)
    expect(reason).not.toMatch(/p4ss|w\+rd|w%2Brd/)
    // At most the base64 characters that also depend on the neighbouring text.
    expect(reason.replace('[masked]', '').length).toBeLessThan(60)
  }
})

test('a page of HTML is not quoted', async () => {
  answerWith(404, { 'content-type': 'text/html' }, '<h1>Not found</h1>')
  expect(await open().deliver(job(), never)).toMatchObject({
    why: { code: 'HTTP_STATUS', data: { status: 404, said: '(text/html)' } },
  })
})

test('the status counts when the answer is too large to read, for success and failure', async () => {
  const large = 'x'.repeat(1_200_000)
  answerWith(200, {}, large)
  expect(await open().deliver(job(), never)).toEqual({ ok: true, status: 200 })
  answerWith(503, { 'retry-after': '5' }, large)
  expect(await open().deliver(job(), never)).toMatchObject({ status: 503, retryAfterSeconds: 5 })
})

test('a redirect is not followed and not retried', async () => {
  answerWith(307, { location: `${base}/elsewhere` })
  expect(await open().deliver(job(), never)).toMatchObject({
    ...{ retryable: false, status: 307 },
    why: { code: 'HTTP_REDIRECT', data: { status: 307, to: base } },
  })
  answerWith(301, { location: '/only/a/path' })
  expect(await open().deliver(job(), never)).toMatchObject({
    why: { code: 'HTTP_REDIRECT', data: { status: 301 } },
  })
  expect(calls).toHaveLength(2)
})

test('a dropped connection and a closed port are outages and are retried', async () => {
  answer = (response) => response.socket?.destroy()
  expect(await open().deliver(job(), never)).toMatchObject({ retryable: true, outage: true })
  const request = { method: 'PUT', url: written('http://127.0.0.1:9/'), headers: {} } as const
  const closed = await open({ request }).deliver(job(), never)
  expect(closed).toMatchObject({ retryable: true, outage: true })
})

test('a stop of the service is no outage, and a timeout is one', async () => {
  answer = () => {}
  const stopped = AbortSignal.abort()
  expect(await open().deliver(job(), stopped)).toMatchObject({ retryable: true, outage: false })
  const late = await open().deliver(job(), AbortSignal.timeout(40))
  expect(late).toMatchObject({ retryable: true, outage: true })
})

test('a private address is refused for good unless the flow allows private networks', async () => {
  const strict = createGuardedAgent({ allowPrivateNetwork: false })
  const result = await open({ agent: strict }).deliver(job(), never)
  expect(result).toMatchObject({ ok: false, retryable: false, outage: false })
  expect(calls).toHaveLength(0)
  await strict.close()
})
