import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

const dayMs = 86_400_000

let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: {
      'stock.flow.yaml': jsonFlow('stock', target.url, { startPaused: false }),
      'stock.json': [{ id: '1' }],
    },
  })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

const runs = async () => (await flows.call('GET', '/metrics')).json().stock.totalRuns

test('after a clock is set back to before the start, no flow is polled more often than its interval', {
  tags: ['long'],
}, async () => {
  await expect.poll(runs).toBe(1)
  flows.service.clock.advance(-dayMs)
  await flows.call('POST', '/sync/stock')
  const before = await runs()
  // Each wakes the poller, which goes to the database as often as these calls do.
  for (let check = 0; check < 30; check += 1) {
    await flows.call('POST', '/flow/stock/resume')
    await runs()
  }
  expect(await runs()).toBe(before)
})
