import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

let target: TestTarget
let flows: TestFlows

const hostileKey = '<img src=x onerror=alert(1)>|\\ ../\u202E%2f'
/** As the parts of a key are written. */
const hostile = hostileKey.replace(/[|\\]/g, '\\$&')

beforeAll(async () => {
  target = await startTarget()
  const definition = jsonFlow('articles', target.url) as { destinations: object[] }
  const [web] = definition.destinations
  flows = await startTestFlows({
    files: {
      'articles.flow.yaml': {
        ...definition,
        destinations: [
          web,
          { name: 'list', type: 'file', path: `\${env:DIR}/list.ndjson`, format: 'ndjson' },
        ],
      },
      'articles.json': [{ id: 'A-1' }, { id: 'A-2' }, { id: 'B-1' }, { id: hostileKey }],
    },
  })
  target.answer(({ path }) => (/\/[AC]-/.test(path) ? 422 : /\/[BD]-/.test(path) ? 400 : 200))
  await flows.flows.sync('articles', { force: true })
  await vi.waitUntil(async () => (await flows.flows.stats()).queue.failed === 3, {
    timeout: 20_000,
  })
  await flows.delivered()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const get = async (url: string) => (await flows.call('GET', url)).json()
const itemUrl = (pk: string) => `/flow/articles/items/${encodeURIComponent(pk)}`

test('failures are listed by cause, most items first, with some of their items', async () => {
  const { name, failures } = await get('/flow/articles/failures')
  expect(name).toBe('articles')
  expect(failures).toMatchObject([
    { destination: 'web', status: 422, items: 2, pks: ['A-1', 'A-2'] },
    { destination: 'web', status: 400, items: 1, pks: ['B-1'] },
  ])
  expect(failures[0].error).toContain('422')
  expect(Date.parse(failures[0].last_at)).toBeLessThanOrEqual(Date.now())
  expect((await get('/flow/articles/failures?limit=1')).failures).toHaveLength(1)
})

test('the report of an item shows each destination, where it failed and where it arrived', async () => {
  const { seen, destinations } = await get(itemUrl('A-1'))
  expect(seen.hash).not.toBe('')
  expect(destinations).toMatchObject([
    { name: 'web', type: 'http', state: 'failed', in_sync: false, last_status: 422 },
    { name: 'list', type: 'file', state: 'delivered', in_sync: true, last_error: null },
  ])
  expect(destinations[0].last_error).toContain('422')
  expect(destinations[0].delivered_at).toBeNull()
  expect(Date.parse(destinations[1].delivered_at)).not.toBeNaN()
})

test('a report exists for any key; a key that was never seen has no record', async () => {
  const known = await get(itemUrl(hostile))
  expect(known.pk).toBe(hostile)
  expect(known.destinations.map(({ state }: { state: string }) => state)).toEqual([
    'delivered',
    'delivered',
  ])
  expect(await get(itemUrl('unknown'))).toMatchObject({
    pk: 'unknown',
    seen: null,
    destinations: [
      { name: 'web', state: 'unknown', in_sync: null, delivered_at: null },
      { name: 'list', state: 'unknown', in_sync: null, delivered_at: null },
    ],
  })
})

test('after a reset it is unknown whether the item is in sync, until it is read again', async () => {
  await flows.call('DELETE', `/reset/articles/${encodeURIComponent(hostile)}`)
  expect(await get(itemUrl(hostile))).toMatchObject({
    seen: null,
    destinations: [
      { state: 'delivered', in_sync: null },
      { state: 'delivered', in_sync: null },
    ],
  })
  await flows.call('POST', `/sync/articles/${encodeURIComponent(hostile)}`)
  await flows.delivered()
  expect(await get(itemUrl(hostile))).toMatchObject({
    destinations: [{ in_sync: true }, { in_sync: true }],
  })
})

test('a failure that is sent again is no failure any more; a long error text names its group', async () => {
  await flows.write('returns.json', [{ id: 'C-1' }, { id: 'C-2' }, { id: 'D-1' }])
  await flows.write('returns.flow.yaml', jsonFlow('returns', target.url))
  await flows.flows.reload('test')
  await flows.flows.sync('returns', { force: true })
  const failed = async () => (await get('/flow/returns/failures')).failures
  await vi.waitUntil(async () => (await failed()).length === 2, { timeout: 20_000 })
  await flows.delivered()
  target.answer(200)
  const [group] = await failed()
  const other = await flows.call('POST', '/flow/returns/retry', {
    body: { error: 'x'.repeat(20_000) },
  })
  expect(other.json()).toEqual({ name: 'returns', retried: 0 })
  const again = await flows.call('POST', '/flow/returns/retry', {
    body: { destination: 'web', error: group.error },
  })
  expect(again.json()).toEqual({ name: 'returns', retried: 2 })
  await flows.delivered()
  expect(await failed()).toMatchObject([{ pks: ['D-1'] }])
  expect(await get('/flow/returns/items/C-2')).toMatchObject({
    destinations: [{ state: 'delivered', in_sync: true, attempts: 0 }],
  })
})

test.each([
  ['/flow/nobody/failures', 404],
  ['/flow/nobody/items/1', 404],
  ['/flow/articles/items/', 404],
  ['/flow/articles/failures?limit=0', 400],
  ['/flow/articles/failures?limit=201', 400],
])('%s answers %i with one field', async (url, status) => {
  const response = await flows.call('GET', url)
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})
