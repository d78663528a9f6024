import { Agent, get } from 'node:http'
import { expect, test } from 'vitest'
import { closeServer } from '../../src/http/connections.ts'
import { open, portOf, publicServer, readAll } from './sample-app.ts'

const request = (path: string, method = 'GET') =>
  `${method} ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n`

function stoppable() {
  const app = publicServer()
  const waiting: (() => void)[] = []
  let started = 0
  const config = { money: { retrySafeWhenUnknown: true } } as const
  app.get('/now', { config }, async () => ({ done: true }))
  app.get('/charge', { config }, async () => {
    started += 1
    await new Promise<void>((resolve) => waiting.push(resolve))
    return { done: true }
  })
  app.get('/poll', { config }, async (incoming) => {
    started += 1
    await new Promise<void>((resolve) => incoming.server.shutdown.onClosing(resolve))
    return { woken: true }
  })
  app.get('/stream', { config }, (incoming, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, { 'content-type': 'text/event-stream' })
    reply.raw.write('data: 1\n\n')
    incoming.server.shutdown.onClosing(() => reply.raw.end())
    started += 1
  })
  const busy = async (count: number) => {
    while (started < count) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const finish = () => {
    for (const resolve of waiting) resolve()
  }
  return { app, busy, finish }
}

test('a stop wakes long-polls, ends streams, lets running requests finish and does not wait for kept-alive sockets', {
  tags: ['long'],
}, async () => {
  const { app, busy, finish } = stoppable()
  const idle = await open(app, request('/now'))
  const idleAnswer = readAll(idle)
  const unused = readAll(await open(app, ''))
  const answers = ['/poll', '/stream', '/charge'].map(async (path) =>
    readAll(await open(app, request(path))),
  )
  await busy(3)

  const startedMs = performance.now()
  const closed = closeServer(app, { deadlineMs: 10_000 })
  setTimeout(finish, 50)
  const [poll = '', stream = '', charge = ''] = await Promise.all(answers)
  expect(poll).toContain('{"woken":true}')
  expect(poll).toMatch(/\r\nconnection: close\r\n/i)
  expect(stream).toContain('data: 1')
  expect(charge).toContain('{"done":true}')
  expect(charge).toMatch(/\r\nconnection: close\r\n/i)
  expect(await idleAnswer).toContain('{"done":true}')
  expect(await unused).toBe('')
  expect(await closed).toEqual({ forced: false })
  expect(performance.now() - startedMs).toBeLessThan(2000)
})

test('a new request on an open connection during a stop is 503 and retry_safe', async () => {
  const { app, busy, finish } = stoppable()
  const socket = await open(app, request('/charge') + request('/charge'))
  const answer = readAll(socket)
  const second = readAll(await open(app, request('/charge')))
  await busy(3)
  const late = await open(app, 'GET /charge HTTP/1.1\r\nhost: x\r\n')
  const lateAnswer = readAll(late)
  await new Promise((resolve) => setTimeout(resolve, 30))

  const closed = closeServer(app, { deadlineMs: 10_000 })
  await new Promise((resolve) => setTimeout(resolve, 30))
  late.write('\r\n')
  const refused = await lateAnswer
  expect(refused).toMatch(/^HTTP\/1\.1 503 /)
  expect(refused).toMatch(/\r\nretry-after: 1\r\n/i)
  expect(refused).toMatch(/\r\nconnection: close\r\n/i)
  expect(JSON.parse(refused.split('\r\n\r\n')[1] ?? '')).toMatchObject({
    code: 'SERVICE_UNAVAILABLE',
    outcome: 'unknown',
    retry_safe: true,
  })
  finish()
  expect(await answer).toContain('{"done":true}')
  expect(await second).toContain('{"done":true}')
  expect(await closed).toEqual({ forced: false })
})

test('T49: a request that never ends is cut at the deadline', async () => {
  const { app, busy } = stoppable()
  const answer = readAll(await open(app, request('/charge')))
  await busy(1)
  const startedMs = performance.now()
  expect(await closeServer(app, { deadlineMs: 100 })).toEqual({ forced: true })
  expect(performance.now() - startedMs).toBeLessThan(1000)
  expect(await answer).toBe('')
})

test('during a stop a client with a keep-alive agent gets connection: close', async () => {
  const { app, busy, finish } = stoppable()
  const agent = new Agent({ keepAlive: true })
  const port = await portOf(app)
  const status = new Promise<[number | undefined, string | undefined]>((resolve) => {
    get({ port, host: '127.0.0.1', path: '/charge', agent }, (answer) => {
      answer.resume().on('end', () => resolve([answer.statusCode, answer.headers.connection]))
    })
  })
  await busy(1)
  const closed = closeServer(app, { deadlineMs: 10_000 })
  setTimeout(finish, 20)
  expect(await status).toEqual([200, 'close'])
  expect(await closed).toEqual({ forced: false })
  agent.destroy()
})

test('a closer runs once: not after its request is over, and at once when the stop has begun', async () => {
  const app = publicServer()
  const calls: string[] = []
  app.shutdown.onClosing(() => calls.push('kept'))
  const over = app.shutdown.onClosing(() => calls.push('over'))
  over()
  await app.ready()
  expect(app.shutdown.closing).toBe(false)
  await closeServer(app, { deadlineMs: 1000 })
  expect(app.shutdown.closing).toBe(true)
  app.shutdown.onClosing(() => calls.push('late'))
  expect(calls).toEqual(['kept', 'late'])
})
