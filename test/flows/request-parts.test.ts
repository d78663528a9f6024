import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

/** A receiver refuses a whole body for one of its values: the other values are sent in requests of their own. */
type Received = { body: Record<string, unknown>; key: string }
let received: Received[] = []
let statusOf: (body: Record<string, unknown>) => number = () => 200
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const body = JSON.parse(text)
    received.push({ body, key: String(request.headers['idempotency-key']) })
    const status = statusOf(body)
    const why = status === 422 ? { error: 'price is wrong' } : {}
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(why))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
beforeEach(() => {
  received = []
})
afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const parts = [
  '$exists(body.price) ? { "price": body.price }',
  '$exists(body.stock) ? { "stock": body.stock }',
]
const open = (change: Partial<HttpSettings> = {}) =>
  new HttpDestination({
    request: {
      ...{ method: 'PUT', headers: {}, parts },
      url: new Secret([{ text: `${base}/items/1`, isWritten: true }], `${base}/items/1`),
    },
    ...{ timeoutMs: 5_000, respectRetryAfter: true, agent, now: clock() },
    ...change,
  })
const given = (body: Record<string, unknown> = { price: -1, stock: 3 }) => job({ body })
const bodies = () => received.map(({ body }) => body)
const refusesPrice = (status: number) => (body: Record<string, unknown>) =>
  'price' in body ? status : 200

test.each([400, 422])('a part that the receiver takes arrives after %i', async (status) => {
  statusOf = refusesPrice(status)
  const result = await open().deliver(given(), never)
  expect(bodies()).toEqual([{ price: -1, stock: 3 }, { price: -1 }, { stock: 3 }])
  // The reason is the refusal of the whole. The item is not in sync.
  expect(result).toMatchObject({ ok: false, retryable: false, status })
  expect(new Set(received.map(({ key }) => key)).size).toBe(3)
})

test('when the receiver takes every part the item has arrived', async () => {
  statusOf = (body) => (Object.keys(body).length > 1 ? 422 : 200)
  expect(await open().deliver(given(), never)).toEqual({ ok: true, status: 200 })
})

test('a part without a value is left out', async () => {
  statusOf = () => 422
  await open().deliver(given({ price: -1 }), never)
  expect(bodies()).toEqual([{ price: -1 }, { price: -1 }])
})

test('an outage during a part repeats the item', async () => {
  statusOf = (body) => ('price' in body ? 422 : 503)
  const result = await open().deliver(given(), never)
  expect(result).toMatchObject({ ok: false, retryable: true, outage: true, status: 503 })
})

test.each([401, 403, 404, 409, 500])('%i refuses no value: no part follows', async (status) => {
  statusOf = () => status
  await open().deliver(given(), never)
  expect(received.length).toBe(1)
})

test('a taken request, and a request without parts, is one request', async () => {
  statusOf = () => 200
  await open().deliver(given(), never)
  expect(received.length).toBe(1)
})
