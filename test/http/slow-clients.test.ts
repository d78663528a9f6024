import { expect, test } from 'vitest'
import type { ServerOptions } from '../../src/http/create-server.ts'
import { open, publicServer, readAll } from './sample-app.ts'

const quick = { requestMs: 150, headersMs: 100, checkMs: 20 }

function chargeApp(options: Partial<ServerOptions>) {
  const app = publicServer({ ...options })
  const seen: unknown[] = []
  app.post('/charge', { config: { money: { retrySafeWhenUnknown: true } } }, async (request) => {
    seen.push(request.body)
    return {}
  })
  return { app, seen }
}

/** Sends one byte after the other until the server has had enough; answers what it said and after how long. */
async function drip(app: ReturnType<typeof chargeApp>['app'], head: string, everyMs: number) {
  const socket = await open(app, head)
  const startedMs = performance.now()
  const timer = setInterval(() => socket.write('1'), everyMs)
  const answer = await readAll(socket)
  clearInterval(timer)
  return { answer, tookMs: performance.now() - startedMs }
}

const bodyHead =
  'POST /charge HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n'
const half = 'POST /charge HTTP/1.1\r\nhost: x\r\nx-a: '

const bodyOf = (answer: string) => JSON.parse(answer.split('\r\n\r\n')[1] ?? '')

test('a slow body is cut with a 408 that is retry_safe', async () => {
  const { app, seen } = chargeApp({ slowClient: quick })
  const { answer, tookMs } = await drip(app, bodyHead, 20)
  expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
  expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1)
  expect(bodyOf(answer)).toEqual({
    error: 'The request did not arrive in time',
    code: 'REQUEST_TIMEOUT',
    request_id: expect.any(String),
    outcome: 'unknown',
    retry_safe: true,
    retry: 'same_request',
  })
  expect(tookMs).toBeLessThan(1000)
  expect(seen).toEqual([])
  await app.close()
})

test('slow headers, and sockets that send nothing, are cut with a 408', async () => {
  const { app } = chargeApp({ slowClient: quick })
  const [dripping, silent] = await Promise.all([drip(app, half, 20), open(app, '').then(readAll)])
  expect(dripping.answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(bodyOf(dripping.answer)).toMatchObject({ code: 'REQUEST_TIMEOUT' })
  expect(silent).toMatch(/^HTTP\/1\.1 408 /)
  await app.close()
})

test('the 408 of the control API has its own shape', async () => {
  const { app } = chargeApp({ slowClient: quick, errorStyle: 'plain' })
  const { answer } = await drip(app, half, 20)
  expect(bodyOf(answer)).toEqual({ error: 'The request did not arrive in time' })
  await app.close()
})

test('T36: by default a slow client is cut within 6 seconds', {
  tags: ['long'],
}, async () => {
  const { app, seen } = chargeApp({})
  const results = await Promise.all([drip(app, bodyHead, 200), drip(app, half, 200)])
  for (const { answer, tookMs } of results) {
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(tookMs).toBeLessThan(6000)
  }
  expect(seen).toEqual([])
  await app.close()
})

test('T36: hundreds of slow clients are all cut, and delay no other', {
  tags: ['long'],
}, async () => {
  const { app, seen } = chargeApp({
    slowClient: { requestMs: 1500, headersMs: 1000, checkMs: 100 },
  })
  // The last sends nothing.
  const kinds = [bodyHead, half, 'POST /charge HTTP/1.1\r\n', '']
  const good =
    'POST /charge HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}'
  // After this it listens.
  await open(app, good).then(readAll)
  const startedMs = performance.now()
  const slow = Array.from({ length: 500 }, (_, index) => {
    const head = kinds[index % kinds.length] ?? ''
    return drip(app, head, head === '' ? 60_000 : 200)
  })
  const answered: number[] = []
  for (let sent = 0; sent < 20; sent += 1) {
    const sentMs = performance.now()
    const answer = await open(app, good).then(readAll)
    expect(answer).toMatch(/^HTTP\/1\.1 200 /)
    answered.push(performance.now() - sentMs)
  }
  // The quickest half: how slow the others are is the machine's doing.
  expect(answered.toSorted((a, b) => a - b)[10]).toBeLessThan(250)
  const cut = await Promise.all(slow)
  // Some sockets get a reset in place of the last words.
  expect(cut.filter(({ answer }) => answer !== '' && !/^HTTP\/1\.1 408 /.test(answer))).toEqual([])
  expect(performance.now() - startedMs).toBeLessThan(10_000)
  expect(seen).toEqual(Array(21).fill({}))
  await app.close()
})
