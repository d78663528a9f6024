import { expect, test } from 'vitest'
import { createServer, type ServerOptions } from '../../src/http/create-server.ts'
import { open, readAll } from './sample-app.ts'

const quick = { requestMs: 150, headersMs: 100, checkMs: 20 }

function chargeApp(options: Partial<ServerOptions>) {
  const app = createServer({ logger: false, ...options })
  const seen: unknown[] = []
  app.post(
    '/charge',
    { config: { access: 'public', money: { retrySafeWhenUnknown: true } } },
    async (request) => {
      seen.push(request.body)
      return {}
    },
  )
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

test('a body that drips is cut with a 408 that allows the same request again', async () => {
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
  })
  expect(tookMs).toBeLessThan(1000)
  expect(seen).toEqual([])
  await app.close()
})

test('headers that drip, and sockets that say nothing, are cut with a 408', async () => {
  const { app } = chargeApp({ slowClient: quick })
  const [dripping, silent] = await Promise.all([drip(app, half, 20), open(app, '').then(readAll)])
  expect(dripping.answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(bodyOf(dripping.answer)).toMatchObject({ code: 'REQUEST_TIMEOUT' })
  expect(silent).toMatch(/^HTTP\/1\.1 408 /)
  await app.close()
})

test('the control API says it in its own shape', async () => {
  const { app } = chargeApp({ slowClient: quick, errorStyle: 'plain' })
  const { answer } = await drip(app, half, 20)
  expect(bodyOf(answer)).toEqual({ error: 'The request did not arrive in time' })
  await app.close()
})

test('without other settings a dripping client is cut within 6 seconds', async () => {
  const { app, seen } = chargeApp({})
  const results = await Promise.all([drip(app, bodyHead, 200), drip(app, half, 200)])
  for (const { answer, tookMs } of results) {
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(tookMs).toBeLessThan(6000)
  }
  expect(seen).toEqual([])
  await app.close()
}, 15_000)
