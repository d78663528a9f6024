import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { countStatements } from '../support/statements.ts'

let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  // Before the database is opened, so that nothing is missed.
  await countStatements(async () => undefined)
  target = await startTarget()
  flows = await startTestFlows({ files: { 'shop.flow.yaml': jsonFlow('shop', target.url) } })
  // The first poll has more to store than a later one. What it leaves in memory counts once this process leads, as it does when
  // it has delivered; the second one leaves that.
  await poll(0)
  await flows.delivered()
  await poll(1)
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

const poll = async (price: number) => {
  await flows.write('shop.json', [{ id: 'x', price }])
  return await countStatements(() => flows.flows.sync('shop', { force: true }))
}

test('a poll reads the state of its flow once, and records its begin and its end', async () => {
  const statements = (await poll(2)).filter((one) => one.includes('"flow_state"'))
  expect(statements).toEqual([
    expect.stringMatching(/^select/),
    expect.stringMatching(/update "flow_state" set "read_number"/),
    // Whether another writer has changed items meanwhile.
    expect.stringMatching(/^select "items_stamp"/),
    expect.stringMatching(/update "flow_state" set "definition_hash"/),
  ])
})

test('a poll stores a change in one transaction, and its end in one statement of another', async () => {
  const statements = await poll(3)
  const transactions = statements.join(';').replaceAll('"', '').split(/begin/i).slice(1)
  const written = transactions.map((one) => one.match(/(?:insert into|update) (?!set)\w+/g))
  expect(written).toEqual([
    // The lease of the flow; then the number of the read.
    ['update leases', 'update flow_state'],
    ['insert into flow_items', 'insert into deliveries', 'insert into item_versions'],
    [
      ...['insert into flow_polls', 'update flow_state', 'update flow_limits'],
      ...['insert into flow_totals', 'update leases'],
    ],
  ])
  expect(statements).toHaveLength(18)
})
