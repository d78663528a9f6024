import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** The requests of an operator about a flow's past and one destination: runs, skipped items, an attempt now. */
let target: TestTarget
let flows: TestFlows

/** Sends what has a price. */
function pickyFlow(name: string): object {
  const flow = jsonFlow(name, target.url, {
    deletes: { mode: 'delete', guard: { maxPercent: 100 } },
  }) as { destinations: object[] }
  const destinations = flow.destinations.map((one) => ({
    ...one,
    filter: 'price > 0',
    delete: { url: `${target.url}/${name}/{pk}` },
  }))
  return { ...flow, destinations }
}

/** Gives its destination a rest after three failures. */
function patientFlow(name: string): object {
  const flow = jsonFlow(name, target.url) as { destinations: object[] }
  const destinations = flow.destinations.map((one) => ({
    ...one,
    concurrency: 1,
    retry: { attempts: 9, initial: '1h', max: '1h', jitter: 0 },
    breaker: { failures: 3, within: '1m', openFor: '10m' },
  }))
  return { ...flow, destinations }
}

/** Each test has flows of its own. */
const picky = ['picky', 'unreadable', 'filtered', 'found', 'failed']
const patient = ['found-too', 'resting', 'down', 'late']

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: Object.fromEntries([
      ...picky.map((name) => [`${name}.flow.yaml`, pickyFlow(name)]),
      ...patient.map((name) => [`${name}.flow.yaml`, patientFlow(name)]),
    ]),
  })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const get = async (url: string) => (await flows.call('GET', url)).json()

/** The flow reads this. */
async function show(flow: string, content: object[] | string): Promise<void> {
  await flows.write(`${flow}.json`, content)
  await flows.flows.sync(flow, { force: true })
}
const withIds = (...ids: string[]) => ids.map((id) => ({ id }))

/** The destination of the flow refuses its items, which opens the breaker. */
async function bringDown(flow: string): Promise<void> {
  target.answer(({ path }) => (path.startsWith(`/${flow}/`) ? 503 : 200))
  await show(flow, withIds('a', 'b', 'c', 'd', 'e'))
  await eventually(async () => expect((await destination(flow)).sending.state).toBe('open'))
}
const destination = async (flow: string) =>
  (await get('/flows')).flows.find(({ name }: { name: string }) => name === flow).destinations[0]

test('each run has what it read and its result, newest first', async () => {
  await show('picky', [
    { id: 'A', price: 1 },
    { id: 'B', price: 0 },
  ])
  await show('picky', [
    { id: 'A', price: 2 },
    { id: 'C', price: 3 },
    { id: 'D', price: 4 },
    { id: 'D', price: 4 },
  ])
  await show('picky', [
    { id: 'A', price: 2 },
    { id: 'C', price: 3 },
  ])
  const { name, runs } = await get('/flow/picky/runs')
  expect(name).toBe('picky')
  expect(runs.slice(0, 3)).toMatchObject([
    { rows_read: 2, items: { new: 0, changed: 0, deleted: 1, refused: 0 }, error: null },
    { rows_read: 4, changes: 4, items: { new: 2, changed: 1, deleted: 1, refused: 1 } },
    { kind: 'full', rows_read: 2, changes: 2, items: { new: 2, changed: 0 }, error: null },
  ])
  expect((await get('/flow/picky/runs?limit=1')).runs).toHaveLength(1)
})

test('a failed run has its reason and the number of records read until then', async () => {
  await show('unreadable', [{ id: 'A', price: 1 }])
  await expect(show('unreadable', 'not json')).rejects.toThrow()
  const [run] = (await get('/flow/unreadable/runs')).runs
  expect(run).toMatchObject({
    changes: 0,
    items: { new: 0 },
    error: expect.stringMatching(/json/i),
  })
})

test('filtered items are listed with the reason', async () => {
  await show('filtered', [
    { id: 'A', price: 2 },
    { id: 'C', price: 3 },
    { id: 'B', price: 0 },
  ])
  await eventually(async () =>
    expect((await get('/flow/filtered/skipped')).skipped).toMatchObject([
      { destination: 'web', pk: 'B', reason: expect.stringContaining('filter') },
    ]),
  )
})

test('one request finds an item in all flows', async () => {
  await show('found', [{ id: 'Z', price: 2 }])
  await show('found-too', withIds('a', 'Z'))
  const { pk, flows: found } = await get('/flows/items/Z')
  expect([pk, found.map((one: { name: string }) => one.name)]).toEqual([
    'Z',
    ['found', 'found-too'],
  ])
  expect(found[0]).toMatchObject({
    changed_at: expect.stringMatching(/Z$/),
    destinations: [{ name: 'web', state: expect.any(String) }],
  })
  expect((await get('/flows/items/nobody')).flows).toEqual([])
})

test('a request retries a destination with an open breaker at once, and sending continues when it answers', {
  tags: ['long'],
}, async () => {
  await bringDown('resting')
  expect((await destination('resting')).health).toMatchObject({
    state: 'down',
    cause: 'destination_failing',
    message: expect.stringContaining('sending is suspended'),
  })
  target.answer(200)
  const answer = await flows.call('POST', '/flow/resting/try', { body: { destination: 'web' } })
  expect(answer.json()).toEqual({ name: 'resting', due: 3 })
  await eventually(async () =>
    expect(await destination('resting')).toMatchObject({
      waiting: 0,
      delayed: 0,
      sending: { state: 'flowing' },
      health: { state: 'ok', cause: null, message: null },
    }),
  )
  expect((await get('/flows/activity?flow=resting')).activity[0]).toMatchObject({
    action: 'tried now',
    detail: 'web',
  })
})

test('a failed attempt leaves the breaker of the destination open', async () => {
  await bringDown('down')
  const attempts = () => target.received.filter(({ path }) => path.startsWith('/down/')).length
  const before = attempts()
  await flows.call('POST', '/flow/down/try')
  await eventually(async () => {
    expect(attempts()).toBe(before + 1)
    expect((await destination('down')).sending).toMatchObject({
      state: 'open',
      cause: expect.stringContaining('the attempt that looked whether it is back failed'),
    })
  })
})

test('one request lists the late deliveries of all flows, or of one', async () => {
  await bringDown('late')
  const late = {
    flow: 'late',
    destination: 'web',
    attempts: expect.any(Number),
    queued_at: expect.any(String),
  }
  const { delayed } = await get('/flows/delayed?limit=200')
  const ofFlow = delayed.filter(({ flow }: { flow: string }) => flow === 'late')
  expect(ofFlow).toMatchObject([late, late, late])
  expect((await get('/flows/delayed?flow=late')).delayed).toEqual(ofFlow)
  expect((await get('/flows/delayed?limit=2')).delayed).toEqual(delayed.slice(0, 2))
  expect((await get('/flows/delayed?flow=picky')).delayed).toEqual([])
})

test('failures of all flows are one list by cause, most items first', async () => {
  target.answer(({ path }) => (path.startsWith('/failed/') ? 422 : 200))
  await show('failed', [
    { id: 'A', price: 20 },
    { id: 'C', price: 30 },
    { id: 'D', price: 1 },
    { id: 'B', price: 0 },
  ])
  await eventually(async () =>
    expect((await get('/flows/failures')).failures).toMatchObject([
      { flow: 'failed', destination: 'web', status: 422, items: 3, pks: ['A', 'C', 'D'] },
    ]),
  )
  expect((await get('/flows/failures?flow=late')).failures).toEqual([])
})

test.each([
  ['GET', '/flows/failures?limit=0', 400],
  ['GET', '/flows/delayed?limit=201', 400],
  ['GET', '/flow/nobody/runs', 404],
  ['GET', '/flow/late/runs?limit=0', 400],
  ['GET', '/flow/late/runs?limit=201', 400],
  ['GET', '/flow/nobody/skipped', 404],
  ['GET', '/flow/late/skipped?limit=x', 400],
  ['GET', '/flows/items/', 404],
] as const)('%s %s is %i', async (method, url, status) => {
  const answer = await flows.call(method, url)
  expect([answer.statusCode, Object.keys(answer.json())]).toEqual([status, ['error']])
})

test.each([
  ['/flow/nobody/try', { destination: 'web' }, 404],
  ['/flow/late/try', { destination: 'nowhere' }, 404],
  ['/flow/late/try', { destination: '' }, 400],
  ['/flow/late/try', { destination: 'web', force: true }, 400],
])('POST %s with %j is %i', async (url, body, status) => {
  const answer = await flows.call('POST', url, { body })
  expect([answer.statusCode, Object.keys(answer.json())]).toEqual([status, ['error']])
})
