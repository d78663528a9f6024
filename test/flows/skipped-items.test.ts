import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** What a destination is not to have is not sent there, fails nothing, and shows. */
let target: TestTarget
let flows: TestFlows
let sentAtFirst: string[]
const items = (web: string) => [
  { id: 'A', web, price: 5 },
  { id: 'B', web: 'no' },
  { id: 'C', web: 'yes', price: 7 },
]

beforeAll(async () => {
  target = await startTarget()
  const flow = jsonFlow('shop', target.url, { startPaused: false }) as { destinations: object[] }
  const to = (name: string, rules: object) => ({
    ...flow.destinations[0],
    name,
    request: { method: 'PUT', url: `${target.url}/${name}/{pk}` },
    ...rules,
  })
  const destinations = [
    to('all', { map: '{ "id": id }' }),
    to('filtered', { map: '{ "id": id }', filter: 'web = "yes"' }),
    to('mapped', { map: 'price > 1 ? { "id": id }' }),
  ]
  flows = await startTestFlows({
    files: { 'shop.flow.yaml': { ...flow, destinations }, 'shop.json': items('no') },
  })
  await flows.flows.sync('shop', { force: false })
  await flows.delivered()
  sentAtFirst = sent()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const sent = () =>
  target.received
    .splice(0)
    .map(({ path }) => path)
    .sort()

test('a destination gets the items that its filter and mapping let through, the others all of theirs', async () => {
  expect(sentAtFirst).toEqual([
    '/all/A',
    '/all/B',
    '/all/C',
    '/filtered/C',
    '/mapped/A',
    '/mapped/C',
  ])
  expect((await flows.call('GET', '/errors?flow=shop')).json()).toEqual([])
})

test('the report of an item shows where it was skipped, and why', async () => {
  const { destinations } = (await flows.call('GET', '/flow/shop/items/B')).json()
  expect(destinations).toMatchObject([
    { name: 'all', state: 'delivered', in_sync: true },
    {
      name: 'filtered',
      state: 'skipped',
      in_sync: null,
      last_error: expect.stringContaining('filter'),
    },
    {
      name: 'mapped',
      state: 'skipped',
      in_sync: null,
      last_error: expect.stringContaining('mapping gives nothing'),
    },
  ])
  const history = (await flows.call('GET', '/flow/shop/items/B')).json().history
  expect(JSON.stringify(history)).toContain('"outcome":"skipped"')
})

test('a field that only a filter uses counts as a change', async () => {
  await flows.write('shop.json', items('yes'))
  await flows.call('POST', '/sync/shop')
  await flows.delivered()
  expect(sent()).toContain('/filtered/A')
  const { destinations } = (await flows.call('GET', '/flow/shop/items/A')).json()
  expect(destinations[1]).toMatchObject({ name: 'filtered', state: 'delivered', in_sync: true })
})

test('an item that a destination is no longer to have shows that it is still there, and is counted', {
  tags: ['long'],
}, async () => {
  const write = async (web: string) => {
    await flows.write('shop.json', [{ id: 'S', web, price: web === 'yes' ? 9 : 0 }])
    await flows.flows.sync('shop', { force: false })
    await flows.delivered()
  }
  const view = async () => {
    const { destinations } = (await flows.call('GET', '/flow/shop/items/S')).json()
    return Object.fromEntries(
      destinations.map((one: { name: string; still_there: boolean; last_error: string | null }) => [
        one.name,
        { isThere: one.still_there, why: one.last_error },
      ]),
    )
  }
  const counted = async (name: string) =>
    (await flows.call('GET', `/destinations/${name}`)).json().flows[0].still_there
  const [before] = [await counted('filtered'), sent()]
  await write('yes')
  await write('no')
  expect(await view()).toMatchObject({
    all: { isThere: false, why: null },
    filtered: { isThere: true, why: expect.stringMatching(/filter.*still has/) },
    mapped: { isThere: true, why: expect.stringMatching(/mapping.*still has/) },
  })
  expect(await counted('filtered')).toBe(before + 1)
  expect((await flows.call('GET', '/flow/shop/skipped')).json().skipped).toContainEqual(
    expect.objectContaining({
      pk: 'S',
      destination: 'filtered',
      reason: expect.stringContaining('still'),
    }),
  )
  // Nothing is deleted for it, and it is not said of one that never was there.
  expect(sent().filter((path) => !path.startsWith('/all/'))).toEqual(['/filtered/S', '/mapped/S'])
  await write('yes')
  expect(await view()).toMatchObject({ filtered: { isThere: false, why: null } })
  expect(await counted('filtered')).toBe(before)
})
