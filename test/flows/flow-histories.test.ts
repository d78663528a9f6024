import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** What an operator asks about a flow's past and about one destination: runs, what is not sent, an attempt now. */
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  const picky = jsonFlow('picky', target.url, {
    deletes: { mode: 'delete', guard: { maxPercent: 100 } },
  }) as { destinations: object[] }
  const shop = jsonFlow('shop', target.url) as { destinations: object[] }
  flows = await startTestFlows({
    files: {
      'picky.flow.yaml': {
        ...picky,
        destinations: picky.destinations.map((one) => ({
          ...one,
          filter: 'price > 0',
          delete: { url: `${target.url}/picky/{pk}` },
        })),
      },
      'picky.json': [
        { id: 'A', price: 1 },
        { id: 'B', price: 0 },
      ],
      'shop.flow.yaml': {
        ...shop,
        destinations: shop.destinations.map((one) => ({
          ...one,
          concurrency: 1,
          retry: { attempts: 9, initial: '1h', max: '1h', jitter: 0 },
          breaker: { failures: 3, within: '1m', openFor: '10m' },
        })),
      },
      'shop.json': ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id })),
    },
  })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const get = async (url: string) => (await flows.call('GET', url)).json()

test('each run tells what it read and what became of it, the newest first', async () => {
  await flows.flows.sync('picky', { force: true })
  await flows.write('picky.json', [
    { id: 'A', price: 2 },
    { id: 'C', price: 3 },
    { id: 'D', price: 4 },
    { id: 'D', price: 4 },
  ])
  await flows.flows.sync('picky', { force: true })
  await flows.write('picky.json', [
    { id: 'A', price: 2 },
    { id: 'C', price: 3 },
  ])
  await flows.flows.sync('picky', { force: true })
  const { name, runs } = await get('/flow/picky/runs')
  expect(name).toBe('picky')
  expect(runs.slice(0, 3)).toMatchObject([
    { rows_read: 2, items: { new: 0, changed: 0, deleted: 1, refused: 0 }, error: null },
    { rows_read: 4, changes: 4, items: { new: 2, changed: 1, deleted: 1, refused: 1 } },
    { kind: 'full', rows_read: 2, changes: 2, items: { new: 2, changed: 0 }, error: null },
  ])
  expect((await get('/flow/picky/runs?limit=1')).runs).toHaveLength(1)
})

test('a run that failed says why, and what it had read by then', async () => {
  await flows.write('picky.json', 'not json')
  await expect(flows.flows.sync('picky', { force: true })).rejects.toThrow()
  const [run] = (await get('/flow/picky/runs')).runs
  expect(run).toMatchObject({
    changes: 0,
    items: { new: 0 },
    error: expect.stringMatching(/json/i),
  })
})

test('what a filter leaves out is listed with the reason', async () => {
  await flows.write('picky.json', [
    { id: 'A', price: 2 },
    { id: 'C', price: 3 },
    { id: 'B', price: 0 },
  ])
  await flows.flows.sync('picky', { force: true })
  await vi.waitFor(
    async () =>
      expect((await get('/flow/picky/skipped')).skipped).toMatchObject([
        { destination: 'web', pk: 'B', reason: expect.stringContaining('filter') },
      ]),
    20_000,
  )
})

test('an item is found in all flows by one question', async () => {
  await flows.write(
    'shop.json',
    ['a', 'b', 'c', 'd', 'A'].map((id) => ({ id })),
  )
  target.answer(({ path }) => (path.startsWith('/shop') ? 503 : 200))
  await flows.flows.sync('shop', { force: true })
  const { pk, flows: found } = await get('/flows/items/A')
  expect([pk, found.map((one: { name: string }) => one.name)]).toEqual(['A', ['picky', 'shop']])
  expect(found[0]).toMatchObject({
    changed_at: expect.stringMatching(/Z$/),
    destinations: [{ name: 'web', state: expect.any(String) }],
  })
  expect((await get('/flows/items/nobody')).flows).toEqual([])
})

const destination = async () =>
  (await get('/flows')).flows.find(({ name }: { name: string }) => name === 'shop').destinations[0]

test('a destination that rests is tried at once when somebody says so, and goes on when it answers', async () => {
  await vi.waitFor(async () => expect((await destination()).sending.state).toBe('open'), 20_000)
  expect((await destination()).health).toMatchObject({
    state: 'down',
    cause: 'destination_failing',
    message: expect.stringContaining('envío suspendido'),
  })
  target.answer(200)
  const answer = await flows.call('POST', '/flow/shop/try', { body: { destination: 'web' } })
  expect(answer.json()).toEqual({ name: 'shop', due: 3 })
  await vi.waitFor(
    async () =>
      expect(await destination()).toMatchObject({
        waiting: 0,
        delayed: 0,
        sending: { state: 'flowing' },
        health: { state: 'ok', cause: null, message: null },
      }),
    20_000,
  )
  expect((await get('/flows/activity?flow=shop')).activity[0]).toMatchObject({
    action: 'tried now',
    detail: 'web',
  })
})

test('a try that fails leaves the destination to its rest', async () => {
  target.answer(({ path }) => (path.startsWith('/shop') ? 503 : 200))
  await flows.write(
    'shop.json',
    ['a', 'b', 'c', 'd'].map((id) => ({ id, price: 1 })),
  )
  await flows.flows.sync('shop', { force: true })
  await vi.waitFor(async () => expect((await destination()).sending.state).toBe('open'), 20_000)
  const before = target.received.length
  await flows.call('POST', '/flow/shop/try')
  await vi.waitFor(async () => {
    expect(target.received.length).toBe(before + 1)
    expect((await destination()).sending).toMatchObject({
      state: 'open',
      cause: expect.stringContaining('the attempt that looked whether it is back failed'),
    })
  }, 20_000)
})

test('what is late in all flows is asked for once, or of one flow', async () => {
  const { delayed } = await get('/flows/delayed?limit=2')
  expect(delayed).toMatchObject([
    {
      flow: 'shop',
      destination: 'web',
      attempts: expect.any(Number),
      queued_at: expect.any(String),
    },
    { flow: 'shop' },
  ])
  expect((await get('/flows/delayed?flow=picky')).delayed).toEqual([])
})

test('what failed in all flows is one list by cause, most items first', async () => {
  target.answer(({ path }) => (path.startsWith('/picky') ? 422 : 200))
  await flows.write('picky.json', [
    { id: 'A', price: 20 },
    { id: 'C', price: 30 },
    { id: 'D', price: 1 },
    { id: 'B', price: 0 },
  ])
  await flows.flows.sync('picky', { force: true })
  await vi.waitFor(
    async () =>
      expect((await get('/flows/failures')).failures).toMatchObject([
        { flow: 'picky', destination: 'web', status: 422, items: 3, pks: ['A', 'C', 'D'] },
      ]),
    { timeout: 20_000 },
  )
  expect((await get('/flows/failures?flow=shop')).failures).toEqual([])
})

test.each([
  ['GET', '/flows/failures?limit=0', 400],
  ['GET', '/flows/delayed?limit=201', 400],
  ['GET', '/flow/nobody/runs', 404],
  ['GET', '/flow/shop/runs?limit=0', 400],
  ['GET', '/flow/shop/runs?limit=201', 400],
  ['GET', '/flow/nobody/skipped', 404],
  ['GET', '/flow/shop/skipped?limit=x', 400],
  ['GET', '/flows/items/', 404],
] as const)('%s %s is %i', async (method, url, status) => {
  const answer = await flows.call(method, url)
  expect([answer.statusCode, Object.keys(answer.json())]).toEqual([status, ['error']])
})

test.each([
  ['/flow/nobody/try', { destination: 'web' }, 404],
  ['/flow/shop/try', { destination: 'nowhere' }, 404],
  ['/flow/shop/try', { destination: '' }, 400],
  ['/flow/shop/try', { destination: 'web', force: true }, 400],
])('POST %s with %j is %i', async (url, body, status) => {
  const answer = await flows.call('POST', url, { body })
  expect([answer.statusCode, Object.keys(answer.json())]).toEqual([status, ['error']])
})
