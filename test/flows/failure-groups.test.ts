import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A receiver that refuses many items in words of its own leads to one group for each code and status. */
let target: TestTarget
let flows: TestFlows
const items = 196
beforeAll(async () => {
  target = await startTarget()
  target.answer(
    ({ path }) => (path.endsWith('7') ? 403 : 422),
    { 'content-type': 'application/json' },
    ({ path }) =>
      path.endsWith('7')
        ? '{"error":"duplicate"}'
        : JSON.stringify({ error: `article ${path.split('/').at(-1)} has no price`, path }),
  )
  const names = ['shop', 'again']
  const files = names.flatMap((name) => [
    [`${name}.flow.yaml`, jsonFlow(name, target.url)],
    [`${name}.json`, Array.from({ length: items }, (_, index) => ({ id: `K-${index}` }))],
  ])
  flows = await startTestFlows({ files: Object.fromEntries(files) })
  for (const name of names) await flows.flows.sync(name, { force: true })
  await flows.delivered()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const failures = async (name: string) =>
  (await flows.call('GET', `/flow/${name}/failures`)).json().failures

test('196 items that were refused with texts of their own and two statuses are two groups', async () => {
  expect(await failures('shop')).toMatchObject([
    {
      status: 422,
      items: 177,
      why: { code: 'HTTP_STATUS' },
      error: expect.stringContaining('has no price'),
    },
    { status: 403, items: 19, error: expect.stringContaining('duplicate') },
  ])
})

test('all failures of one group are sent again by code and status, and nothing else', {
  tags: ['long'],
}, async () => {
  target.answer(200)
  const [{ why, status }] = await failures('again')
  const without = await flows.call('POST', '/flow/again/retry', {
    body: { code: why.code, status: null },
  })
  expect(without.json()).toEqual({ name: 'again', retried: 0 })
  const again = await flows.call('POST', '/flow/again/retry', {
    body: { code: why.code, status, destination: 'web' },
  })
  expect(again.json()).toEqual({ name: 'again', retried: 177 })
  await flows.delivered()
  expect(await failures('again')).toMatchObject([{ status: 403, items: 19 }])
})

test('a status that no column can hold is refused, and nothing is sent again', async () => {
  const { statusCode, body } = await flows.call('POST', '/flow/shop/retry', {
    body: { status: -2_147_483_649 },
  })
  expect([statusCode, body]).toEqual([400, expect.stringContaining('status')])
})
