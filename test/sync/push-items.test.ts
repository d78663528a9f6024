import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { nextRead } from '../../src/repositories/flows/flow-reads.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** What an ERP pushes is compared, stored and owed as if a poll had found it, and the answer says what became of each. */
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  const flow = jsonFlow('shop', target.url, {
    startPaused: false,
    item: { key: 'id', filter: '$not(hidden = true)' },
    deletes: { mode: 'delete', guard: { maxPercent: 50, minItems: 2 } },
  }) as { destinations: object[] }
  const deleting = {
    ...flow,
    destinations: flow.destinations.map((one) => ({
      ...one,
      delete: { url: `${target.url}/shop/{pk}` },
    })),
  }
  flows = await startTestFlows({
    files: {
      'shop.flow.yaml': deleting,
      'shop.json': [
        { id: 'A', price: 1 },
        { id: 'B', price: 1 },
      ],
      'kept.flow.yaml': jsonFlow('kept', target.url, { startPaused: true }),
      'kept.json': [],
      'full.flow.yaml': jsonFlow('full', target.url, { queue: { maxWaiting: 1 } }),
      'full.json': [],
    },
  })
  await flows.flows.sync('shop', { force: false })
  await flows.delivered()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})
beforeEach(() => {
  target.answer(200)
  target.received.length = 0
})

const push = (body: unknown, flow = 'shop') => flows.call('POST', `/flow/${flow}/items`, { body })
const sent = () => target.received.map(({ method, path, body }) => [method, path, body])

test('each is new, changed, unchanged, skipped or refused, in their order', async () => {
  const response = await push({
    items: [
      { id: 'A', price: 2 },
      { id: 'B', price: 1 },
      { id: 'C', price: 1 },
      { id: 'D', price: 1, hidden: true },
      { price: 1 },
      { id: 'E', price: 1 },
      { id: 'E', price: 2 },
    ],
  })
  expect(response.statusCode).toBe(202)
  const twice = 'the key stands more than once in the push'
  expect(response.json()).toEqual({
    name: 'shop',
    changes: 2,
    items: [
      { pk: 'A', status: 'changed' },
      { pk: 'B', status: 'unchanged' },
      { pk: 'C', status: 'new' },
      { pk: 'D', status: 'skipped', reason: 'item.filter is not true for it' },
      { pk: null, status: 'refused', reason: 'the key field "id" is null or missing' },
      { pk: 'E', status: 'refused', reason: twice },
      { pk: 'E', status: 'refused', reason: twice },
    ],
    deletes: [],
  })
  await flows.delivered()
  expect(sent().sort()).toEqual([
    ['PUT', '/shop/A', { id: 'A', price: 2 }],
    ['PUT', '/shop/C', { id: 'C', price: 1 }],
  ])
  const { activity } = (await flows.call('GET', '/flows/activity?flow=shop')).json()
  expect(activity[0]).toMatchObject({ action: 'items pushed', detail: '2 changes' })
})

test('text that no database holds keeps its own item out and no other', async () => {
  const nul = (field: string) => `the field "${field}" holds the character NUL`
  const half = 'the field "deep" holds half a character (invalid UTF-16)'
  const response = await push({
    items: [
      { id: 'N\0', price: 1 },
      { id: 'P', price: '1\0' },
      { id: 'Q', price: { deep: ['\ud800'] } },
      { id: 'R', 'pri\0ce': 1 },
      { id: 'S', price: 1 },
    ],
    deletes: ['M\0', '\ud800', 'T'],
  })
  const no = 'this is no key of the flow'
  expect([response.statusCode, response.json()]).toEqual([
    202,
    {
      name: 'shop',
      changes: 1,
      items: [
        { pk: 'N\0', status: 'refused', reason: nul('id') },
        { pk: 'P', status: 'refused', reason: nul('price') },
        { pk: 'Q', status: 'refused', reason: half },
        { pk: 'R', status: 'refused', reason: nul('pri\\u0000ce') },
        { pk: 'S', status: 'new' },
      ],
      deletes: [
        { pk: 'M\0', status: 'refused', reason: no },
        { pk: '\ud800', status: 'refused', reason: no },
        { pk: 'T', status: 'unchanged' },
      ],
    },
  ])
  await flows.delivered()
  expect(sent()).toEqual([['PUT', '/shop/S', { id: 'S', price: 1 }]])
  await push({ deletes: ['S'] })
  await flows.delivered()
})

test('the same again changes nothing, and a poll that finds it sends it no second time', async () => {
  const again = { items: [{ id: 'A', price: 2 }] }
  expect((await push(again)).json().items).toEqual([{ pk: 'A', status: 'unchanged' }])
  await flows.write('shop.json', [
    { id: 'A', price: 2 },
    { id: 'B', price: 1 },
    { id: 'C', price: 1 },
  ])
  expect((await flows.call('POST', '/sync/shop')).json().changes).toBe(0)
  expect(sent()).toEqual([])
})

test('a delete is sent where the flow deletes, and once', async () => {
  expect((await push({ deletes: ['C'] })).json()).toMatchObject({
    changes: 1,
    deletes: [{ pk: 'C', status: 'deleted' }],
  })
  expect((await push({ deletes: ['C', 'none'] })).json()).toMatchObject({
    changes: 0,
    deletes: [{ status: 'unchanged' }, { status: 'unchanged' }],
  })
  await flows.delivered()
  expect(sent()).toEqual([['DELETE', '/shop/C', undefined]])
  expect((await push({ deletes: ['C'] }, 'kept')).json().deletes).toEqual([
    { pk: 'C', status: 'refused', reason: 'deletes.mode of the flow is ignore' },
  ])
})

test('as many deletes at once as the guard holds back are refused', async () => {
  await push({ items: ['F', 'G'].map((id) => ({ id })) })
  const answer = (await push({ deletes: ['A', 'F', 'G'] })).json()
  expect(answer.changes).toBe(0)
  expect(answer.deletes[0]).toEqual({
    pk: 'A',
    status: 'refused',
    reason: '3 deletes held back: 75.0 % of 4 items vanished at once, more than 50 %',
  })
  await flows.delivered()
})

test('a paused flow takes it, and delivers it', async () => {
  await push({ items: [{ id: 'K', price: 1 }] }, 'kept')
  await flows.delivered()
  expect(sent()).toEqual([['PUT', '/kept/K', { id: 'K', price: 1 }]])
})

test('whole numbers beyond 2^53 arrive with all their digits', async () => {
  const payload = '{"items":[{"id":"N","n":12345678901234567890}]}'
  const { app } = flows
  const headers = { host: '127.0.0.1:8080', 'content-type': 'application/json' }
  const response = await app.inject({ method: 'POST', url: '/flow/kept/items', headers, payload })
  expect(response.json().items).toEqual([{ pk: 'N', status: 'new' }])
  const history = await flows.call('GET', '/flow/kept/items/N')
  expect(history.body).toContain('12345678901234567890')
  await flows.delivered()
})

test('a poll that began before it gives way, and one that began after it has the last word', async () => {
  const { db } = flows.service.database
  const read = await nextRead(db)
  // A poll begins, and finds B as it is stored.
  await flows.call('POST', '/sync/shop')
  const late = await flows.flows.push(
    'shop',
    { items: [{ id: 'B', price: 9 }], deletes: ['A'] },
    read,
    'x',
  )
  expect(late.changes).toBe(0)
  expect([...late.items, ...late.deletes]).toEqual([
    expect.objectContaining({ pk: 'B', status: 'refused', retry: true }),
    expect.objectContaining({ pk: 'A', status: 'refused', retry: true }),
  ])
  expect((await push({ items: [{ id: 'B', price: 9 }] })).json().items).toEqual([
    { pk: 'B', status: 'changed' },
  ])
  await flows.delivered()
})

test('while too much waits it is told to come again', async () => {
  target.answer(500)
  expect((await push({ items: [{ id: 'X' }] }, 'full')).statusCode).toBe(202)
  const response = await push({ items: [{ id: 'Y' }] }, 'full')
  expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '5'])
})

test.each([
  ['nothing is in it', { items: [] }, 400],
  ['there are too many', { items: Array.from({ length: 1_001 }, (_, n) => ({ id: `${n}` })) }, 400],
  ['an item is no object', { items: ['A'] }, 400],
  ['a key is unknown', { items: [{ id: 'A' }], force: true }, 400],
  ['a delete is no key', { deletes: [{ id: 'A' }] }, 400],
  [
    'it nests too deeply',
    { items: [{ id: 'A', deep: JSON.parse('['.repeat(40) + ']'.repeat(40)) }] },
    400,
  ],
  ['it is too long', { items: [{ id: 'A', text: 'x'.repeat(1024 * 1024) }] }, 413],
])('when %s it is refused whole', async (_, body, status) => {
  const response = await push(body)
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})

test('a flow that nobody defines is not found', async () => {
  expect((await push({ items: [{ id: 'A' }] }, 'none')).statusCode).toBe(404)
})
