import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { notifyDeliveries } from '../../src/repositories/flows/flow-events.ts'
import { type OpenStream, openStream } from '../support/event-stream.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

let target: TestTarget
let flows: TestFlows
const streams: OpenStream[] = []
beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: {
      'articles.flow.yaml': jsonFlow('articles', target.url),
      'articles.json': Array.from({ length: 300 }, (_, id) => ({ id: `A-${id}` })),
    },
  })
})
afterEach(() => {
  for (const stream of streams.splice(0)) stream.disconnect()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

/** A stream after its first resync event: from here on it reports changes. */
async function follow(headers: Record<string, string> = {}, at = flows) {
  const stream = await openStream(at.app, '/flows/events', headers)
  streams.push(stream)
  expect(await stream.next()).toEqual({ event: 'resync', data: {} })
  return stream
}

async function eventsUntil(stream: OpenStream, what: string) {
  const received: unknown[] = []
  for (;;) {
    const next = await stream.next()
    if (!next) throw new Error('the stream ended')
    received.push(next)
    if ((next.data as { what: string }).what === what) return received
  }
}

test('the stream reports a resume, a poll and its deliveries, with many deliveries as one event', {
  tags: ['long'],
}, async () => {
  const stream = await follow()
  await flows.flows.resume('articles', 'test')
  // A process that begins to lead reports its destinations, which may happen meanwhile.
  const before = (await eventsUntil(stream, 'state')) as { data: { what: string } }[]
  expect(before.filter(({ data }) => data.what !== 'deliveries')).toEqual([
    { event: 'flow', data: { flow: 'articles', what: 'state' } },
  ])
  await flows.flows.sync('articles', { force: true })
  await eventsUntil(stream, 'poll')
  await flows.delivered()
  const received = await eventsUntil(stream, 'deliveries')
  // 300 of them.
  expect(received.length).toBeLessThan(5)
})

test('the stream reports a reload as a change of all flows', { tags: ['long'] }, async () => {
  const stream = await follow()
  await flows.flows.reload('test')
  expect((await eventsUntil(stream, 'state')).at(-1)).toEqual({
    event: 'flow',
    data: { flow: null, what: 'state' },
  })
})

test('too many changes at once become one resync event', { tags: ['long'] }, async () => {
  const stream = await follow()
  const names = Array.from({ length: 1_000 }, (_, number) => `flow-${number}`)
  await notifyDeliveries(flows.service.database.db, names)
  const received = []
  for (let event = ''; event !== 'resync'; received.push(event)) {
    event = (await stream.next())?.event ?? 'resync'
  }
  expect(received.length).toBeLessThanOrEqual(100)
  expect(stream.text().match(/event: resync/g)).toHaveLength(2)
})

test('the stream requires a token where one is set', async () => {
  const guarded = await startTestFlows({
    service: flows.service,
    env: { SYNC_TOKEN: 'sync-token-for-tests-0123456789abcdef' },
    streams: { perOwner: 1 },
  })
  const refused = await openStream(guarded.app, '/flows/events')
  expect(refused.response.status).toBe(401)
  const stream = await follow({ 'x-api-token': 'sync-token-for-tests-0123456789abcdef' }, guarded)
  const second = await openStream(guarded.app, '/flows/events', {
    'x-api-token': 'sync-token-for-tests-0123456789abcdef',
  })
  expect([second.response.status, Object.keys((await second.response.json()) as object)]).toEqual([
    429,
    ['error'],
  ])
  const stopped = guarded.stop()
  expect(await stream.rest()).toEqual([{ event: 'end', data: { reason: 'stopping' } }])
  await stopped
})
