import { afterAll, beforeAll, expect, test } from 'vitest'
import { countItems } from '../../src/repositories/flow-items.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

const items = Array.from({ length: 6_000 }, (_, n) => ({ id: `${n}` }))

let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: { 'big.flow.yaml': jsonFlow('big', target.url), 'big.json': items },
  })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

test('a reset leaves a poll that runs alone, and the next one sends everything again', async () => {
  const polling = flows.flows.sync('big', { force: true })
  const { db } = flows.service.database
  await expect.poll(() => countItems(db, 'big'), { interval: 5 }).toBeGreaterThan(0)
  const reset = await flows.call('DELETE', '/reset/big')
  expect(reset.json()).toEqual({ name: 'big', status: 'reset' })
  expect(await polling).toMatchObject({ changes: items.length })
  expect(await flows.flows.sync('big', { force: true })).toMatchObject({ changes: items.length })
})
