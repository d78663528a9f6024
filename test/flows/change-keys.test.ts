import { afterAll, beforeAll, expect, test } from 'vitest'
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
  target.answer(({ path, headers, body }) => {
    const key = String(headers['idempotency-key'])
    if (!known.has(key)) prices.set(path, (body as { price: unknown }).price)
    known.add(key)
    return 200
  })
  flows = await startTestFlows({ files: { 'shop.flow.yaml': jsonFlow('shop', target.url) } })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
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

test('all attempts of one change have the same key', async () => {
  const remembering = target.received.length
  let attempts = 0
  target.answer(() => (++attempts === 2 ? 200 : 503))
  await price(70, '/sync/shop?force=true')
  await expect.poll(() => target.received.length - remembering).toBe(2)
  expect(new Set(keys().slice(remembering)).size).toBe(1)

  // A manual retry is still the same change.
  target.answer(422)
  await price(60, '/sync/shop?force=true')
  target.answer(200)
  await flows.call('POST', '/flow/shop/retry')
  await flows.delivered()
  const last = target.received.slice(-2)
  expect(last.map(({ body }) => body)).toEqual([
    { id: 'x', price: 60 },
    { id: 'x', price: 60 },
  ])
  expect(new Set(last.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
})
