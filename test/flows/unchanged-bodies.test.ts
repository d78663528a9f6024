import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A destination whose mapped body equals the delivered one is not called. */
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
  await flows?.stop()
  await target?.close()
})

type Item = { id: string; price: number; seen: number }
const map = '{ "id": id, "price": price }'

/** A flow that sends the price, and not the time of the last reading. */
const definition = (name: string, more: object = {}) => {
  const flow = jsonFlow(name, target.url, { startPaused: false, ...more }) as {
    destinations: { name: string }[]
  }
  return { ...flow, destinations: flow.destinations.map((one) => ({ ...one, map })) }
}

async function serve(name: string, ...items: Item[]) {
  await flows.write(`${name}.json`, items)
  await flows.write(`${name}.flow.yaml`, definition(name))
  const reloaded = await flows.call('POST', '/flows/reload')
  expect(reloaded.json().problems).toEqual([])
}

const bodiesFor = (name: string) =>
  target.received.filter(({ path }) => path.startsWith(`/${name}/`)).map(({ body }) => body)

/** What is sent by a poll that finds these items. */
async function sentFor(name: string, ...items: Item[]) {
  await flows.write(`${name}.json`, items)
  target.received.length = 0
  const polled = await flows.call('POST', `/sync/${name}?force=true`)
  expect(polled.statusCode, polled.body).toBe(200)
  await flows.delivered()
  return bodiesFor(name)
}

const item = (id: string, price: number, seen = 0): Item => ({ id, price, seen })
const report = async (name: string, pk: string) =>
  (await flows.call('GET', `/flow/${name}/items/${pk}`)).json()

test('a change of a field that the mapping does not use sends nothing, and the item stays in sync', {
  tags: ['long'],
}, async () => {
  await serve('prices')
  expect(await sentFor('prices', item('1', 10))).toEqual([{ id: '1', price: 10 }])
  expect(await sentFor('prices', item('1', 10, 1))).toEqual([])
  expect((await report('prices', '1')).destinations).toMatchObject([
    { name: 'web', state: 'delivered', in_sync: true },
  ])
  expect(await sentFor('prices', item('1', 10, 2))).toEqual([])
  expect(await sentFor('prices', item('1', 11, 3))).toEqual([{ id: '1', price: 11 }])
  expect(await sentFor('prices', item('1', 10, 3))).toEqual([{ id: '1', price: 10 }])
})

test('a resync sends the same body again', async () => {
  await serve('again')
  await sentFor('again', item('1', 10))
  for (const path of ['/resync/again?force=true', '/resync/again/1?force=true']) {
    target.received.length = 0
    expect((await flows.call('POST', path)).statusCode).toBe(200)
    await flows.delivered()
    expect(bodiesFor('again')).toEqual([{ id: '1', price: 10 }])
  }
  expect(await sentFor('again', item('1', 10, 1))).toEqual([])
})

test('a body that may not have arrived, or was refused meanwhile, is sent again', {
  tags: ['long'],
}, async () => {
  await serve('doubt')
  await sentFor('doubt', item('1', 10))
  target.answer(503)
  await sentFor('doubt', item('1', 11))
  target.answer(200)
  // The receiver may have taken 11 before it answered.
  expect(await sentFor('doubt', item('1', 10, 1))).toEqual([{ id: '1', price: 10 }])
})

test('an item that is synced while a resync of a destination waits is still sent by that resync', async () => {
  await serve('waiting')
  await sentFor('waiting', item('1', 10), item('2', 10))
  await flows.call('POST', '/flow/waiting/pause')
  expect((await flows.call('POST', '/resync/waiting?destination=web')).statusCode).toBe(200)
  await flows.write('waiting.json', [item('1', 10, 1), item('2', 10)])
  expect((await flows.call('POST', '/sync/waiting/1')).statusCode).toBe(200)
  await flows.delivered()
  await flows.call('POST', '/flow/waiting/resume')
  await flows.call('POST', '/sync/waiting')
  await flows.delivered()
  expect(bodiesFor('waiting').slice(2)).toEqual(
    expect.arrayContaining([
      { id: '1', price: 10 },
      { id: '2', price: 10 },
    ]),
  )
})
