import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

/** The requests of `find`: searches, lookups that use found values, and lookups for every request. */

type Given = { status?: number; body?: unknown; headers?: Record<string, string> }

let answers: Record<string, Given> = {}
let asked: string[] = []
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer((request, response) => {
    const { method, url = '', headers } = request
    asked.push([method, url, headers['x-version']].filter(Boolean).join(' '))
    const { status = 200, body, headers: sent } = answers[`${method} ${url}`] ?? {}
    response.writeHead(status, { 'content-type': 'application/json', ...sent })
    response.end(JSON.stringify(body ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
beforeEach(() => {
  asked = []
  answers = {
    'GET /search/A': { body: { id: 7 } },
    'GET /items/7': { body: { product: 'U7' } },
    'GET /stock/U7': { body: {}, headers: { 'x-version': '12' } },
  }
})
afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const written = (text: string) => new Secret([{ text, isWritten: true }], text)
const to = (method: 'GET' | 'PUT' | 'DELETE', path: string) => ({
  ...{ method, url: written(base + path), headers: {} },
})
const versioned = { 'x-version': written('{remembered.version}') }
const open = (change: Partial<HttpSettings> = {}) =>
  new HttpDestination({
    request: { ...to('PUT', '/stock/{remembered.product}'), headers: versioned },
    delete: { ...to('DELETE', '/stock/{remembered.product}'), headers: versioned },
    find: [
      { ...to('GET', '/search/{pk}'), remember: { id: 'id' } },
      { ...to('GET', '/items/{remembered.id}'), remember: { product: 'product' } },
      {
        ...to('GET', '/stock/{remembered.product}'),
        remember: { version: '$headers."x-version"' },
        fresh: true,
      },
    ],
    remember: { product: 'product' },
    ...{ timeoutMs: 5_000, respectRetryAfter: true, agent, now: clock() },
    ...change,
  })
const known = { product: 'U7' }

test('a request uses the results of the one before it; fresh values are not stored', async () => {
  const result = await open().deliver(job({ pk: 'A' }), never)
  expect(asked).toEqual(['GET /search/A', 'GET /items/7', 'GET /stock/U7', 'PUT /stock/U7 12'])
  expect(result).toEqual({ ok: true, status: 200, remember: { id: 7, product: 'U7' } })
})

test('for a known item only fresh values are requested, each time', async () => {
  const destination = open()
  await destination.deliver(job({ pk: 'A', remembered: known }), never)
  answers['GET /stock/U7'] = { body: {}, headers: { 'x-version': '13' } }
  await destination.deliver(job({ pk: 'A', remembered: known }), never)
  expect(asked.filter((one) => one.startsWith('PUT'))).toEqual([
    'PUT /stock/U7 12',
    'PUT /stock/U7 13',
  ])
  expect(asked).toHaveLength(4)
})

test('nothing is sent when the search returns no value', async () => {
  answers['GET /items/7'] = { status: 404 }
  const result = await open().deliver(job({ pk: 'A' }), never)
  expect(result).toMatchObject({ ok: false, retryable: false })
  expect(asked).toEqual(['GET /search/A', 'GET /items/7'])
})

test('after a 404 to a fresh look-up a change is retried and a delete is done', async () => {
  answers['GET /stock/U7'] = { status: 404 }
  const one = job({ pk: 'A', remembered: known })
  expect(await open().deliver(one, never)).toMatchObject({
    ok: false,
    retryable: true,
    forget: true,
  })
  const removed = await open().deliver({ ...one, kind: 'delete' }, never)
  expect(removed).toMatchObject({ ok: true, forget: true })
  expect(asked).toEqual(['GET /stock/U7', 'GET /stock/U7'])
})

test('an answer without a fresh value sends nothing: the item is searched again, and then fails', async () => {
  answers['GET /stock/U7'] = { body: {} }
  const why = { code: 'LOOKUP_INCOMPLETE' }
  const change = (remembered: typeof known | undefined) =>
    open().deliver(job({ pk: 'A', remembered }), never)
  expect(await change(known)).toMatchObject({ ok: false, retryable: true, forget: true, why })
  expect(await change(undefined)).toMatchObject({ ok: false, retryable: false, why })
  const removed = job({ pk: 'A', kind: 'delete', remembered: known })
  expect(await open().deliver(removed, never)).toMatchObject({ ok: false, retryable: false, why })
  expect(asked.filter((one) => !one.startsWith('GET'))).toEqual([])
})

test('a change goes on with what a search finds; a delete never takes another thing than was delivered', async () => {
  answers['GET /stock/U7'] = { body: {} }
  answers['GET /items/7'] = { body: { product: 'U8' } }
  answers['GET /stock/U8'] = { body: {}, headers: { 'x-version': '3' } }
  const removed = job({ pk: 'A', kind: 'delete', remembered: known })
  expect(await open().deliver(removed, never)).toMatchObject({ ok: false, retryable: false })
  // U8 may be the row of another item that has the same SKU.
  expect(asked).toEqual(['GET /stock/U7'])
  const change = job({ pk: 'A', remembered: known })
  expect(await open().deliver(change, never)).toMatchObject({ retryable: true, forget: true })
  expect(await open().deliver({ ...change, remembered: undefined }, never)).toMatchObject({
    ...{ ok: true, remember: { product: 'U8' } },
  })
  expect(asked.at(-1)).toBe('PUT /stock/U8 3')
})

test('after a temporary failure of a fresh look-up nothing is sent, and the attempt is repeated', async () => {
  answers['GET /stock/U7'] = { status: 503 }
  const result = await open().deliver(job({ pk: 'A', remembered: known }), never)
  expect(result).toMatchObject({ ok: false, retryable: true })
  expect(result).not.toHaveProperty('forget')
  expect(asked).toEqual(['GET /stock/U7'])
})

test('a fresh value that is remembered is stored; with another one a change searches again, and a delete sends nothing', async () => {
  const bySku = (variant: unknown) => ({ body: { product: 'U7', variant } })
  answers['GET /items/7'] = bySku(11)
  const destination = open({
    find: [
      { ...to('GET', '/search/{pk}'), remember: { id: 'id' } },
      {
        ...to('GET', '/items/{remembered.id}'),
        ...{ remember: { variant: 'variant', product: 'product' }, fresh: true },
      },
    ],
    request: to('PUT', '/items/{remembered.id}/{remembered.variant}'),
    delete: to('DELETE', '/items/{remembered.id}/{remembered.variant}'),
    remember: { id: 'nothing', variant: 'nothing' },
  })
  expect(await destination.deliver(job({ pk: 'A' }), never)).toMatchObject({
    ...{ ok: true, remember: { id: 7, variant: 11 } },
  })
  const known = { id: 7, variant: 11 }
  answers['GET /items/7'] = bySku('11')
  expect(await destination.deliver(job({ pk: 'A', remembered: known }), never)).toMatchObject({
    ok: true,
  })
  asked = []
  answers['GET /items/7'] = bySku(12)
  const why = { code: 'LOOKUP_DIFFERS' }
  const change = job({ pk: 'A', remembered: known })
  expect(await destination.deliver(change, never)).toMatchObject({
    ...{ ok: false, retryable: true, forget: true, why },
  })
  const removed = await destination.deliver({ ...change, kind: 'delete' }, never)
  expect(removed).toMatchObject({ ok: false, retryable: false, why })
  expect(asked).toEqual(['GET /items/7', 'GET /items/7'])
})
