import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  patientFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Under another key every item is another one. An operator says whether it is the same. */
let target: TestTarget
let flows: TestFlows

const file = (name: string, extra: object) => {
  const flow = jsonFlow(name, target.url, {
    startPaused: false,
    deletes: { mode: 'delete', guard: { maxPercent: 100, minItems: 0, emptySource: 'allow' } },
    ...extra,
  }) as { destinations: object[] }
  const destinations = flow.destinations.map((one) => ({
    ...one,
    delete: { url: `${target.url}/${name}/{pk}` },
  }))
  return { ...flow, destinations }
}
const items = (ids: string[]) => ids.map((id) => ({ id, sku: `S-${id}`, price: 1 }))
const sync = (name: string) => flows.flows.sync(name, { force: false })
const got = (name: string) => target.received.filter(({ path }) => path.startsWith(`/${name}/`))

/** The flow has sent three items under the key `id`. */
async function begin(name: string): Promise<void> {
  await flows.write(`${name}.json`, items(['1', '2', '3']))
  await flows.write(`${name}.flow.yaml`, file(name, {}))
  await flows.call('POST', '/flows/reload')
  await sync(name)
  await flows.delivered()
  expect(got(name)).toHaveLength(3)
}

const questionOf = async (name: string) =>
  (await flows.call('GET', `/flow/${name}/question`)).json()
/** Answers the question about another key. */
async function answer(name: string, how: string): Promise<void> {
  await expect.poll(() => questionOf(name), { timeout: 10_000 }).toMatchObject({ state: 'asked' })
  const { number } = await questionOf(name)
  await flows.call('POST', `/flow/${name}/question`, { body: { number, answer: how } })
  await expect.poll(() => questionOf(name), { timeout: 10_000 }).toMatchObject({ state: 'none' })
}

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

test('after a change of the key field and the answer keep nothing is sent or deleted; later changes are sent under the new key', {
  tags: ['long'],
}, async () => {
  await begin('shop')
  await flows.write('shop.flow.yaml', file('shop', { item: { key: 'sku' } }))
  await flows.call('POST', '/flows/reload')
  await answer('shop', 'keep')
  await sync('shop')
  await sync('shop')
  await flows.delivered()
  expect(got('shop')).toHaveLength(3)
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  expect(cards.find((card: { name: string }) => card.name === 'shop')).toMatchObject({
    items: 3,
    question: null,
  })

  const [one, two, four] = items(['1', '2', '4'])
  await flows.write('shop.json', [one, { ...two, price: 2 }, four])
  // The poll that the resume requested may come first and find them.
  await sync('shop')
  await flows.delivered()
  expect(
    got('shop')
      .slice(3)
      .map(({ method, path }) => `${method} ${path}`)
      .sort(),
  ).toEqual(['DELETE /shop/S-3', 'PUT /shop/S-2', 'PUT /shop/S-4'])
})

test.each([
  ['waits for another attempt', 503, '/try'],
  ['failed', 422, '/retry'],
])('after another key a delivery of the old key that %s is not sent', async (_, status, again) => {
  const name = `late${again.slice(1)}`
  const define = async (key: string) => {
    const flow = patientFlow(name, target.url, {
      startPaused: false,
      item: { key, onDefinitionChange: 'send' },
    }) as { destinations: object[] }
    const request = { method: 'PUT', url: `${target.url}/${name}/{body.sku}` }
    const destinations = flow.destinations.map((one) => ({ ...one, request }))
    await flows.write(`${name}.flow.yaml`, { ...flow, destinations })
    expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
  }
  const prices = () => got(name).map(({ body }) => (body as { price: number }).price)
  target.answer(status)
  await flows.write(`${name}.json`, [{ id: '1', sku: 'A', price: 1 }])
  await define('id')
  await sync(name)
  await flows.delivered()
  target.answer(200)
  const tried = prices().length
  await flows.write(`${name}.json`, [{ id: '1', sku: 'A', price: 2 }])
  await define('sku')
  await sync(name)
  await flows.delivered()
  expect(prices().slice(tried)).toEqual([2])
  await flows.call('POST', `/flow/${name}${again}`)
  await flows.delivered()
  expect(prices().slice(tried)).toEqual([2])
})

test('a delete under the new key goes to a destination that has the item of the same name', {
  tags: ['long'],
}, async () => {
  const name = 'same'
  const define = async (key: string[]) => {
    const flow = patientFlow(name, target.url, {
      startPaused: false,
      item: { key, onDefinitionChange: 'send' },
      deletes: { mode: 'delete', guard: { maxPercent: 100, minItems: 0, emptySource: 'allow' } },
    }) as { destinations: object[] }
    const destinations = flow.destinations.map((one) => ({
      ...one,
      delete: { url: `${target.url}/${name}/{pk}` },
    }))
    await flows.write(`${name}.flow.yaml`, { ...flow, destinations })
    expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
  }
  const put = (...items: object[]) => flows.write(`${name}.json`, items)
  await put({ id: 'A', sku: 'A', price: 1 }, { id: 'B', sku: 'B' })
  await define(['id'])
  await sync(name)
  await flows.delivered()
  target.answer(503)
  await put({ id: 'A', sku: 'A', price: 2 }, { id: 'B', sku: 'B' })
  await sync(name)
  await flows.delivered()
  await define(['sku'])
  await sync(name)
  await flows.delivered()
  await put({ id: 'B', sku: 'B' })
  await sync(name)
  target.answer(200)
  await flows.call('POST', `/flow/${name}/try`)
  await flows.delivered()
  // The other item is delivered beside it.
  const ofItem = got(name).filter(({ path }) => path === `/${name}/A`)
  expect(ofItem.at(-1)).toMatchObject({ method: 'DELETE' })
})

test('after another key and the answer keep an unsent change of the old key is sent under the new key, and only there', {
  tags: ['long'],
}, async () => {
  const name = 'unsent'
  const define = async (key: string) => {
    const flow = patientFlow(name, target.url, { startPaused: false, item: { key } }) as {
      destinations: object[]
    }
    const request = { method: 'PUT', url: `${target.url}/${name}/{body.sku}` }
    const destinations = flow.destinations.map((one) => ({ ...one, request }))
    await flows.write(`${name}.flow.yaml`, { ...flow, destinations })
    await flows.call('POST', '/flows/reload')
  }
  const put = async (...prices: number[]) => {
    const items = prices.map((price, place) => ({ id: `${place}`, sku: `S-${place}`, price }))
    await flows.write(`${name}.json`, items)
    await flows.call('POST', `/sync/${name}`)
    await flows.delivered()
  }
  const prices = () =>
    got(name)
      .slice(tried)
      .map(({ body }) => body as { sku: string; price: number })
      .map(({ sku, price }) => `${sku}=${price}`)
  let tried = 0
  await define('id')
  await put(1, 1, 1)
  target.answer(({ body }) => ((body as { price?: number }).price === 2 ? 503 : 200))
  await put(2, 2, 1)
  tried = got(name).length
  await define('sku')
  await answer(name, 'keep')
  await put(2, 2, 1)
  target.answer(200)
  await put(3, 2, 1)
  await flows.call('POST', `/flow/${name}/try`)
  await flows.delivered()
  await put(3, 2, 1)
  // Polls may come between, so a change may be tried again before it arrives.
  expect(
    prices()
      .filter((one) => one.startsWith('S-0'))
      .at(-1),
  ).toBe('S-0=3')
  expect(
    prices()
      .filter((one) => one.startsWith('S-1'))
      .at(-1),
  ).toBe('S-1=2')
  expect(prices().filter((one) => one.startsWith('S-2'))).toEqual([])
  const { db } = flows.service.database
  const open = await db
    .selectFrom('deliveries')
    .select(['pk', 'state'])
    .where('flow', '=', name)
    .where('state', '<>', 'done')
    .execute()
  expect(open).toEqual([])
})
