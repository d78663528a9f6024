import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Items that the source lost are deleted at its destinations, also when the flow is reset before a poll finds them missing. */
let target: TestTarget
let flows: TestFlows
const items = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => ({ id: `A-${from + index}`, sku: 'S' }))

const definition = (name: string, deletes: object, extra: object = {}) => {
  const flow = jsonFlow(name, target.url, {
    startPaused: false,
    deletes: { mode: 'delete', ...deletes },
    ...extra,
  }) as { destinations: { name: string }[] }
  const [one] = flow.destinations
  const to = (at: string) => ({
    ...one,
    name: at,
    request: { method: 'PUT', url: `${target.url}/${name}-${at}/{pk}` },
    delete: { url: `${target.url}/${name}-${at}/{pk}` },
  })
  return { ...flow, destinations: [to('web'), to('erp')] }
}

const free = { guard: { maxPercent: 100, minItems: 0, emptySource: 'allow' } }
let number = 0
let name = ''

/** A flow that has delivered items 1 to 4. */
async function start(deletes: object, extra: object = {}): Promise<void> {
  number += 1
  name = `shop-${number}`
  await flows.write(`${name}.json`, items(1, 4))
  await flows.write(`${name}.flow.yaml`, definition(name, deletes, extra))
  await flows.call('POST', '/flows/reload')
  await sync()
  await flows.delivered()
}
const sync = () => flows.flows.sync(name, { force: true })
const deletes = () =>
  target.received
    .filter(({ method, path }) => method === 'DELETE' && path.startsWith(`/${name}-`))
    .map(({ path }) => path.replace(`/${name}-`, ''))
    .sort()
const settle = async () => {
  await sync()
  await flows.delivered()
}

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({ files: {} })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})
beforeEach(() => {
  target.received.length = 0
})

describe.each([
  ['a reset', () => flows.call('DELETE', `/reset/${name}`)],
  ['a resync', () => flows.call('POST', `/resync/${name}`)],
  ['a reset of the item', () => flows.call('DELETE', `/reset/${name}/A-4`)],
  ['a resync of the item', () => flows.call('POST', `/resync/${name}/A-4`)],
])('%s', { tags: ['long'] }, (_, reset) => {
  test('deletes items at the destinations that the source lost before it', async () => {
    await start(free)
    await flows.write(`${name}.json`, items(1, 3))
    await reset()
    await settle()
    expect(deletes()).toEqual(['erp/A-4', 'web/A-4'])
  })

  test('leaves a delete that the guard holds to the operator, who can still answer', async () => {
    await start({ guard: { maxPercent: 10, minItems: 0 } })
    await flows.write(`${name}.json`, items(1, 3))
    await settle()
    await reset()
    await settle()
    expect(deletes()).toEqual([])
    const asked = (await flows.call('GET', `/flow/${name}/question`)).json()
    expect(asked).toMatchObject({ about: 'deletes', missing: 1, missing_items: [{ pk: 'A-4' }] })
    const body = { number: asked.number, answer: 'send' }
    await flows.call('POST', `/flow/${name}/question`, { body })
    await settle()
    await flows.delivered()
    expect(deletes()).toEqual(['erp/A-4', 'web/A-4'])
  })

  test('leaves a delete that waits for a second full scan to that scan', async () => {
    await start({ ...free, scans: 2 })
    await flows.write(`${name}.json`, items(1, 3))
    await settle()
    expect(deletes()).toEqual([])
    await reset()
    await settle()
    await settle()
    expect(deletes()).toEqual(['erp/A-4', 'web/A-4'])
  })

  test('of a returned item deletes nothing', async () => {
    await start(free)
    await reset()
    await settle()
    expect(deletes()).toEqual([])
  })
})

test('a reset while the flow is paused deletes, after the next poll, what the source lost before it', async () => {
  await start(free)
  await flows.call('POST', `/flow/${name}/pause`)
  await flows.write(`${name}.json`, items(1, 3))
  await flows.call('DELETE', `/reset/${name}`)
  await flows.call('POST', `/flow/${name}/resume`)
  await settle()
  expect(deletes()).toEqual(['erp/A-4', 'web/A-4'])
})

test('a reset item is shown as never seen, and is not counted', async () => {
  await start(free)
  await flows.call('POST', `/flow/${name}/pause`)
  const reset = await flows.call('DELETE', `/reset/${name}/A-4`)
  expect(reset.json()).toEqual({ name, pk: 'A-4', status: 'reset', existed: true })
  expect((await flows.call('DELETE', `/reset/${name}/A-4`)).json()).toMatchObject({
    existed: false,
  })
  const cards = (await flows.call('GET', '/flows')).json().flows as { name: string }[]
  expect(cards.find((card) => card.name === name)).toMatchObject({ items: 3 })
})

test('a reset under another key deletes nothing under the old one', async () => {
  await start(free)
  await flows.write(`${name}.json`, [{ id: 'A-1', sku: 'S-1' }])
  await flows.write(`${name}.flow.yaml`, definition(name, free, { item: { key: 'sku' } }))
  await flows.call('POST', '/flows/reload')
  await flows.call('POST', `/resync/${name}?force=true`)
  await settle()
  expect(deletes()).toEqual([])
})
