import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

let target: TestTarget
let flows: TestFlows
/** The prices at a shop that answers a request with a known key without applying it. */
const prices = new Map<string, unknown>()
const known = new Set<string>()

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({ files: { 'shop.flow.yaml': jsonFlow('shop', target.url) } })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})
beforeEach(() => {
  target.answer(({ path, headers, body }) => {
    const key = String(headers['idempotency-key'])
    if (!known.has(key)) prices.set(path, (body as { price: unknown }).price)
    known.add(key)
    return 200
  })
})

const price = async (value: number, path: string) => {
  await flows.write('shop.json', [{ id: 'x', price: value }])
  await flows.call('POST', path)
  await flows.delivered()
  return prices.get('/shop/x')
}
const keys = () => target.received.map(({ headers }) => headers['idempotency-key'])

test('a receiver that stores keys gets each change of an item, also a change back to an earlier content', async () => {
  for (const value of [100, 90, 100]) {
    expect(await price(value, '/sync/shop?force=true')).toBe(value)
  }
  for (const value of [90, 100]) expect(await price(value, '/sync/shop/x')).toBe(value)
})

test('a receiver that stores keys and lost an item gets it again after a forced resync', async () => {
  prices.clear()
  expect(await price(100, '/resync/shop?force=true')).toBe(100)
  prices.clear()
  expect(await price(100, '/resync/shop/x?force=true')).toBe(100)
})

test('all attempts of one change have the same key', { tags: ['long'] }, async () => {
  const remembering = target.received.length
  let attempts = 0
  target.answer(() => (++attempts === 2 ? 200 : 503))
  await price(70, '/sync/shop?force=true')
  await expect.poll(() => target.received.length - remembering).toBe(2)
  expect(new Set(keys().slice(remembering)).size).toBe(1)
})

/** The two last requests, after a person retried what had failed with this answer. */
async function retried(status: number, value: number, body = '{}') {
  target.answer(status, {}, () => body)
  await price(value, '/sync/shop?force=true')
  await flows.ended()
  target.answer(200, {}, () => '{}')
  expect((await flows.call('POST', '/flow/shop/retry')).json()).toMatchObject({ retried: 1 })
  await flows.ended()
  const last = target.received.slice(-2)
  expect(last.map((one) => one.body)).toEqual([
    { id: 'x', price: value },
    { id: 'x', price: value },
  ])
  return new Set(last.map(({ headers }) => headers['idempotency-key'])).size
}

test('a retry by a person after a refusal has another key, because a receiver answers a known key with its refusal', {
  tags: ['long'],
}, async () => {
  const [web] = jsonFlow('shop', target.url).destinations as object[]
  await flows.write('shop.flow.yaml', {
    ...jsonFlow('shop', target.url),
    destinations: [
      {
        ...web,
        breaker: false,
        retry: { attempts: 2, initial: '100ms', max: '100ms', jitter: 0 },
        answers: [{ status: [200], when: 'body.error', is: 'final' }],
      },
    ],
  })
  expect((await flows.call('POST', '/flows/reload')).json()).toMatchObject({ problems: [] })
  for (const status of [400, 404, 422]) expect(await retried(status, status)).toBe(2)
  expect(await retried(200, 200, '{"error":true}')).toBe(2)
})

test('a retry by a person after attempts whose outcome is not known has the same key', {
  tags: ['long'],
}, async () => {
  for (const status of [408, 409, 429, 500, 503]) expect(await retried(status, status)).toBe(1)
})
