import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** One destination can be sent everything without the others, and one that is new is. */
let target: TestTarget
let flows: TestFlows
const items = Array.from({ length: 25 }, (_, index) => ({ id: `A-${index + 10}`, price: index }))

const flowWith = (...names: string[]) => {
  const flow = jsonFlow('shop', target.url, { startPaused: false }) as { destinations: object[] }
  const [one] = flow.destinations
  return {
    ...flow,
    destinations: names.map((name) => ({
      ...one,
      name,
      request: { method: 'PUT', url: `${target.url}/${name}/{pk}` },
    })),
  }
}

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: { 'shop.flow.yaml': flowWith('erp', 'web'), 'shop.json': items },
  })
  await flows.flows.sync('shop', { force: false })
  await flows.delivered()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

/** How many requests each destination was sent since it was last asked. */
function sent(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { path } of target.received.splice(0)) {
    const name = path.split('/')[1] ?? ''
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

test('POST /resync/{flow}?destination= sends everything to that one, under new keys, and nothing to the others', async () => {
  const keys = () => target.received.map(({ headers }) => String(headers['idempotency-key']))
  const before = keys()
  expect(sent()).toEqual({ erp: 25, web: 25 })
  const answer = await flows.call('POST', '/resync/shop?destination=web')
  expect(answer.json()).toMatchObject({ name: 'shop', status: 'reset', changes: 0 })
  await flows.delivered()
  expect(keys().filter((key) => before.includes(key))).toEqual([])
  expect(sent()).toEqual({ web: 25 })
  // Once is once.
  await flows.call('POST', '/sync/shop')
  await flows.delivered()
  expect(sent()).toEqual({})
})

test('a change meanwhile goes to all of them, once', async () => {
  await flows.write('shop.json', [{ id: 'A-10', price: 'new' }, ...items.slice(1)])
  await flows.call('POST', '/resync/shop?destination=erp')
  await flows.delivered()
  expect(sent()).toEqual({ erp: 25, web: 1 })
})

test('a destination that the flow does not have is not there', async () => {
  expect((await flows.call('POST', '/resync/shop?destination=nobody')).statusCode).toBe(404)
  expect((await flows.call('POST', '/resync/nobody?destination=web')).statusCode).toBe(404)
})

test('a destination that is added is filled by the next poll, without a question', async () => {
  await flows.write('shop.flow.yaml', flowWith('erp', 'added', 'web'))
  await flows.flows.reload('test')
  await flows.call('POST', '/sync/shop')
  await flows.delivered()
  expect(sent()).toEqual({ added: 25 })
  await flows.call('POST', '/sync/shop')
  await flows.delivered()
  expect(sent()).toEqual({})
})

test('what is synced between a reload and the poll that fills an added destination reaches that one twice, the others once', async () => {
  await flows.write('shop.flow.yaml', flowWith('erp', 'added', 'web', 'fresh'))
  await flows.flows.reload('test')
  const synced = { id: 'A-11', price: 'synced' }
  await flows.write('shop.json', [{ id: 'A-10', price: 'new' }, synced, ...items.slice(2)])
  await flows.call('POST', '/sync/shop/A-11')
  await flows.delivered()
  expect(sent()).toEqual({ erp: 1, added: 1, web: 1, fresh: 1 })
  await flows.call('POST', '/sync/shop')
  await flows.delivered()
  expect(sent()).toEqual({ fresh: 25 })
})

test('one whose mapping changed beside it is asked about as ever', async () => {
  const flow = flowWith('erp', 'added', 'web', 'fresh', 'more')
  const [first, ...others] = flow.destinations
  const changed = { ...first, map: '{ "other": price }' }
  await flows.write('shop.flow.yaml', { ...flow, destinations: [changed, ...others] })
  await flows.flows.reload('test')
  expect((await flows.call('POST', '/sync/shop')).json()).toMatchObject({ skipped: 'paused' })
  await flows.delivered()
  expect(sent()).toEqual({})
})

test('a destination that is added before the first poll has ended is no question either', async () => {
  const flow = (...names: string[]) => ({
    ...flowWith(...names),
    ...{ name: 'young', startPaused: true },
    source: jsonFlow('shop', target.url).source,
  })
  await flows.write('young.flow.yaml', flow('web'))
  await flows.flows.reload('test')
  await flows.call('POST', '/sync/young/A-10')
  await flows.write('young.flow.yaml', flow('web', 'added'))
  await flows.flows.reload('test')
  const answer = await flows.call('POST', '/sync/young?force=true')
  expect(answer.json()).toEqual({ name: 'young', changes: 24 })
  await flows.delivered()
  expect(sent()).toEqual({ web: 25, added: 25 })
})
