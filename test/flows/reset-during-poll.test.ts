import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Db } from '../../src/db/database.ts'
import { countItemsByFlow } from '../../src/repositories/flows/flow-items.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

const items = Array.from({ length: 3_000 }, (_, n) => ({ id: `${n}` }))

/** How many items have a hash. */
const seenOf = async (db: Db, name: string) => (await countItemsByFlow(db)).get(name) ?? 0

let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: {
      ...{ 'big.flow.yaml': jsonFlow('big', target.url), 'big.json': items },
      ...{ 'limited.flow.yaml': jsonFlow('limited', target.url), 'limited.json': items },
    },
  })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

test('a reset does not affect a running poll, and the next one sends everything again', {
  tags: ['long'],
}, async () => {
  const polling = flows.flows.sync('big', { force: true })
  const { db } = flows.service.database
  await expect.poll(() => seenOf(db, 'big'), { interval: 5 }).toBeGreaterThan(0)
  const reset = await flows.call('DELETE', '/reset/big')
  expect(reset.json()).toEqual({ name: 'big', status: 'reset' })
  expect(await polling).toMatchObject({ changes: items.length })
  expect(await flows.flows.sync('big', { force: true })).toMatchObject({ changes: items.length })
})

test('a sync during the last poll of a limit causes no poll beyond it', {
  tags: ['long'],
}, async () => {
  await flows.call('POST', '/resync/limited')
  await flows.call('POST', '/flow/limited/limit/1')
  const { db } = flows.service.database
  flows.service.clock.advance(3_600_000)
  await flows.call('POST', '/flow/limited/resume')
  await expect.poll(() => seenOf(db, 'limited'), { interval: 5 }).toBeGreaterThan(0)
  const late = await flows.call('POST', '/sync/limited')
  expect(late.json()).toEqual({ name: 'limited', changes: 0, skipped: 'paused' })
  const { limited } = (await flows.call('GET', '/flows/status')).json()
  expect(limited).toMatchObject({ paused: true, runLimit: 1, runCount: 1 })
})
