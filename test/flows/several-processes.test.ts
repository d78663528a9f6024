import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'

const items = [{ id: '1' }, { id: '2' }]

let target: TestTarget
let services: TestService[]
let one: TestFlows
let two: TestFlows

/** Two processes on one database, each with a folder of its own. */
beforeEach(async () => {
  target = await startTarget()
  const service = await startTestService()
  services = [service, await startTestService({ twinOf: service })]
  const files = { 'stock.flow.yaml': definition('sku'), 'stock.json': items }
  one = await startTestFlows({ service, files })
  two = await startTestFlows({ service: services[1] as TestService, files })
  await hasReadAgain(one)
  for (const process of [one, two]) await process.flows.sync('stock', { force: true })
})
afterEach(async () => {
  await two?.stop()
  await one?.stop()
  for (const service of services.reverse()) await service.stop()
  await target?.close()
})

/** Sends everything again by itself when its mapping changes. */
function definition(field: string, name = 'stock'): object {
  const file = jsonFlow(name, target.url, {
    pollInterval: '1m',
    item: { key: 'id', onDefinitionChange: 'send' },
  }) as { destinations: object[] }
  const destinations = file.destinations.map((one) => ({ ...one, fields: { [field]: 'id' } }))
  return { ...file, destinations }
}

/** Waits until a process has read its files because another one did. */
async function hasReadAgain({ logLines }: TestFlows): Promise<void> {
  await expect.poll(() => logLines.some((line) => line.includes('flow files reloaded'))).toBe(true)
  logLines.length = 0
}

const sync = (process: TestFlows) => process.call('POST', '/sync/stock?force=true')

test('flow files that one process reloads are reloaded by the others', {
  tags: ['long'],
}, async () => {
  for (const process of [one, two]) await process.write('stock.flow.yaml', definition('codigo'))
  await one.call('POST', '/flows/reload')
  await hasReadAgain(two)
  expect((await sync(two)).statusCode).toBe(200)
  await two.delivered()
  expect(target.received.slice(-2)).toMatchObject([
    { body: { codigo: expect.any(String) } },
    { body: { codigo: expect.any(String) } },
  ])
  expect((await sync(one)).json()).toEqual({ name: 'stock', changes: 0 })
})

test('flow files that a process reads at its start are reloaded by the others', {
  tags: ['long'],
}, async () => {
  for (const process of [one, two]) await process.write('stock.flow.yaml', definition('codigo'))
  two = await two.restart()
  await hasReadAgain(one)
  expect((await sync(one)).statusCode).toBe(200)
  await one.delivered()
  expect(target.received.at(-1)?.body).toMatchObject({ codigo: expect.any(String) })
  expect((await sync(two)).json()).toEqual({ name: 'stock', changes: 0 })
})

test('a reload by another process does not pause a flow whose file only this process has', {
  tags: ['long'],
}, async () => {
  await one.write('fresh.json', items)
  await one.write('fresh.flow.yaml', jsonFlow('fresh', target.url, { startPaused: false }))
  await one.call('POST', '/flows/reload')
  await hasReadAgain(two)
  expect((await one.call('GET', '/flows/status')).json().fresh).toMatchObject({ paused: false })
})

test('two definitions do not send everything again alternately: the process that began later polls', {
  tags: ['long'],
}, async () => {
  await two.write('stock.flow.yaml', definition('codigo'))
  two = await two.restart()
  expect((await sync(two)).statusCode).toBe(200)
  const refused = await sync(one)
  expect([refused.statusCode, refused.json()]).toEqual([
    503,
    { error: expect.stringContaining('by another definition') },
  ])
  expect((await sync(two)).json()).toEqual({ name: 'stock', changes: 0 })

  // After some minutes without a poll by that process the other one may poll.
  services[0]?.clock.advance(4 * 60_000)
  expect((await sync(one)).statusCode).toBe(200)
  await one.delivered()
})

/** The second process accepts a definition that is also in the first one's file, which has not reloaded it yet. */
async function changeBehindTheFirst(changed: object): Promise<void> {
  target.received.length = 0
  await two.write('stock.flow.yaml', changed)
  two = await two.restart()
  await hasReadAgain(one)
  await sync(two)
  // The first process leads: deliveries by a definition that it has not read yet wait until it has.
  await one.write('stock.flow.yaml', changed)
}

test.each([
  ['synced', 'POST', '/sync/stock?force=true'],
  ['sent again', 'POST', '/resync/stock?force=true'],
] as const)(
  'with a definition that its file no longer has nothing is %s, whatever the clocks',
  { tags: ['long'] },
  async (_, method, path) => {
    await changeBehindTheFirst(definition('codigo'))
    // By the clock there was no poll for long.
    services[0]?.clock.advance(24 * 60 * 60_000)
    const refused = await one.call(method, path)
    expect([refused.statusCode, refused.json()]).toEqual([
      503,
      { error: expect.stringContaining('by another definition') },
    ])
    await hasReadAgain(one)
    expect((await sync(one)).json()).toEqual({ name: 'stock', changes: 0 })
    await one.delivered()
    // What the second process found, and nothing of the first one's.
    const sent = new Set(target.received.map(({ headers }) => headers['idempotency-key']))
    expect(sent.size).toBe(items.length)
  },
)

test('a synced item is also delivered to a destination that this process has not read yet', {
  tags: ['long'],
}, async () => {
  const tell = () => one.call('POST', '/sync/stock/3')
  const both = definition('sku') as { destinations: { name: string }[] }
  const destinations = ['web', 'second'].map((name) => ({ ...both.destinations[0], name }))
  await changeBehindTheFirst({ ...both, destinations })
  for (const process of [one, two]) await process.write('stock.json', [...items, { id: '3' }])
  expect((await tell()).statusCode).toBe(503)
  await hasReadAgain(one)
  expect((await tell()).statusCode).toBeLessThan(300)
  await one.delivered()
  // A key for each destination. Two processes on an embedded database, which there never are, may both send.
  const sent = target.received.filter(({ path }) => path === '/stock/3')
  expect(new Set(sent.map(({ headers }) => headers['idempotency-key'])).size).toBe(2)
})

test('a stop by one process holds for every process, and is shown by each', {
  tags: ['long'],
}, async () => {
  const got = () => target.received.filter(({ path }) => path === '/stock/3').length
  const stopped = await two.call('POST', '/sending/stop', { body: { flow: 'stock' } })
  expect(stopped.statusCode).toBe(200)
  const states = async () => {
    const cards = await Promise.all([one, two].map(({ flows }) => flows.cards()))
    return cards.map((found) => found[0]?.destinations[0]?.sending.state)
  }
  expect(await states()).toEqual(['stopped', 'stopped'])
  // A second is what a lost notification takes.
  await wait(1_500)
  await one.write('stock.json', [...items, { id: '3' }])
  await sync(one)
  await wait(1_500)
  expect(got()).toBe(0)
  await two.call('POST', '/sending/start', { body: { flow: 'stock' } })
  await expect.poll(got, { timeout: 10_000 }).toBeGreaterThan(0)
})

test.each([0, 1])(
  'a renamed flow is taken over by the leading process, whichever reads the files first: %i',
  { tags: ['long'] },
  async (first) => {
    const path = `${one.dir}/stock.json`
    const source = { type: 'file', path, format: 'json', settle: '0s' }
    const { destinations } = definition('sku') as { destinations: object[] }
    for (const process of [one, two])
      await process.write('stock.flow.yaml', { ...definition('sku'), source })
    await one.call('POST', '/flows/reload')
    await hasReadAgain(two)
    await sync(one)
    await one.ended()
    const received = target.received.length
    const renamed = { ...definition('sku', 'goods'), source, destinations }
    for (const process of [one, two]) await process.write('stock.flow.yaml', renamed)
    await ([one, two][first] as TestFlows).call('POST', '/flows/reload')
    for (const process of [one, two]) {
      const names = async () => Object.keys((await process.call('GET', '/flows/status')).json())
      await expect.poll(names).toEqual(['goods'])
      const synced = await process.call('POST', '/sync/goods?force=true')
      expect(synced.json()).toEqual({ name: 'goods', changes: 0 })
    }
    expect(target.received).toHaveLength(received)
  },
)
