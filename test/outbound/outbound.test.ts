import { getEventListeners, once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import {
  type AttemptReport,
  createOutbound,
  OutboundError,
  type OutboundRequest,
  type OutboundSettings,
} from '../../src/outbound/outbound.ts'
import { answer, drop, hang, startServer, torn } from './raw-server.ts'

function client(settings: Partial<OutboundSettings> = {}) {
  const waits: number[] = []
  const outbound = createOutbound({
    timeoutMs: 1_500,
    random: () => 0,
    sleep: async (ms) => {
      waits.push(ms)
    },
    ...settings,
  })
  onTestFinished(() => outbound.close())
  return { ...outbound, waits }
}

const keyed = (url: string): OutboundRequest => ({
  method: 'POST',
  url,
  headers: { 'x-idempotency-key': 'key-1' },
  hasIdempotencyKey: true,
  body: { amount: '1.00' },
})

async function failure(promise: Promise<unknown>): Promise<OutboundError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof OutboundError)) throw new Error(`expected an OutboundError, got ${error}`)
  return error
}

async function closedPort(): Promise<string> {
  const server = await startServer(drop)
  await server[Symbol.asyncDispose]()
  return server.url
}

test('a JSON answer comes back parsed, with its status and headers', async () => {
  await using server = await startServer(answer(201, { id: 'A' }, { 'x-request-id': 'r-1' }))
  const got = await client().send(keyed(server.url))
  expect(got).toMatchObject({ status: 201, body: { id: 'A' }, attempts: 1 })
  expect(got.headers['x-request-id']).toBe('r-1')
})

test('an empty answer is null, and a request without a body sends none', async () => {
  await using server = await startServer(answer(204, undefined))
  const got = await client().send({ method: 'POST', url: server.url })
  expect(got.body).toBeNull()
  expect(server.seen[0]?.body).toBe('')
  expect(server.seen[0]?.headers['content-length']).toBe('0')
  expect(server.seen[0]?.headers['content-type']).toBeUndefined()
})

test('a write repeats with the same key and the same body until it is answered', async () => {
  await using server = await startServer(drop, answer(503, {}), answer(201, { id: 'A' }))
  const { send, waits } = client()
  const got = await send(keyed(server.url))
  expect(got).toMatchObject({ status: 201, attempts: 3 })
  expect(server.seen.map((call) => [call.headers['x-idempotency-key'], call.body])).toEqual(
    Array.from({ length: 3 }, () => ['key-1', '{"amount":"1.00"}']),
  )
  expect(waits).toEqual([250, 500])
})

test('a write without a key is sent once', async () => {
  await using server = await startServer(answer(500, {}))
  const error = await failure(client().send({ method: 'POST', url: server.url, body: {} }))
  expect(server.seen).toHaveLength(1)
  expect(error).toMatchObject({ kind: 'ambiguous', effect: 'unknown', status: 500, attempts: 1 })
})

test('reads repeat, and their failures never have an effect', async () => {
  await using server = await startServer(drop, torn(200), answer(502, {}))
  const error = await failure(client().send({ method: 'GET', url: server.url }))
  expect(server.seen).toHaveLength(3)
  expect(error).toMatchObject({ kind: 'unreachable', effect: 'none', status: 502, attempts: 3 })
})

test('a refused connection excludes an effect', async () => {
  const { send, waits } = client()
  const error = await failure(send(keyed(await closedPort())))
  expect(error).toMatchObject({
    kind: 'unreachable',
    effect: 'none',
    failure: 'connect',
    status: null,
    attempts: 3,
  })
  expect(waits).toHaveLength(2)
})

test('a name that does not resolve excludes an effect', async () => {
  const error = await failure(
    client().send({ ...keyed('http://nowhere.invalid/'), maxAttempts: 1 }),
  )
  expect(error).toMatchObject({ kind: 'unreachable', effect: 'none', failure: 'connect' })
})

test('a handshake that hangs is cut in time and excludes an effect', {
  tags: ['long'],
}, async () => {
  const silent = createServer(() => undefined)
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void silent.close())
  const { port } = silent.address() as AddressInfo
  const error = await failure(
    client({ timeoutMs: 80 }).send({ ...keyed(`https://127.0.0.1:${port}`), maxAttempts: 1 }),
  )
  expect(error).toMatchObject({ kind: 'unreachable', effect: 'none', failure: 'connect' })
  // By our own clock: undici's connect timeout would take half a second or more.
  expect(error.cause).toMatchObject({ name: 'TimeoutError' })
})

test.each([
  ['a connection dropped after sending', drop, 'reset', 'ambiguous'],
  ['headers that never come', hang, 'timeout', 'ambiguous'],
  ['a torn 201', torn(201), 'torn', 'ambiguous'],
  [
    'a body that stops',
    (response: Parameters<typeof hang>[0]) => void response.writeHead(201).write('{'),
    'timeout',
    'ambiguous',
  ],
  [
    'a 201 that is no JSON',
    (response: Parameters<typeof hang>[0]) => void response.writeHead(201).end('<html>'),
    'not_json',
    'invalid_answer',
  ],
  ['a 201 that is too large', answer(201, 'x'.repeat(3_000)), 'oversize', 'invalid_answer'],
] as const)('%s leaves the effect of a write open', async (_name, play, failed, kind) => {
  await using server = await startServer(play)
  const { send } = client({ timeoutMs: 80, maxResponseBytes: 2_000 })
  const error = await failure(send({ ...keyed(server.url), maxAttempts: 1 }))
  expect(error).toMatchObject({ kind, effect: 'unknown', failure: failed, status: null })
  expect(server.seen).toHaveLength(1)
})

test('T45: an answer without a length is bounded too', async () => {
  await using server = await startServer((response) => {
    response.writeHead(200)
    for (let part = 0; part < 10; part += 1) response.write('x'.repeat(500))
    response.end()
  })
  const { send } = client({ maxResponseBytes: 2_000 })
  const error = await failure(send({ method: 'GET', url: server.url }))
  expect(error).toMatchObject({ kind: 'invalid_answer', failure: 'oversize', effect: 'none' })
})

test('a compressed answer is read, and its limit counts after the decompression', async () => {
  await using server = await startServer((response) => {
    const packed = gzipSync(JSON.stringify({ text: 'x'.repeat(3_000) }))
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed)
  })
  const request: OutboundRequest = { method: 'GET', url: server.url }
  const { body } = await client().send(request)
  expect(body).toEqual({ text: 'x'.repeat(3_000) })
  const error = await failure(client({ maxResponseBytes: 2_000 }).send(request))
  expect(error).toMatchObject({ kind: 'invalid_answer', failure: 'oversize', effect: 'none' })
})

test('a redirect is not followed and its credential goes nowhere else', async () => {
  await using other = await startServer(answer(200, {}))
  await using server = await startServer(answer(302, {}, { location: other.url }))
  const error = await failure(client().send(keyed(server.url)))
  expect(other.seen).toEqual([])
  expect(error).toMatchObject({ kind: 'invalid_answer', effect: 'unknown', status: 302 })
})

test.each([
  [400, 'refused'],
  [401, 'unauthorized'],
  [404, 'refused'],
  [409, 'refused'],
  [425, 'refused'],
] as const)('%i is a definite %s and is not repeated', async (status, kind) => {
  await using server = await startServer(answer(status, { code: 'why' }))
  const error = await failure(client().send(keyed(server.url)))
  expect(server.seen).toHaveLength(1)
  expect(error).toMatchObject({ kind, effect: 'none', status, body: { code: 'why' } })
})

test('a refusal that is no JSON or torn still counts by its status', async () => {
  await using server = await startServer(
    (response) => void response.writeHead(404).end('<html>'),
    torn(404),
  )
  const { send } = client()
  for (let call = 0; call < 2; call += 1) {
    const error = await failure(send({ method: 'GET', url: server.url }))
    expect(error).toMatchObject({ kind: 'refused', status: 404, body: null })
  }
})

test('Retry-After is obeyed, and above the ceiling it is handed on', async () => {
  await using server = await startServer(
    answer(429, {}, { 'retry-after': '2' }),
    answer(429, {}, { 'retry-after': '3600' }),
  )
  const { send, waits } = client()
  const error = await failure(send(keyed(server.url)))
  expect(waits).toEqual([2_000])
  expect(server.seen).toHaveLength(2)
  expect(error).toMatchObject({ kind: 'rate_limited', effect: 'none', retryAfterSeconds: 3600 })
})

test.each([
  ['409', 'refused', 'unknown', answer(409, {})],
  ['422', 'refused', 'unknown', answer(422, {})],
  ['429', 'rate_limited', 'unknown', answer(429, {})],
  ['423', 'refused', 'unknown', answer(423, {})],
  ['401', 'unauthorized', 'unknown', answer(401, {})],
  ['503', 'ambiguous', 'unknown', answer(503, {})],
] as const)(
  'after a lost answer a final %s is %s with effect %s',
  async (_s, kind, effect, last) => {
    await using server = await startServer(drop, last)
    const error = await failure(client().send(keyed(server.url)))
    expect(error).toMatchObject({ kind, effect })
  },
)

test('an attempt is sent only while its caller may, up to its first byte', async () => {
  await using server = await startServer(answer(200, {}), answer(200, {}))
  const { send } = client()
  const withheld = { kind: 'unreachable', effect: 'none', failure: 'withheld', attempts: 1 }
  expect(
    await failure(send({ ...keyed(server.url), permit: async () => undefined })),
  ).toMatchObject(withheld)
  expect(
    await failure(send({ ...keyed(server.url), permit: async () => () => false })),
  ).toMatchObject(withheld)
  expect(server.seen).toHaveLength(0)
  await send({ ...keyed(server.url), permit: async () => () => true })
  expect(server.seen).toHaveLength(1)
})

test('a server that went away after a lost answer leaves the effect open', async () => {
  const server = await startServer(drop)
  const { send } = client({ sleep: () => server[Symbol.asyncDispose]() })
  const error = await failure(send({ ...keyed(server.url), maxAttempts: 2 }))
  expect(error).toMatchObject({ kind: 'ambiguous', effect: 'unknown', failure: 'connect' })
})

test('a lone 429 excludes an effect; a lone 423 or 408 does not', async () => {
  await using server = await startServer(answer(429, {}), answer(423, {}), answer(408, {}))
  const { send } = client()
  const once = { ...keyed(server.url), maxAttempts: 1 }
  expect(await failure(send(once))).toMatchObject({ kind: 'rate_limited', effect: 'none' })
  expect(await failure(send(once))).toMatchObject({ kind: 'refused', effect: 'unknown' })
  expect(await failure(send(once))).toMatchObject({ kind: 'ambiguous', effect: 'unknown' })
})

test('the other side can judge its own refusals', async () => {
  await using server = await startServer(answer(409, { code: 'used' }))
  const error = await failure(
    client().send({
      ...keyed(server.url),
      judge: (status) => (status === 409 ? 'ambiguous' : 'proof'),
    }),
  )
  expect(error).toMatchObject({ kind: 'refused', effect: 'unknown' })
})

test('a budget too small for an attempt sends nothing', async () => {
  await using server = await startServer(answer(200, {}))
  const error = await failure(
    client().send({ ...keyed(server.url), untilMs: performance.now() + 900 }),
  )
  expect(server.seen).toEqual([])
  expect(error).toMatchObject({ kind: 'unreachable', effect: 'none', failure: 'deadline' })
})

test('no wait begins that leaves no room for an attempt', async () => {
  await using server = await startServer(answer(503, {}, { 'retry-after': '4' }))
  const clock = { ms: 1_000_000 }
  const { send, waits } = client({ monotonicMs: () => clock.ms })
  await failure(send({ ...keyed(server.url), untilMs: clock.ms + 4_900 }))
  expect([server.seen.length, waits]).toEqual([1, []])
  await failure(send({ ...keyed(server.url), untilMs: clock.ms + 5_000, maxAttempts: 2 }))
  expect([server.seen.length, waits]).toEqual([3, [4_000]])
})

test('a clock that is set back does not prolong the budget', { tags: ['long'] }, async () => {
  await using server = await startServer(hang)
  const clock = { ms: 1_800_000_000_000 }
  const { send } = client({ now: () => clock.ms })
  const failed = failure(
    send({ ...keyed(server.url), untilMs: performance.now() + 1_600, maxAttempts: 3 }),
  )
  await expect.poll(() => server.seen.length).toBe(1)
  clock.ms -= 3_600_000
  expect(await failed).toMatchObject({ failure: 'timeout', attempts: 1 })
})

/** Answers from a thread of its own, 100 ms after it was asked; `asked` turns 1 then. */
const elsewhere = `
  const { createServer } = require('node:http')
  const { parentPort, workerData: asked } = require('node:worker_threads')
  const server = createServer((request, response) => {
    Atomics.store(asked, 0, 1)
    setTimeout(() => response.writeHead(201, { 'content-type': 'application/json' }).end('{}'), 100)
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`

test('an answer that came while this process stood still past the time limit is read', {
  tags: ['long'],
}, async () => {
  const asked = new Int32Array(new SharedArrayBuffer(4))
  const thread = new Worker(elsewhere, { eval: true, workerData: asked })
  onTestFinished(() => void thread.terminate())
  const [port] = await once(thread, 'message')
  const { send } = client({ timeoutMs: 1_200 })
  const answering = send({ ...keyed(`http://127.0.0.1:${port}`), maxAttempts: 1 })
  answering.catch(() => undefined)
  await expect.poll(() => Atomics.load(asked, 0), { interval: 1 }).toBe(1)
  // After this phase of the event loop come the timers, and the sockets only then, as after a stop of the process.
  await setImmediate()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_700)
  expect(await answering).toMatchObject({ status: 201 })
})

test('an attempt is cut at the end of the budget', { tags: ['long'] }, async () => {
  await using server = await startServer(hang)
  const startedAt = performance.now()
  const { send } = client({ timeoutMs: 5_000 })
  const error = await failure(
    send({ ...keyed(server.url), untilMs: performance.now() + 1_050, maxAttempts: 3 }),
  )
  expect(error).toMatchObject({ failure: 'timeout', effect: 'unknown', attempts: 1 })
  expect(performance.now() - startedAt).toBeLessThan(2_500)
})

test('an abort cuts a running attempt and is not repeated', async () => {
  const controller = new AbortController()
  await using server = await startServer((response) => {
    controller.abort()
    hang(response, response.req)
  })
  const { signal } = controller
  // Nothing but the abort ends it before the test's own time is over.
  const { send } = client({ timeoutMs: 600_000 })
  const error = await failure(send({ ...keyed(server.url), signal }))
  expect(error).toMatchObject({ kind: 'ambiguous', effect: 'unknown', failure: 'aborted' })
  expect(server.seen).toHaveLength(1)
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('an abort cuts the wait and tells how the last attempt ended', async () => {
  const controller = new AbortController()
  await using server = await startServer(answer(429, {}))
  const outbound = createOutbound({
    timeoutMs: 1_000,
    policy: { maxAttempts: 3, firstMs: 5_000, shortestMs: 5_000, longestMs: 9_000 },
  })
  onTestFinished(() => outbound.close())
  const startedAt = performance.now()
  const error = await failure(
    outbound.send({
      ...keyed(server.url),
      signal: controller.signal,
      onAttempt: () => setTimeout(() => controller.abort(), 20),
    }),
  )
  expect(error).toMatchObject({ kind: 'rate_limited', effect: 'none' })
  expect(performance.now() - startedAt).toBeLessThan(2_000)
  expect(server.seen).toHaveLength(1)
})

test('an abort during a sleep that does not notice it ends the call too', async () => {
  const controller = new AbortController()
  await using server = await startServer(answer(503, {}))
  const { send } = client({ sleep: async () => controller.abort() })
  const error = await failure(send({ ...keyed(server.url), signal: controller.signal }))
  expect(error).toMatchObject({ status: 503, attempts: 1 })
  expect(server.seen).toHaveLength(1)
})

test('an aborted signal sends nothing', async () => {
  await using server = await startServer(answer(200, {}))
  const error = await failure(client().send({ ...keyed(server.url), signal: AbortSignal.abort() }))
  expect(error).toMatchObject({ kind: 'unreachable', effect: 'none', failure: 'aborted' })
  expect(server.seen).toEqual([])
})

test('a failing sleep that nobody aborted is not swallowed', async () => {
  await using server = await startServer(answer(503, {}))
  const { send } = client({ sleep: () => Promise.reject(new TypeError('broken sleep')) })
  await expect(send(keyed(server.url))).rejects.toThrow('broken sleep')
})

test('every attempt is reported once, with its end', async () => {
  await using server = await startServer(drop, answer(500, { code: 'x' }), answer(200, { id: 1 }))
  const reports: AttemptReport[] = []
  await client().send({ ...keyed(server.url), onAttempt: (report) => reports.push(report) })
  expect(
    reports.map(({ attempt, status, failure: why, refusal }) => ({
      attempt,
      status,
      why,
      refusal,
    })),
  ).toEqual([
    { attempt: 1, status: null, why: 'reset', refusal: null },
    { attempt: 2, status: 500, why: null, refusal: { code: 'x' } },
    { attempt: 3, status: 200, why: null, refusal: null },
  ])
})

test('the error carries neither headers nor body of the request', async () => {
  await using server = await startServer(drop)
  const error = await failure(
    client().send({ ...keyed(server.url), headers: { authorization: 'Bearer very-secret' } }),
  )
  expect(JSON.stringify([error, error.message, error.stack, String(error.cause)])).not.toMatch(
    /very-secret|1\.00/,
  )
})
