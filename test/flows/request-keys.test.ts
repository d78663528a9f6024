import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** One request, one idempotency key: repeated it has the same, and another address, method or body has another. */
const soon = { timeout: 10_000, interval: 20 }
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows()
})
beforeEach(() => {
  target.received.length = 0
  target.answer(200)
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

async function define(name: string, destination: object) {
  const retry = { attempts: 3, initial: '100ms', max: '100ms', jitter: 0 }
  await flows.write(
    `${name}.flow.yaml`,
    jsonFlow(name, target.url, {
      startPaused: false,
      destinations: [{ name: 'web', type: 'http', breaker: false, retry, ...destination }],
    }),
  )
  expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
  onTestFinished(async () => {
    await flows.remove(`${name}.flow.yaml`).catch(() => undefined)
    await flows.call('POST', '/flows/reload')
  })
}
/** Answers the question about a changed definition: what waits goes by the new one. */
const accept = async (name: string) => {
  const question = async () => (await flows.call('GET', `/flow/${name}/question`)).json()
  await expect.poll(question, soon).toMatchObject({ state: 'asked' })
  const { number } = await question()
  await flows.call('POST', `/flow/${name}/question`, { body: { number, answer: 'keep' } })
}
const bring = async (name: string, ...items: object[]) => {
  await flows.write(`${name}.json`, items)
  await flows.call('POST', `/sync/${name}`)
  await flows.ended()
}
const keys = () =>
  target.received.map(
    ({ method, headers }) => [method, String(headers['idempotency-key'])] as const,
  )

test('each request of one delivery has its own key, which is the same in each attempt', {
  tags: ['long'],
}, async () => {
  let asked = 0
  target.answer(
    ({ method }) => (method === 'POST' && ++asked < 3 ? 503 : method === 'GET' ? 404 : 200),
    { 'content-type': 'application/json' },
    () => '{"id": 7}',
  )
  await define('steps', {
    find: { url: `${target.url}/find/{pk}` },
    create: { url: `${target.url}/items` },
    request: { method: 'PUT', url: `${target.url}/items/{remembered.id}` },
    remember: { id: 'id' },
  })
  await bring('steps', { id: 'A' })
  expect(keys().map(([method]) => method)).toEqual(['GET', 'POST', 'GET', 'POST', 'GET', 'POST'])
  const of = (wanted: string) =>
    new Set(keys().flatMap(([method, key]) => (method === wanted ? [key] : [])))
  expect([of('GET').size, of('POST').size]).toEqual([1, 1])
  expect(of('GET')).not.toEqual(of('POST'))
})

test('the same change under another mapping is another request', { tags: ['long'] }, async () => {
  target.answer(503)
  const to = (map: string) => ({
    request: { method: 'PUT', url: `${target.url}/items/{pk}` },
    map,
    retry: { attempts: 50, initial: '100ms', max: '100ms', jitter: 0 },
  })
  await define('mapped', to('{ "v": 1, "id": id }'))
  await flows.write('mapped.json', [{ id: 'A' }])
  await flows.call('POST', '/sync/mapped')
  await expect.poll(() => target.received.length, soon).toBeGreaterThan(0)
  await define('mapped', to('{ "v": 2, "id": id }'))
  await accept('mapped')
  await expect
    .poll(() => target.received.some(({ body }) => (body as { v: number }).v === 2), soon)
    .toBe(true)
  target.answer(200)
  await flows.ended()
  const byBody = Map.groupBy(target.received, ({ body }) => (body as { v: number }).v)
  const keysOf = (v: number) =>
    new Set(byBody.get(v)?.map(({ headers }) => headers['idempotency-key']))
  expect([keysOf(1).size, keysOf(2).size]).toEqual([1, 1])
  expect(keysOf(1)).not.toEqual(keysOf(2))
})

test('a placeholder for the key in a header, an address or a body has the key of its request', async () => {
  await define('named', {
    request: {
      method: 'PUT',
      url: `${target.url}/items/{pk}?event={jobKey}`,
      headers: { 'x-event': '{jobKey}' },
      body: '{ "uuid": jobKey, "v": body.v }',
    },
  })
  await bring('named', { id: 'A', v: 1 }, { id: 'B', v: 1 })
  for (const { path, headers, body } of target.received) {
    const key = headers['idempotency-key']
    expect([path.split('=')[1], headers['x-event'], (body as { uuid: string }).uuid]).toEqual([
      ...[key, key, key],
    ])
  }
  expect(new Set(keys().map(([, key]) => key)).size).toBe(2)
})

test('an item of a batch with another body has another key', { tags: ['long'] }, async () => {
  target.answer(503)
  const to = (map: string) => ({
    request: { method: 'PUT', url: `${target.url}/items/{pk}` },
    map,
    batch: {
      size: 10,
      request: { url: `${target.url}/batch` },
      body: '{ "items": items, "keys": jobKeys }',
    },
    retry: { attempts: 50, initial: '100ms', max: '100ms', jitter: 0 },
  })
  await define('batch', to('{ "v": 1 }'))
  await flows.write('batch.json', [{ id: 'A' }, { id: 'B' }])
  await flows.call('POST', '/sync/batch')
  await expect.poll(() => target.received.length, soon).toBeGreaterThan(0)
  await define('batch', to('{ "v": 2 }'))
  await accept('batch')
  type Batch = { items: { v: number }[]; keys: string[] }
  const batches = () =>
    target.received.filter(({ path }) => path === '/batch').map(({ body }) => body as Batch)
  await expect.poll(() => batches().some(({ items }) => items[0]?.v === 2), soon).toBe(true)
  target.answer(200)
  await flows.ended()
  const keysOf = (v: number) =>
    new Set(batches().flatMap(({ items, keys: own }) => (items[0]?.v === v ? own : [])))
  expect([keysOf(1).size, keysOf(2).size]).toEqual([2, 2])
  expect([...keysOf(1)].filter((key) => keysOf(2).has(key))).toEqual([])
})
