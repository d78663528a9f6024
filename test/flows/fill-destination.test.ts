import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
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

const flowWith = (flowName: string, ...names: string[]) => {
  const flow = jsonFlow(flowName, target.url, { startPaused: false }) as { destinations: object[] }
  const [one] = flow.destinations
  return {
    ...flow,
    destinations: names.map((name) => ({
      ...one,
      name,
      request: { method: 'PUT', url: `${target.url}/${flowName}/${name}/{pk}` },
    })),
  }
}

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows()
})
beforeEach(() => {
  target.received.length = 0
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

/** A flow that has sent everything to these destinations. */
async function begin(name: string, ...destinations: string[]): Promise<void> {
  await flows.write(`${name}.json`, items)
  await define(flowWith(name, ...destinations))
  await flows.flows.sync(name, { force: false })
  await flows.delivered()
}

async function define(flow: Record<string, unknown>): Promise<void> {
  await flows.write(`${flow.name}.flow.yaml`, flow)
  await flows.flows.reload('test')
}

/** The number of requests to each destination since the last call. */
function sent(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { path } of target.received.splice(0)) {
    const name = path.split('/')[2] ?? ''
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

test('POST /resync/{flow}?destination= sends everything to that destination, under new keys, and nothing to the others', {
  tags: ['long'],
}, async () => {
  await begin('shop', 'erp', 'web')
  const keys = () => target.received.map(({ headers }) => String(headers['idempotency-key']))
  const before = keys()
  expect(sent()).toEqual({ erp: 25, web: 25 })
  const answer = await flows.call('POST', '/resync/shop?destination=web')
  expect(answer.json()).toEqual({
    ...{ name: 'shop', status: 'reset' },
    ...{ changes: 0, deliveries: 25 },
  })
  await flows.delivered()
  expect(keys().filter((key) => before.includes(key))).toEqual([])
  expect(sent()).toEqual({ web: 25 })
  // Once is once.
  await flows.call('POST', '/sync/shop')
  await flows.delivered()
  expect(sent()).toEqual({})
})

test('what waited for another attempt is sent under a new key too: a receiver would answer for the former one without doing anything', {
  tags: ['long'],
}, async () => {
  await begin('retried', 'web')
  sent()
  target.answer(503)
  await flows.write('retried.json', [{ id: 'A-10', price: 'new' }, ...items.slice(1)])
  await flows.call('POST', '/sync/retried')
  const keys = () =>
    target.received
      .filter(({ path }) => path.endsWith('/A-10'))
      .map(({ headers }) => String(headers['idempotency-key']))
  await expect.poll(() => keys().length).toBeGreaterThan(0)
  const [before] = keys()
  target.answer(200)
  await flows.call('POST', '/resync/retried?destination=web')
  await flows.ended()
  expect(keys().at(-1)).not.toBe(before)
})

test('a change during a fill goes to all destinations, once', { tags: ['long'] }, async () => {
  await begin('changing', 'erp', 'web')
  sent()
  await flows.write('changing.json', [{ id: 'A-10', price: 'new' }, ...items.slice(1)])
  const answer = await flows.call('POST', '/resync/changing?destination=erp')
  expect(answer.json()).toMatchObject({ changes: 1, deliveries: 25 })
  await flows.delivered()
  expect(sent()).toEqual({ erp: 25, web: 1 })
})

test('a change of the source beside an added destination and another part of the source reaches the others too', {
  tags: ['long'],
}, async () => {
  await begin('edited', 'erp', 'web')
  sent()
  await flows.write('edited.json', [{ id: 'A-10', price: 'new' }, ...items.slice(1)])
  const flow = flowWith('edited', 'erp', 'added', 'web') as Record<string, unknown>
  const source = flow.source as object
  await define({ ...flow, source: { ...source, limits: { fetchSize: 50 } } })
  await flows.call('POST', '/sync/edited')
  await flows.delivered()
  expect(sent()).toEqual({ erp: 1, added: 25, web: 1 })
})

test('a destination that the flow does not have is 404', { tags: ['long'] }, async () => {
  await begin('known', 'erp', 'web')
  expect((await flows.call('POST', '/resync/known?destination=nobody')).statusCode).toBe(404)
  expect((await flows.call('POST', '/resync/nobody?destination=web')).statusCode).toBe(404)
})

test('an added destination is filled by the next poll, without approval', {
  tags: ['long'],
}, async () => {
  await begin('growing', 'erp', 'web')
  sent()
  await define(flowWith('growing', 'erp', 'added', 'web'))
  await flows.call('POST', '/sync/growing')
  await flows.delivered()
  expect(sent()).toEqual({ added: 25 })
  await flows.call('POST', '/sync/growing')
  await flows.delivered()
  expect(sent()).toEqual({})
})

test('an item synced before an added destination gets all items is sent there once, too', {
  tags: ['long'],
}, async () => {
  await begin('synced', 'erp', 'web')
  sent()
  await define(flowWith('synced', 'erp', 'web', 'fresh'))
  const synced = { id: 'A-11', price: 'synced' }
  const [first, , ...others] = items
  await flows.write('synced.json', [first, synced, ...others])
  await flows.call('POST', '/sync/synced/A-11')
  await flows.call('POST', '/sync/synced')
  await flows.delivered()
  expect(sent()).toEqual({ erp: 1, web: 1, fresh: 25 })
})

test.each([
  ['added', undefined],
  ['resynced', '/resync/resynced?destination=web'],
])(
  'an item with an invalid record is sent to a destination that was %s meanwhile as soon as it is valid again',
  { tags: ['long'] },
  async (name, resync) => {
    const flow = (...names: string[]) => ({
      ...flowWith(name, ...names),
      item: { key: 'id', hash: { decimals: { price: 0 } } },
    })
    const [first, ...others] = items
    await flows.write(`${name}.json`, items)
    await define(flow('erp', ...(resync ? ['web'] : [])))
    await flows.flows.sync(name, { force: false })
    await flows.delivered()
    sent()
    await flows.write(`${name}.json`, [{ ...first, price: 'x' }, ...others])
    if (resync) await flows.call('POST', resync)
    else await define(flow('erp', 'web'))
    await flows.call('POST', `/sync/${name}`)
    await flows.delivered()
    expect(sent()).toEqual({ web: 24 })
    await flows.write(`${name}.json`, items)
    await flows.call('POST', `/sync/${name}`)
    await flows.delivered()
    expect(sent()).toEqual({ web: 1 })
    await flows.call('POST', `/sync/${name}`)
    await flows.delivered()
    expect(sent()).toEqual({})
  },
)

test('a destination that is added before the end of the first poll needs no approval either', {
  tags: ['long'],
}, async () => {
  const flow = (...names: string[]) => ({ ...flowWith('young', ...names), startPaused: true })
  await flows.write('young.json', items)
  await define(flow('web'))
  await flows.call('POST', '/sync/young/A-10')
  await define(flow('web', 'added'))
  const answer = await flows.call('POST', '/sync/young?force=true')
  expect(answer.json()).toEqual({ name: 'young', changes: 24 })
  await flows.delivered()
  expect(sent()).toEqual({ web: 25, added: 25 })
})
