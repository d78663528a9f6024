import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { stopChannel } from '../../src/repositories/flows/send-stops.ts'
import { openTestDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** While an operator has stopped sending nothing is sent, nothing is lost, and no alert is raised. */
let service: TestService
let target: TestTarget
let flows: TestFlows

const within = { timeout: 20_000, interval: 20 }
const items = (count: number, from = 1) =>
  Array.from({ length: count }, (_, index) => ({ id: `A-${from + index}` }))

/** Two destinations: `web`, which all flows have, and `erp`. */
const flowOf = (name: string) => {
  const flow = jsonFlow(name, target.url) as { destinations: { request: object }[] }
  const [web] = flow.destinations
  const request = { method: 'PUT', url: `${target.url}/${name}-erp/{pk}` }
  const erp = { ...web, name: 'erp', request }
  return { ...flow, destinations: [web, erp] }
}

/** Most tests have a flow of their own. */
const names = ['shop', 'stock', 'switched', 'paused', 'kept', 'waited']

beforeAll(async () => {
  target = await startTarget()
  service = await startTestService()
  const files = names.flatMap((name) => [
    [`${name}.flow.yaml`, flowOf(name)],
    [`${name}.json`, items(3)],
  ])
  flows = await startTestFlows({
    service,
    files: { ...Object.fromEntries(files), 'single.flow.yaml': jsonFlow('single', target.url) },
  })
})
afterAll(async () => {
  await flows.stop()
  await service.stop()
  await target.close()
})

const got = (part: string) => target.received.filter(({ path }) => path.startsWith(`/${part}/`))
const stop = async (body?: object) => (await flows.call('POST', '/sending/stop', { body })).json()
const start = async (body?: object) => (await flows.call('POST', '/sending/start', { body })).json()
const destination = async (flow: string, name: string) => {
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  return cards
    .find((card: { name: string }) => card.name === flow)
    .destinations.find((one: { name: string }) => one.name === name)
}
/** Notifications of stops get lost. */
const withoutStopNotifications = (database: Database): Database => ({
  ...database,
  withConnectionLimit: (most) => withoutStopNotifications(database.withConnectionLimit(most)),
  listen: (channel, ...listeners) =>
    channel === stopChannel
      ? Promise.resolve(async () => {})
      : database.listen(channel, ...listeners),
})
/** Time for several looks of each worker. */
const meanwhile = () => wait(400)

test('no flow sends to a stopped destination, and all of it is sent after the start', {
  tags: ['long'],
}, async () => {
  const stopped = await stop({ destination: 'web', reason: 'the shop moves' })
  expect(stopped).toEqual({
    ...{ status: 'stopped', flow: null, destination: 'web', reason: 'the shop moves' },
    ...{ by: '127.0.0.1', since: expect.stringMatching(/Z$/) },
  })
  for (const name of ['shop', 'stock']) await flows.flows.sync(name, { force: true })
  await eventually(() => expect([...got('shop-erp'), ...got('stock-erp')]).toHaveLength(6))
  await meanwhile()
  expect([...got('shop'), ...got('stock')]).toEqual([])
  const card = await destination('shop', 'web')
  expect(card).toMatchObject({
    ...{ waiting: 3, delayed: 0, failed: 0 },
    sending: {
      ...{ state: 'stopped', next_attempt_at: null, since: stopped.since },
      cause: 'sending was stopped by 127.0.0.1: the shop moves',
      why: {
        code: 'SENDING_STOPPED',
        message: 'sending was stopped by 127.0.0.1: the shop moves',
      },
      stop: { destination: 'web', flow: null, by: '127.0.0.1', reason: 'the shop moves' },
    },
    health: { state: 'attention', cause: 'sending_stopped' },
  })
  expect(await destination('shop', 'erp')).toMatchObject({
    sending: { state: 'flowing', stop: null },
  })
  const headers = { accept: 'text/plain' }
  expect((await flows.call('GET', '/metrics', { headers })).body).toContain(
    'tillbridge_destination_state{flow="shop",destination="web",state="stopped"} 1',
  )

  flows = await flows.restart()
  await meanwhile()
  expect(got('shop')).toEqual([])
  expect((await flows.call('GET', '/sending')).json()).toMatchObject({
    stops: [{ destination: 'web', by: '127.0.0.1' }],
  })

  expect(await start({ destination: 'web' })).toEqual({
    ...{ flow: null, destination: 'web', status: 'started', stops: [] },
  })
  await eventually(() =>
    expect([got('shop'), got('stock')]).toMatchObject([{ length: 3 }, { length: 3 }]),
  )
  const attempts = async () => (await flows.flows.item('shop', 'A-1')).history.attempts
  await expect.poll(attempts, within).toMatchObject([
    { destination: 'web', attempt: 1, outcome: 'delivered' },
    { destination: 'erp', attempt: 1, outcome: 'delivered' },
  ])
})

test('running attempts complete and claimed ones wait; the destination shows its rate and what waits', {
  tags: ['long'],
}, async () => {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  await flows.write('slow.json', items(60))
  const slow = jsonFlow('slow', target.url) as { destinations: object[] }
  let begun = 0
  const server = await import('node:http').then(({ createServer }) =>
    createServer((_, response) => {
      begun += 1
      void released.then(() => response.end())
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const request = { method: 'PUT', url: `http://127.0.0.1:${port}/{pk}` }
  await flows.write('slow.flow.yaml', {
    ...slow,
    destinations: slow.destinations.map((one) => ({
      ...one,
      name: 'slow',
      request,
      concurrency: 4,
    })),
  })
  await flows.flows.reload('test')
  await flows.flows.sync('slow', { force: true })
  await eventually(() => expect(begun).toBe(4))
  await stop({ flow: 'slow' })
  release()
  await eventually(async () =>
    expect(await destination('slow', 'slow')).toMatchObject({
      waiting: 56,
      delayed: 0,
      failed: 0,
    }),
  )
  await meanwhile()
  expect(begun).toBe(4)

  await start({ flow: 'slow' })
  await eventually(() => expect(begun).toBe(60))

  const ofFlow = async () => (await flows.call('GET', '/destinations/slow')).json()
  await expect.poll(async () => (await ofFlow()).flows[0].done, within).toBe(60)
  const answer = await ofFlow()
  expect(answer).toMatchObject({
    name: 'slow',
    flows: [{ flow: 'slow', waiting: 0, done: 60, ends_at: null, rate_limit: null }],
  })
  const [{ samples }] = answer.flows
  const sum = (of: 'delivered' | 'failed') =>
    samples.reduce((total: number, one: Record<string, number>) => total + (one[of] ?? 0), 0)
  expect([samples.length, samples.at(-1).waiting, sum('failed')]).toEqual([60, 0, 0])
  expect((await flows.call('GET', '/destinations/nowhere')).statusCode).toBe(404)
  server.close()
})

test('a stop holds in the process that answers it before any notification arrives, and so does its end', {
  tags: ['long'],
}, async () => {
  const database = await openTestDatabase()
  const deaf = await startTestService({ database: withoutStopNotifications(database) })
  const own = await startTestFlows({
    service: deaf,
    files: { 'deaf.flow.yaml': jsonFlow('deaf', target.url), 'deaf.json': items(3) },
  })
  try {
    await own.flows.sync('deaf', { force: true })
    await eventually(() => expect(got('deaf')).toHaveLength(3))
    await own.call('POST', '/sending/stop', { body: { flow: 'deaf' } })
    await own.write('deaf.json', items(5))
    await own.flows.sync('deaf', { force: true })
    await meanwhile()
    expect(got('deaf')).toHaveLength(3)
    await own.call('POST', '/sending/start', { body: { flow: 'deaf' } })
    await eventually(() => expect(got('deaf')).toHaveLength(5))
  } finally {
    await own.stop()
    await deaf.stop()
    await database.close()
  }
})

test('each stop is separate; a start ends one, and its answer names the remaining ones', {
  tags: ['long'],
}, async () => {
  await stop({ flow: 'switched' })
  const first = await stop({ reason: 'maintenance' })
  expect(await stop({ reason: 'another reason' })).toEqual(first)
  await flows.flows.sync('switched', { force: true })
  expect(await start()).toMatchObject({ status: 'stopped', stops: [{ flow: 'switched' }] })
  await meanwhile()
  expect(got('switched')).toEqual([])
  expect(await start({ destination: 'erp' })).toMatchObject({ stops: [{ flow: 'switched' }] })
  expect(await start({ flow: 'switched' })).toMatchObject({ status: 'started', stops: [] })
  await eventually(() => expect(got('switched')).toHaveLength(3))
})

test('a paused flow is not polled, and its waiting deliveries are sent', async () => {
  await stop({ flow: 'paused', destination: 'web' })
  await flows.flows.sync('paused', { force: true })
  await flows.call('POST', '/flow/paused/pause')
  await start({ flow: 'paused', destination: 'web' })
  await eventually(() => expect(got('paused')).toHaveLength(3))
})

test.each([
  ['an unknown flow', { flow: 'nowhere' }, 404],
  ['an unknown destination', { destination: 'nowhere' }, 404],
  ['a destination of another flow', { flow: 'single', destination: 'erp' }, 404],
  ['a misspelt field', { destiny: 'web' }, 400],
  ['an empty name', { destination: '' }, 400],
])('%s stops nothing', async (_, body, status) => {
  expect((await flows.call('POST', '/sending/stop', { body })).statusCode).toBe(status)
  expect((await flows.call('GET', '/sending')).json()).toEqual({ stops: [] })
})

test('who stopped and started what, and why, is recorded', async () => {
  await stop({ flow: 'kept', destination: 'web', reason: 'wrong prices' })
  await start({ flow: 'kept', destination: 'web' })
  const { activity } = (await flows.call('GET', '/flows/activity?flow=kept&limit=2')).json()
  expect(activity).toMatchObject([
    { action: 'sending started', actor: '127.0.0.1', detail: 'web' },
    { action: 'sending stopped', actor: '127.0.0.1', detail: 'web: wrong prices' },
  ])
})

test('deliveries that waited during a stop do not count as old after the start', async () => {
  await stop({ flow: 'waited' })
  await flows.flows.sync('waited', { force: true })
  service.clock.advance(3_600_000)
  expect((await destination('waited', 'web')).health).toMatchObject({ cause: 'sending_stopped' })
  const oldest = async () => {
    const { body } = await flows.call('GET', '/metrics', { headers: { accept: 'text/plain' } })
    return /destination_oldest_pending_seconds{flow="waited",destination="web"} (.*)/.exec(
      body,
    )?.[1]
  }
  expect(await oldest()).toBe('0')
  target.answer(503)
  await start({ flow: 'waited' })
  expect((await destination('waited', 'web')).health.cause).not.toBe('deliveries_late')
  expect(Number(await oldest())).toBeLessThan(60)
  target.answer(200)
})
