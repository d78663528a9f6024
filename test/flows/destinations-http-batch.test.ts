import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import type { DeliveryJob } from '../../src/flows/types.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

type Call = { method: string; url: string; headers: IncomingHttpHeaders; body: unknown }
type Answer = { status: number; body?: unknown; headers?: Record<string, string> }

const calls: Call[] = []
let answer: (call: Call) => Answer = () => ({ status: 200 })
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { method = '', url = '', headers } = request
    const call = { method, url, headers, body: text === '' ? undefined : JSON.parse(text) }
    calls.push(call)
    const { status, body, headers: given } = answer(call)
    response.writeHead(status, { 'content-type': 'application/json', ...given })
    response.end(body === undefined ? '' : JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  calls.length = 0
  answer = () => ({ status: 200 })
})
afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const written = (text: string) => new Secret([{ text, isWritten: true }], text)
const jobs = (...pks: string[]): DeliveryJob[] =>
  pks.map((pk) => job({ pk, key: [pk], body: { sku: pk }, jobKey: pk.padEnd(64, '0') }))

function open(batch: Partial<NonNullable<HttpSettings['batch']>> = {}, isOwn = true) {
  const request = { method: 'PUT', url: written(`${base}/one/{pk}`), headers: {} } as const
  const many = { method: 'POST', url: written(`${base}/many`), headers: {} } as const
  return new HttpDestination({
    request: isOwn ? request : many,
    batch: { size: 10, request: many, ...batch },
    timeoutMs: 5_000,
    respectRetryAfter: true,
    agent,
    now: clock(),
  })
}
const together = (destination: ReturnType<typeof open>, ...pks: string[]) =>
  destination.batches?.deliver(jobs(...pks), never)

test('several items are sent in one request with its own key, and the status counts for all', async () => {
  expect(await together(open(), 'a', 'b')).toEqual([
    { ok: true, status: 200 },
    { ok: true, status: 200 },
  ])
  await together(open(), 'a', 'b')
  await together(open(), 'a', 'c')
  expect(calls.map(({ method, url, body }) => [method, url, body])[0]).toEqual([
    'POST',
    '/many',
    [{ sku: 'a' }, { sku: 'b' }],
  ])
  const keys = calls.map(({ headers }) => headers['idempotency-key'])
  expect(keys[1]).toBe(keys[0])
  expect(keys[2]).not.toBe(keys[0])
})

test('the answer has the outcome of each item', async () => {
  const destination = open({
    body: '{ "update": items, "keys": jobKeys }',
    answers: 'body.update.{ "status": code, "error": message }',
  })
  answer = () => ({
    status: 200,
    body: {
      update: [{ code: 200 }, { code: 422, message: 'no such tax' }, { code: 503 }, { code: 429 }],
    },
  })
  expect(await together(destination, 'a', 'b', 'c', 'd')).toEqual([
    { ok: true, status: 200 },
    expect.objectContaining({
      ok: false,
      retryable: false,
      status: 422,
      why: { code: 'HTTP_STATUS', data: { status: 422, said: 'no such tax' } },
    }),
    expect.objectContaining({ ok: false, retryable: true, outage: true, status: 503 }),
    expect.objectContaining({ ok: false, retryable: true, status: 429 }),
  ])
  expect(calls[0]?.body).toEqual({
    update: [{ sku: 'a' }, { sku: 'b' }, { sku: 'c' }, { sku: 'd' }],
    keys: Array.from({ length: 4 }, () => expect.stringMatching(/^[0-9a-f]{64}$/)),
  })
  const keys = (calls[0]?.body as { keys: string[] } | undefined)?.keys
  expect(new Set(keys).size).toBe(4)
})

test.each([
  ['[true, false]', [{ ok: true }, { ok: false, retryable: false }]],
  [
    '[{ "ok": true }, { "error": { "code": "x" } }]',
    [{ ok: true }, { ok: false, why: { code: 'BATCH_SAID', data: { said: '{"code":"x"}' } } }],
  ],
  [
    '[true]',
    [
      { ok: false, retryable: true },
      { ok: false, retryable: true },
    ],
  ],
  [
    '[{ "ok": false, "status": 200, "error": "no such sku" }, { "ok": true, "status": 200 }]',
    [
      { ok: false, retryable: false, why: { code: 'BATCH_SAID', data: { said: 'no such sku' } } },
      { ok: true, status: 200 },
    ],
  ],
  [
    '[{ "ok": false, "status": 503 }, { "ok": false, "status": 422 }]',
    [
      { ok: false, retryable: true, status: 503 },
      { ok: false, retryable: false, status: 422 },
    ],
  ],
  [
    'body.nothing',
    [
      { ok: false, retryable: true },
      { ok: false, retryable: true },
    ],
  ],
  [
    '[{ "is": "retry", "error": "sku is taken", "remember": { "id": 7 } }, { "is": "gone" }]',
    [
      {
        ok: false,
        retryable: true,
        outage: false,
        why: { code: 'BATCH_SAID', data: { said: 'sku is taken' } },
        remember: { id: 7 },
      },
      { ok: false, retryable: true, outage: false, forget: true },
    ],
  ],
])(
  'with the answer %s no item counts as done unless the answer says so',
  async (answers, expected) => {
    answer = () => ({ status: 200, body: {} })
    expect(await together(open({ answers }), 'a', 'b')).toMatchObject(expected)
  },
)

test('a refused batch is split; a failure that is not of an item counts for all', async () => {
  answer = () => ({ status: 422, body: { error: 'one of them' } })
  expect(await together(open(), 'a', 'b')).toBe('apart')
  answer = () => ({ status: 503, headers: { 'retry-after': '7' } })
  expect(await together(open(), 'a', 'b')).toMatchObject([
    { ok: false, retryable: true, outage: true, retryAfterSeconds: 7 },
    { ok: false, retryable: true, outage: true, retryAfterSeconds: 7 },
  ])
})

test('a batch whose answer is too large to be read is made smaller, since its results are in it', {
  tags: ['long'],
}, async () => {
  answer = () => ({ status: 200, body: ['x'.repeat(9 * 1_048_576)] })
  expect(await together(open({ answers: 'body' }), 'a', 'b')).toBe('apart')
  // Without answers of the items the status counts for all.
  expect(await together(open(), 'a', 'b')).toMatchObject([{ ok: true }, { ok: true }])
  // A batch of one cannot be made smaller.
  const [one] = jobs('a')
  if (!one) throw new Error('no job')
  expect(await open({ answers: 'body' }, false).deliver(one, never)).toMatchObject({
    ...{ ok: false, retryable: true, outage: false },
    why: { code: 'BATCH_TOO_LARGE' },
  })
})

test('a single item uses the request for single items, or is a batch of one', async () => {
  const [one] = jobs('a')
  if (!one) throw new Error('no job')
  expect(await open().deliver(one, never)).toMatchObject({ ok: true })
  expect(await open({ answers: '[body.results]' }, false).deliver(one, never)).toMatchObject({
    ok: false,
  })
  // No other request could take the item, so the refusal counts as an attempt.
  answer = () => ({ status: 200, body: {} })
  const apart = open({ answers: '[{ "is": "apart", "error": "unknown sku" }]' }, false)
  expect(await apart.deliver(one, never)).toEqual({
    ...{ ok: false, retryable: true, outage: false, status: 200, apart: false },
    why: { code: 'BATCH_SAID', data: { said: 'unknown sku' } },
  })
  answer = () => ({ status: 422 })
  expect(await open({}, false).deliver(one, never)).toMatchObject({
    ok: false,
    retryable: false,
    status: 422,
  })
  expect(calls.map(({ url, body }) => [url, body])).toEqual([
    ['/one/a', { sku: 'a' }],
    ['/many', [{ sku: 'a' }]],
    ['/many', [{ sku: 'a' }]],
    ['/many', [{ sku: 'a' }]],
  ])
})
