import { afterAll, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A corrected code gives an item another identity at the destination. What it had under the former one is deleted there. */
let target: TestTarget
let flows: TestFlows
let serial = 0
let name = ''

beforeEach(async () => {
  target ??= await startTarget()
  flows ??= await startTestFlows({ files: {} })
  target.answer(200)
  target.received.length = 0
  serial += 1
  name = `shop-${serial}`
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

const define = async (deletes: object, more: object = {}) => {
  const flow = jsonFlow(name, target.url, {
    startPaused: false,
    deletes: { mode: 'delete', guard: { minItems: 10 }, ...deletes },
  }) as { destinations: object[] }
  const address = `${target.url}/${name}/{body.code}`
  const request = { method: 'PUT', url: address }
  const one = { ...flow.destinations[0], request, delete: { url: address }, ...more }
  await flows.write(`${name}.flow.yaml`, { ...flow, destinations: [one] })
  await flows.call('POST', '/flows/reload')
}
const write = (items: Record<string, string>) =>
  flows.write(
    `${name}.json`,
    Object.entries(items).map(([id, code]) => ({ id, code })),
  )
const bring = async (items: Record<string, string>, polls = 1) => {
  await write(items)
  for (let poll = 0; poll < polls; poll += 1) {
    await flows.call('POST', `/sync/${name}`)
    await flows.ended()
  }
}
const question = async () => (await flows.call('GET', `/flow/${name}/question`)).json()
const send = async () => {
  const { number } = await question()
  await flows.call('POST', `/flow/${name}/question`, { body: { number, answer: 'send' } })
}
const sent = () =>
  target.received
    .filter(({ path }) => path.startsWith(`/${name}/`))
    .map(({ method, path }) => `${method} ${path.slice(name.length + 2)}`)

test('the former one is deleted by the next full read, after the new one was sent', {
  tags: ['long'],
}, async () => {
  await define({})
  await bring({ 1: 'A', 2: 'B' })
  await bring({ 1: 'C', 2: 'B' })
  expect(sent()).toEqual(['PUT A', 'PUT B', 'PUT C'])
  await bring({ 1: 'C', 2: 'B' })
  expect(sent()).toEqual(['PUT A', 'PUT B', 'PUT C', 'DELETE A'])
  await bring({ 1: 'C', 2: 'B' }, 2)
  expect(sent()).toHaveLength(4)
})

test('each of several former ones is deleted, and none that an item has again', {
  tags: ['long'],
}, async () => {
  await define({ scans: 2 })
  await bring({ 1: 'A', 2: 'X' })
  await bring({ 1: 'B', 2: 'X' })
  await bring({ 1: 'D', 2: 'X' })
  // 2 takes the first one, 1 returns to its second one.
  await bring({ 1: 'B', 2: 'A' }, 4)
  expect(
    sent()
      .filter((one) => one.startsWith('DELETE'))
      .sort(),
  ).toEqual(['DELETE D', 'DELETE X'])
})

test('many at once, as after another mapping, are asked about like items that are gone', {
  tags: ['long'],
}, async () => {
  await define({ guard: { minItems: 1, maxPercent: 10 } })
  await bring({ 1: 'A', 2: 'B', 3: 'C' })
  await bring({ 1: 'A1', 2: 'B1', 3: 'C1' }, 2)
  expect(await question()).toMatchObject({ about: 'deletes', missing: 3 })
  expect(sent().filter((one) => one.startsWith('DELETE'))).toEqual([])
  await send()
  await bring({ 1: 'A1', 2: 'B1', 3: 'C1' })
  expect(
    sent()
      .filter((one) => one.startsWith('DELETE'))
      .sort(),
  ).toEqual(['DELETE A', 'DELETE B', 'DELETE C'])
})

test('another request in the definition is no other identity of an item', {
  tags: ['long'],
}, async () => {
  await define({})
  await bring({ 1: 'A' })
  const address = `${target.url}/${name}/{body.id}/{body.code}`
  await define({}, { request: { method: 'PUT', url: address }, delete: { url: address } })
  await flows.call('POST', `/sync/${name}`)
  await send()
  await bring({ 1: 'A' }, 3)
  expect(sent()).toEqual(['PUT A', 'PUT 1/A'])
})

test('a flow that does not delete leaves it', async () => {
  await define({ mode: 'ignore' })
  await bring({ 1: 'A' })
  await bring({ 1: 'B' }, 3)
  expect(sent()).toEqual(['PUT A', 'PUT B'])
})

test('its delete names the item by its key, and a failure shows which identity it was', async () => {
  const address = `${target.url}/${name}/{pk}-{body.code}`
  await define({}, { request: { method: 'PUT', url: address }, delete: { url: address } })
  await bring({ 1: 'A' })
  await bring({ 1: 'B' })
  target.answer(({ method }) => (method === 'DELETE' ? 403 : 200))
  await bring({ 1: 'B' })
  expect(sent()).toEqual(['PUT 1-A', 'PUT 1-B', 'DELETE 1-A'])
  const errors = (await flows.call('GET', `/errors?flow=${name}`)).json()
  // The first poll may have come before the file.
  const ofDeliveries = errors.filter(({ adapter }: { adapter: string }) => adapter === 'web')
  expect(ofDeliveries).toMatchObject([{ pk: '1\\was:A' }])
})
