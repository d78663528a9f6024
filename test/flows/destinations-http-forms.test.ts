import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import { writeBody } from '../../src/flows/net/http-body.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

type Call = { url: string; headers: IncomingHttpHeaders; text: string }

const calls: Call[] = []
let answer: { status: number; body: string; type?: string } = { status: 200, body: '{}' }
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    calls.push({ url: request.url ?? '', headers: request.headers, text })
    response.writeHead(answer.status, { 'content-type': answer.type ?? 'application/json' })
    response.end(answer.body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  calls.length = 0
  answer = { status: 200, body: '{}' }
})
afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const written = (text: string) => new Secret([{ text, isWritten: true }], text)
const open = (change: Partial<HttpSettings> = {}, url = '/items/{pk}') =>
  new HttpDestination({
    request: { method: 'POST', url: written(base + url), headers: {} },
    timeoutMs: 5_000,
    respectRetryAfter: true,
    agent,
    now: clock(),
    ...change,
  })

test('fields of the body appear in addresses, percent-encoded', async () => {
  const body = { sku: 'a/b ñ', shop: 7, empty: '', list: [1] }
  await open({}, '/shops/{body.shop}/items?sku={body.sku}').deliver(job({ body }), never)
  expect(calls[0]?.url).toBe('/shops/7/items?sku=a%2Fb%20%C3%B1')
  for (const name of ['empty', 'list', 'absent', 'toString']) {
    const result = await open({}, `/items/{body.${name}}`).deliver(job({ body }), never)
    expect(result).toMatchObject({ ok: false, retryable: false })
  }
  for (const sku of ['..', '.']) {
    const result = await open({}, '/items/{body.sku}').deliver(job({ body: { sku } }), never)
    expect(result).toMatchObject({ ok: false, retryable: false })
  }
  expect(calls).toHaveLength(1)
})

test('a form has the format that PHP and Rails read', async () => {
  const body = { name: 'a & b', tags: ['x', 'ñ'], address: { city: 'Rosario' }, none: null }
  await open({ send: 'form' }).deliver(job({ body }), never)
  expect(calls[0]?.headers['content-type']).toBe('application/x-www-form-urlencoded')
  expect([...new URLSearchParams(calls[0]?.text)]).toEqual([
    ['name', 'a & b'],
    ['tags[0]', 'x'],
    ['tags[1]', 'ñ'],
    ['address[city]', 'Rosario'],
  ])
})

test('XML is valid, whatever the values contain', async () => {
  const body = {
    articulo: {
      '@codigo': 'a"<',
      nombre: 'x</nombre>\u0000&',
      precio: [1, 2],
      nada: null,
      otro: { '@a': 1, '#text': 't' },
    },
  }
  await open({ send: 'xml' }).deliver(job({ body }), never)
  expect(calls[0]?.headers['content-type']).toBe('application/xml; charset=utf-8')
  expect(calls[0]?.text).toBe(
    '<?xml version="1.0" encoding="UTF-8"?><articulo codigo="a&quot;&lt;"><nombre>x&lt;/nombre&gt;&amp;</nombre><precio>1</precio><precio>2</precio><nada></nada><otro a="1">t</otro></articulo>',
  )
  for (const wrong of [{ a: 1, b: 2 }, [1], { 'a b': 1 }, { 'a><b': 1 }]) {
    expect(() => writeBody('xml', wrong)).toThrow()
    const result = await open({ send: 'xml' }).deliver(job({ body: wrong }), never)
    expect(result).toMatchObject({ ok: false, retryable: false })
  }
})

test('the signature covers what is sent', async () => {
  const secret = new Secret('top-secret-of-the-shop', '${env' + ':X}')
  await open({
    sign: {
      secret,
      algorithm: 'sha256',
      encoding: 'hex',
      header: 'X-Signature',
      prefix: 'sha256=',
      text: '{method} {path}\n{timestamp}.{body}',
      timestampHeader: 'X-Timestamp',
    },
  }).deliver(job({ body: { text: '{path}' } }), never)
  const [call] = calls
  const timestamp = String(clock()().getTime() / 1_000)
  expect(call?.headers['x-timestamp']).toBe(timestamp)
  const mac = createHmac('sha256', 'top-secret-of-the-shop')
  const signed = mac.update(`POST ${call?.url}\n${timestamp}.${call?.text}`).digest('hex')
  expect(call?.headers['x-signature']).toBe(`sha256=${signed}`)
})

test.each([
  [{ status: 409, body: '{"code":"exists"}' }, { ok: true }],
  [
    { status: 409, body: '{"code":"locked"}' },
    { ok: false, retryable: true },
  ],
  [
    { status: 409, body: '{"code":"other"}' },
    { ok: false, retryable: true },
  ],
  [
    { status: 200, body: '{"errors":[{"message":"no"}]}' },
    { ok: false, retryable: false },
  ],
  [
    { status: 200, body: 'ERROR: stock', type: 'text/plain' },
    { ok: false, retryable: false },
  ],
  [{ status: 200, body: '{"errors":[]}' }, { ok: true }],
  [
    { status: 503, body: 'not now' },
    { ok: false, retryable: true, outage: true },
  ],
])('%j has the form that the rules require', async (given, expected) => {
  answer = given
  const destination = open({
    answers: [
      { status: [409], when: 'body.code = "exists"', is: 'done' },
      { status: [409], when: 'body.code = "locked"', is: 'retry' },
      { status: [200], when: '$count(body.errors) > 0', is: 'final' },
      { when: '$substring(text, 0, 5) = "ERROR"', is: 'final' },
    ],
  })
  expect(await destination.deliver(job(), never)).toMatchObject(expected)
})

test('OAuth2: all requests use one token, a 401 leads to a new one, and no reason contains it', async () => {
  let issued = 0
  const asked: { headers: IncomingHttpHeaders; text: string }[] = []
  let refusedToken = ''
  const issuer = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { headers } = request
    if (request.url === '/token') {
      asked.push({ headers, text })
      issued += 1
      response.writeHead(200, { 'content-type': 'application/json' })
      const token = { access_token: `token-number-${issued}`, expires_in: 3600 }
      return void response.end(JSON.stringify(token))
    }
    const isRefused = headers.authorization === `Bearer ${refusedToken}`
    response.writeHead(isRefused ? 401 : 422, { 'content-type': 'text/plain' })
    response.end(`you sent ${headers.authorization}`)
  })
  await new Promise<void>((resolve) => issuer.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void issuer.close().closeAllConnections())
  const own = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}`
  const destination = open({
    request: { method: 'POST', url: written(`${own}/items`), headers: {} },
    auth: {
      tokenUrl: written(`${own}/token`),
      clientId: written('till'),
      clientSecret: new Secret('s3cret of the client', '${env' + ':X}'),
      scope: 'write',
      clientAuth: 'basic',
    },
  })
  const results = await Promise.all([1, 2, 3].map(() => destination.deliver(job(), never)))
  expect(issued).toBe(1)
  for (const result of results) {
    expect(result).toMatchObject({ ok: false, status: 422 })
    expect(JSON.stringify(result)).not.toContain('token-number')
  }
  expect(asked[0]?.text).toBe('grant_type=client_credentials&scope=write')
  expect(Buffer.from(asked[0]?.headers.authorization?.slice(6) ?? '', 'base64').toString()).toBe(
    'till:s3cret%20of%20the%20client',
  )
  refusedToken = 'token-number-1'
  expect(await destination.deliver(job(), never)).toMatchObject({ ok: false, retryable: true })
  expect(await destination.deliver(job(), never)).toMatchObject({ ok: false, status: 422 })
  expect(issued).toBe(2)
})
