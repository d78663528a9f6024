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

test('a clock that is set back to before the start has no flow polled more often than its interval', async () => {
  await expect.poll(runs).toBe(1)
  flows.service.clock.advance(-dayMs)
  await flows.call('POST', '/sync/stock')
  const before = await runs()
  // Each wakes the poller, which goes to the database as often as these calls do.
  for (let looks = 0; looks < 30; looks += 1) {
    await flows.call('POST', '/flow/stock/resume')
    await runs()
  }
  expect(await runs()).toBe(before)
})
