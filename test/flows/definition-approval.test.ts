import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pauseFlows } from '../../src/flows/poll/pauses-and-limits.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { audit } from './poll-support.ts'

/** What waits is not sent by a definition that is not accepted. */
let service: TestService
let flows: TestFlows
let serial = 0

beforeAll(async () => {
  service = await startTestService()
  flows = await startTestFlows({ service })
})
afterAll(async () => {
  await flows.stop()
  await service.stop()
})

const fileOf = (
  name: string,
  { trim = true, copy = {}, ...more }: Record<string, unknown> = {},
) => ({
  version: 1,
  name,
  pollInterval: '1h',
  source: { type: 'file', path: `${flows.dir}/${name}.json`, format: 'json', settle: '0s' },
  item: { key: 'id', hash: { trim }, ...(more.item as object) },
  deletes: { mode: 'delete' },
  destinations: [
    {
      ...{ name: 'copy', type: 'file', path: `${flows.dir}/${name}.out`, format: 'ndjson' },
      ...(copy as object),
    },
    ...((more.added as object[]) ?? []),
  ],
})
const define = async (name: string, more: Record<string, unknown> = {}, on = flows) => {
  await flows.write(`${name}.flow.yaml`, fileOf(name, more))
  await on.call('POST', '/flows/reload')
}
const post = async (path: string, body?: object) =>
  (await flows.call('POST', path, body && { body })).json()
const statusOf = async (name: string) => (await flows.call('GET', '/flows/status')).json()[name]
/** How many lines a destination has been given. */
const linesOf = async (name: string, destination = 'out') => {
  const text = await readFile(join(flows.dir, `${name}.${destination}`), 'utf8')
  return text.split('\n').length - 1
}

test('a pause by an operator survives the return of a missing file', async () => {
  serial += 1
  const name = `shop-${serial}`
  await flows.write(`${name}.json`, [{ id: '1' }])
  await define(name)
  await flows.remove(`${name}.flow.yaml`)
  await flows.call('POST', '/flows/reload')
  await define(name)
  expect(await statusOf(name)).toMatchObject({ paused: false })
  await flows.remove(`${name}.flow.yaml`)
  await flows.call('POST', '/flows/reload')
  await pauseFlows({ database: service.database, now: service.clock.now, audit }, [name], {
    actor: 'control',
    reason: 'stocktaking',
  })
  await define(name)
  expect(await statusOf(name)).toMatchObject({ paused: true, reason: 'stocktaking' })
})

const questionOf = async (name: string) =>
  (await flows.call('GET', `/flow/${name}/question`)).json()
const asks = (name: string) =>
  expect.poll(() => questionOf(name), { timeout: 10_000 }).toMatchObject({ state: 'asked' })
const answer = async (name: string, how: string) => {
  await asks(name)
  const { number } = await questionOf(name)
  await post(`/flow/${name}/question`, { number, answer: how })
}

/** The prices that the destination has been given. */
const pricesOf = async (name: string) => {
  const text = await readFile(join(flows.dir, `${name}.out`), 'utf8').catch(() => '')
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line).price]))
}
const factor = (by: number) => ({ copy: { map: `{ "id": id, "price": price * ${by} }` } })
/** The worker has seen what waits, and holds it. */
const isHeld = (name: string) =>
  expect
    .poll(() =>
      flows.logLines.some((line) => line.includes(name) && line.includes('need approval')),
    )
    .toBe(true)

/** A price waits, and the mapping changes before it is sent. */
async function waitingPrice(more: Record<string, unknown> = {}): Promise<string> {
  serial += 1
  const name = `prices-${serial}`
  await flows.write(`${name}.json`, [{ id: '1', price: 100 }])
  await define(name, { ...factor(1), ...more })
  await post(`/sync/${name}`)
  await expect.poll(() => pricesOf(name)).toEqual([100])
  await post('/sending/stop', { flow: name, destination: 'copy' })
  await flows.write(`${name}.json`, [{ id: '1', price: 110 }])
  await post(`/sync/${name}`)
  await define(name, { ...factor(1000), ...more })
  await post('/sending/start', { flow: name, destination: 'copy' })
  return name
}

test.each(['reload', 'restart', 'sync of the item', 'question'])(
  'after a %s no waiting delivery is sent by a mapping that is not accepted',
  { tags: ['long'] },
  async (what) => {
    const name = await waitingPrice()
    if (what === 'restart') flows = await flows.restart()
    if (what === 'question') await asks(name)
    if (what === 'sync of the item') {
      await flows.write(`${name}.json`, [{ id: '1', price: 120 }])
      expect(await post(`/sync/${name}/1`)).toMatchObject({ found: true })
    }
    await isHeld(name)
    expect(await pricesOf(name)).toEqual([100])
    // The former mapping is written back: it sends what waited.
    await define(name, factor(1))
    const newest = what === 'sync of the item' ? 120 : 110
    await expect.poll(() => pricesOf(name)).toEqual([100, newest])
  },
)

test('after the answer what waited is sent by the new mapping', { tags: ['long'] }, async () => {
  const name = await waitingPrice()
  await answer(name, 'keep')
  await expect.poll(() => pricesOf(name)).toEqual([100, 110_000])
})

test('after the answer what waited is sent although the source cannot be read', {
  tags: ['long'],
}, async () => {
  const name = await waitingPrice()
  await asks(name)
  await flows.remove(`${name}.json`)
  await answer(name, 'keep')
  expect(await post(`/sync/${name}`)).toMatchObject({ error: expect.stringContaining('no file') })
  await expect.poll(() => pricesOf(name)).toEqual([100, 110_000])
})

test('a changed mapping of one destination holds no other destination', {
  tags: ['long'],
}, async () => {
  const two = `${flows.dir}/two-${serial}`
  const other = { name: 'two', type: 'file', path: two, format: 'ndjson' }
  const name = await waitingPrice({ added: [other] })
  await flows.write(`${name}.json`, [{ id: '1', price: 130 }])
  await post(`/sync/${name}/1`)
  const lines = async () => (await readFile(two, 'utf8')).split('\n').length - 1
  await expect.poll(lines).toBe(3)
  await isHeld(name)
  expect(await pricesOf(name)).toEqual([100])
  await define(name, { ...factor(1), added: [other] })
  await expect.poll(() => pricesOf(name)).toEqual([100, 130])
})

test('a flow that has sent nothing is polled with its corrected definition at once, without approval', {
  tags: ['long'],
}, async () => {
  serial += 1
  const name = `shop-${serial}`
  await flows.write(`${name}.json`, [{ id: '1' }, { id: '2' }, { id: '3' }])
  await define(name, { item: { key: 'sku' } })
  expect(await post(`/sync/${name}`)).toMatchObject({ error: expect.stringContaining('"sku"') })
  await define(name)
  await expect.poll(() => linesOf(name).catch(() => 0), { timeout: 15_000 }).toBe(3)
  expect(await statusOf(name)).toMatchObject({ paused: false })
})
