import { once } from 'node:events'
import { afterEach, expect, test } from 'vitest'
import { closeServer } from '../../src/http/connections.ts'
import type { HttpServer } from '../../src/http/create-server.ts'
import {
  createEventStreams,
  type StreamLimits,
  type StreamSource,
} from '../../src/http/event-stream.ts'
import { openStream } from '../support/event-stream.ts'
import { open, publicServer, readAll } from './sample-app.ts'

const apps: HttpServer[] = []
afterEach(async () => {
  for (const app of apps.splice(0)) await closeServer(app, { deadlineMs: 100 })
})

/** An app with one stream, of a number that the test sets. */
function counting(limits: Partial<StreamLimits> = {}, source: Partial<StreamSource> = {}) {
  const app = publicServer()
  apps.push(app)
  const streams = createEventStreams(app, limits)
  const state = { value: 1, reads: 0, padding: '' }
  const wakes = new Set<() => void>()
  app.get('/count', (request, reply) => {
    let sent = 0
    return streams.open(request, reply, {
      owner: String(request.headers.owner ?? 'one'),
      paceMs: 0,
      watch(wake) {
        wakes.add(wake)
        return () => wakes.delete(wake)
      },
      async read() {
        state.reads += 1
        if (sent === state.value) return []
        sent = state.value
        return [{ event: 'count', data: { value: sent, padding: state.padding } }]
      },
      checkAccess: async () => {},
      ...source,
    })
  })
  return {
    app,
    streams,
    state,
    wakes,
    set(value: number) {
      state.value = value
      for (const wake of wakes) wake()
    },
  }
}

const until = (condition: () => boolean) => expect.poll(condition, { interval: 5 }).toBe(true)

test('the headers stop proxies and caches from delaying events, and a change is sent at once', async () => {
  const { app, set } = counting()
  const stream = await openStream(app, '/count')
  expect(stream.response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  expect(stream.response.headers.get('cache-control')).toBe('no-store')
  expect(stream.response.headers.get('x-accel-buffering')).toBe('no')
  expect(await stream.next()).toMatchObject({ event: 'count', data: { value: 1 } })
  expect(stream.text()).toMatch(/^retry: \d+\n\n/)
  const changedAt = performance.now()
  set(2)
  expect(await stream.next()).toMatchObject({ data: { value: 2 } })
  // Far below the interval at which the source is read without a wake-up.
  expect(performance.now() - changedAt).toBeLessThan(2_000)
})

test('a change between the subscription and the first read is not missed', async () => {
  const { app, set, state } = counting(
    {},
    {
      async checkAccess() {
        if (state.value === 1) set(2)
      },
    },
  )
  const stream = await openStream(app, '/count')
  expect(await stream.next()).toMatchObject({ data: { value: 2 } })
})

test('comments, which are no events, are sent while there is no event', async () => {
  const { app, set } = counting({ heartbeatMs: 20, pollMs: 10 })
  const stream = await openStream(app, '/count')
  await stream.next()
  const later = stream.next()
  await until(() => (stream.text().match(/^: /gm)?.length ?? 0) >= 3)
  set(2)
  expect(await later).toMatchObject({ data: { value: 2 } })
})

test('a stream ends after its time with an event that gives the reason', async () => {
  const { app, streams } = counting({ longestMs: 30 })
  const stream = await openStream(app, '/count')
  expect((await stream.rest()).at(-1)).toEqual({ event: 'end', data: { reason: 'time' } })
  await until(() => streams.count() === 0)
})

test('a client that disconnects leaves no stream and no subscription', async () => {
  const { app, streams, wakes, state } = counting({ pollMs: 10 })
  const stream = await openStream(app, '/count')
  await stream.next()
  expect([streams.count(), wakes.size]).toEqual([1, 1])
  stream.disconnect()
  await until(() => streams.count() === 0 && wakes.size === 0)
  const { reads } = state
  await new Promise((resolve) => setTimeout(resolve, 40))
  expect(state.reads).toBe(reads)
})

test('a client that disconnects before its stream begins leaves no stream and no subscription', async () => {
  const { app, streams, wakes } = counting()
  const seen = { request: false, handled: false }
  app.addHook('preHandler', async (request) => {
    seen.request = true
    await once(request.raw.socket, 'close')
    setImmediate(() => (seen.handled = true))
  })
  const socket = await open(app, 'GET /count HTTP/1.1\r\nhost: x\r\n\r\n')
  await until(() => seen.request)
  socket.destroy()
  await until(() => seen.handled)
  expect([streams.count(), wakes.size]).toEqual([0, 0])
})

test('for a client that does not read one event is buffered; later it gets the newest state, and is cut in the end', {
  tags: ['long'],
}, async () => {
  const { app, streams, state, set } = counting({ longestMs: 700 })
  state.padding = 'x'.repeat(1_000_000)
  const socket = await open(app, 'GET /count HTTP/1.1\r\nhost: x\r\n\r\n')
  socket.pause()
  await until(() => state.reads > 0)
  for (let value = 2; value <= 300; value++) {
    set(value)
    await new Promise((resolve) => setImmediate(resolve))
  }
  // What the sockets of the system take, and not 300 MB.
  expect(state.reads).toBeLessThan(30)
  await until(() => streams.count() === 0)
  const text = await readAll(socket.resume())
  expect(text.match(/^event: count$/gm)?.length).toBeLessThan(30)
})

test('a slow client gets the newest state, not every change', async () => {
  const { app, state, set } = counting()
  state.padding = 'x'.repeat(1_000_000)
  const socket = await open(app, 'GET /count HTTP/1.1\r\nhost: x\r\n\r\n')
  socket.pause()
  await until(() => state.reads > 0)
  for (let value = 2; value <= 300; value++) {
    set(value)
    await new Promise((resolve) => setImmediate(resolve))
  }
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString().replaceAll('x', '')))
  socket.resume()
  await until(() => text.includes('"value":300'))
  expect(text.match(/^event: /gm)?.length).toBeLessThan(30)
  socket.destroy()
})

test('a stop ends streams at once, also one whose client does not read or whose source hangs', {
  tags: ['long'],
}, async () => {
  const { app, state } = counting()
  const hanging = counting({}, { read: () => new Promise(() => {}) })
  const well = await openStream(app, '/count')
  await well.next()
  const stuck = await openStream(hanging.app, '/count')
  state.padding = 'x'.repeat(20_000_000)
  const socket = await open(app, 'GET /count HTTP/1.1\r\nhost: x\r\n\r\n')
  socket.pause()
  await until(() => state.reads >= 2)
  const startedAt = performance.now()
  const closed = Promise.all(
    [app, hanging.app].map((one) => closeServer(one, { deadlineMs: 10_000 })),
  )
  expect(await well.rest()).toEqual([{ event: 'end', data: { reason: 'stopping' } }])
  await stuck.rest().catch(() => [])
  expect(await closed).toEqual([{ forced: false }, { forced: false }])
  expect(performance.now() - startedAt).toBeLessThan(3_000)
  socket.destroy()
})

test('streams have a limit for each owner and in total, and an ended stream counts no more', async () => {
  const { app, streams } = counting({ perOwner: 1, total: 2 })
  const first = await openStream(app, '/count', { owner: 'a' })
  const refused = await openStream(app, '/count', { owner: 'a' })
  expect(refused.response.status).toBe(429)
  expect(refused.response.headers.get('retry-after')).toBe('2')
  await openStream(app, '/count', { owner: 'b' })
  expect((await openStream(app, '/count', { owner: 'c' })).response.status).toBe(503)
  first.disconnect()
  await until(() => streams.count() === 1)
  expect((await openStream(app, '/count', { owner: 'a' })).response.status).toBe(200)
})

test('changes within the pace are sent as one event', async () => {
  const { app, set, state } = counting({}, { paceMs: 100 })
  const stream = await openStream(app, '/count')
  await stream.next()
  for (let value = 2; value <= 50; value++) {
    set(value)
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(await stream.next()).toMatchObject({ data: { value: 50 } })
  expect(state.reads).toBeLessThanOrEqual(3)
})

test('a source that fails ends the stream with an event', async () => {
  const read = () => Promise.reject(new Error('the database is away'))
  const { app } = counting({}, { read })
  const stream = await openStream(app, '/count')
  expect(await stream.rest()).toEqual([{ event: 'end', data: { reason: 'unavailable' } }])
})
