import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import type { Agent } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { guardedRequest, RequestFailure } from '../../src/outbound/guarded-request.ts'

let server: Server
let base: string
let agent: Agent
let handle: (request: IncomingMessage, response: ServerResponse) => void
const seen: string[] = []

beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    handle(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  agent = createGuardedAgent({ allowPrivateNetwork: true, connectTimeoutMs: 2_000 })
})
afterAll(async () => {
  await agent.destroy()
  server.closeAllConnections()
  server.close()
})

const get = (url: string, more: object = {}) =>
  guardedRequest({ agent, method: 'GET', url, timeoutMs: 5_000, ...more })

async function kindOf(work: Promise<unknown>): Promise<string> {
  const error = await work.catch((reason: unknown) => reason)
  return error instanceof RequestFailure ? error.kind : 'no failure'
}

test('an answer has its status, headers, body and the Retry-After', async () => {
  handle = (request, response) => {
    response.writeHead(429, { 'retry-after': '7', 'x-path': request.url })
    request.pipe(response)
  }
  const body = '{"á":1}'
  const answer = await get(`${base}/a?b=1`, { method: 'PUT', body, headers: { 'x-a': 'b' } })
  expect(answer).toMatchObject({ status: 429, retryAfterSeconds: 7 })
  expect(answer.headers['x-path']).toBe('/a?b=1')
  expect(answer.body.toString()).toBe(body)
})

test('a compressed body is decompressed within the limit; one that is not compressed as declared is returned unchanged', async () => {
  const packings = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }
  for (const [name, pack] of Object.entries(packings)) {
    handle = (_request, response) =>
      response.writeHead(200, { 'content-encoding': name }).end(pack('x'.repeat(2_000)))
    expect((await get(base, { maxBytes: 2_000 })).body.toString()).toBe('x'.repeat(2_000))
    expect(await kindOf(get(base, { maxBytes: 1_999 }))).toBe('too_large')
    handle = (_request, response) =>
      response.writeHead(201, { 'content-encoding': name }).end('plain')
    expect(await get(base)).toMatchObject({ status: 201, body: Buffer.from('plain') })
  }
})

test('Retry-After as a date is relative to the given clock', async () => {
  handle = (_request, response) =>
    response.writeHead(503, { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }).end()
  const now = () => Date.parse('2026-10-21T07:27:30Z')
  expect((await get(base, { now })).retryAfterSeconds).toBe(30)
})

test('a body over the limit is too large, with and without a declared length', async () => {
  handle = (_request, response) => response.end('x'.repeat(2_000))
  expect(await kindOf(get(base, { maxBytes: 1_999 }))).toBe('too_large')
  expect((await get(base, { maxBytes: 2_000 })).body.length).toBe(2_000)
  handle = (_request, response) => {
    const timer = setInterval(() => response.write('x'.repeat(1_000)), 1)
    response.on('close', () => clearInterval(timer))
  }
  expect(await kindOf(get(base, { maxBytes: 10_000 }))).toBe('too_large')
})

test('no data for the timeout is a failure, before the headers and within the body', async () => {
  handle = () => undefined
  expect(await kindOf(get(base, { timeoutMs: 50 }))).toBe('timeout')
  handle = (_request, response) => {
    response.write('half')
  }
  expect(await kindOf(get(base, { timeoutMs: 50 }))).toBe('timeout')
})

test('an aborted request ends with "aborted", also before the start', async () => {
  handle = () => undefined
  const given = new AbortController()
  const work = get(base, { signal: given.signal })
  given.abort()
  expect(await kindOf(work)).toBe('aborted')
  expect(await kindOf(get(base, { signal: AbortSignal.abort() }))).toBe('aborted')
})

test('a refused connection, an unknown name, and a dropped or incomplete answer are network failures', async () => {
  const dropping = createTcpServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => dropping.listen(0, '127.0.0.1', resolve))
  const { port } = dropping.address() as AddressInfo
  expect(await kindOf(get(`http://127.0.0.1:${port}/`))).toBe('network')
  await new Promise((resolve) => dropping.close(resolve))
  const refused = await get(`http://127.0.0.1:${port}/`).catch((error) => error)
  expect(refused).toMatchObject({ kind: 'network', code: 'ECONNREFUSED' })
  expect(String(refused)).toMatch(/no answer from 127\.0\.0\.1:\d+ \(ECONNREFUSED\)/)
  expect(await kindOf(get('http://no-such-host.invalid/'))).toBe('network')
  handle = (_request, response) => {
    response.writeHead(200, { 'content-length': '100' })
    response.write('half')
    setTimeout(() => response.destroy(), 10)
  }
  expect(await kindOf(get(base))).toBe('network')
})

test('redirects within the origin are followed three times, for GET only and only when allowed', async () => {
  handle = (request, response) => {
    const step = Number(request.url?.slice(1))
    if (step === 0) response.end('done')
    else response.writeHead(302, { location: `/${step - 1}` }).end()
  }
  const redirects = 'same-origin'
  expect((await get(`${base}/3`, { redirects })).body.toString()).toBe('done')
  expect((await get(`${base}/4`, { redirects })).status).toBe(302)
  expect((await get(`${base}/1`)).status).toBe(302)
  seen.length = 0
  expect((await get(`${base}/1`, { redirects, method: 'POST', body: 'x' })).status).toBe(302)
  expect(seen).toEqual(['POST /1'])
})

test('no failure contains a path, a query or a header', async () => {
  handle = (_request, response) => response.destroy()
  const headers = { authorization: 'Bearer SECRET' }
  const error = await get(`${base}/SECRET?t=SECRET`, { headers }).catch((reason) => reason)
  expect(error).toBeInstanceOf(RequestFailure)
  expect(error.message).not.toContain('SECRET')
})
