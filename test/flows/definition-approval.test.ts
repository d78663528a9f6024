import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pauseFlows } from '../../src/flows/control/pauses-and-limits.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { audit } from './poll-support.ts'

/** A changed definition needs approval. The flow continues only after an answer, or when the change is undone. */
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

const question =
  'The definition changed, and what waits is not sent yet. Resume: keep what was sent, send what waits. Resync with force: send everything again'
/** In Spanish, the language without an Accept-Language. */
const asks = {
  reason: question,
  why: {
    ...{ code: 'DEFINITION_CHANGED', data: {} },
    message: expect.stringContaining('La definición cambió'),
  },
}

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
  await flows.delivered()
  const text = await readFile(join(flows.dir, `${name}.${destination}`), 'utf8')
  return text.split('\n').length - 1
}

/** A flow of two items whose definition changed, so that every item seems new and approval is needed. */
async function asking(): Promise<string> {
  serial += 1
  const name = `shop-${serial}`
  await flows.write(`${name}.json`, [
    { id: '1', t: ' a ' },
    { id: '2', t: ' b ' },
  ])
  await define(name)
  await post(`/sync/${name}`)
  expect(await linesOf(name)).toBe(2)
  await define(name, { trim: false })
  expect(await post(`/sync/${name}`)).toEqual({
    name,
    changes: 0,
    skipped: 'paused',
    ...asks,
  })
  expect(await statusOf(name)).toMatchObject({
    paused: true,
    paused_by: 'service',
    ...asks,
  })
  return name
}

test.each(['/sync/{}?force=true', '/sync/{}', '/resync/{}?force=true&destination=copy'])(
  'POST %s does not approve a changed definition: nothing is read or sent, and the answer says what needs approval',
  async (path) => {
    const name = await asking()
    for (const _ of [1, 2]) {
      expect(await post(path.replace('{}', name))).toMatchObject({
        changes: 0,
        skipped: 'paused',
        ...asks,
      })
    }
    expect(await statusOf(name)).toMatchObject({ paused: true, reason: question })
    expect(await linesOf(name)).toBe(2)
    await post(`/flow/${name}/resume`)
    await post(`/sync/${name}`)
    expect(await linesOf(name)).toBe(path.startsWith('/resync') ? 4 : 2)
    expect(await statusOf(name)).toMatchObject({ paused: false })
  },
)

test('one item is synced on request, also again, and the flow still needs approval', async () => {
  const name = await asking()
  expect(await post(`/sync/${name}/1`)).toMatchObject({ changed: true, jobs: 1 })
  expect(await post(`/resync/${name}/2?force=true`)).toMatchObject({
    changes: 0,
    skipped: 'paused',
    ...asks,
  })
  expect(await statusOf(name)).toMatchObject({ paused: true, reason: question })
  // Held until the answer, as is the resync of the other item.
  expect((await flows.call('GET', '/stats')).json().queue.waiting).toBe(1)
  await post(`/flow/${name}/resume`)
  await post(`/sync/${name}`)
  expect(await linesOf(name)).toBe(4)
})

test('a resync with force approves the definition: everything is sent again, and the flow continues', async () => {
  const name = await asking()
  expect(await post(`/resync/${name}?force=true`)).toEqual({ name, status: 'reset', changes: 2 })
  expect(await statusOf(name)).toMatchObject({ paused: false, reason: null })
  expect(await post(`/sync/${name}`)).toMatchObject({ changes: 0 })
})

test.each(['resync', 'reset'])(
  'a %s while the flow needs approval is sent after resume, and the answer says so',
  async (how) => {
    const name = await asking()
    if (how === 'resync') {
      expect(await post(`/resync/${name}`)).toEqual({
        ...{ name, status: 'reset', changes: 0, skipped: 'paused' },
      })
    } else await flows.call('DELETE', `/reset/${name}`)
    expect(await statusOf(name)).toMatchObject({
      paused: true,
      reason: 'The service forgot what it sent: a resumed flow sends everything again',
    })
    await post(`/flow/${name}/resume`)
    expect(await post(`/sync/${name}`)).toMatchObject({ changes: 2 })
  },
)

test.each(['reload', 'restart'])(
  'a flow whose definition is restored continues by itself after a %s',
  async (how) => {
    const name = await asking()
    if (how === 'reload') await define(name)
    else {
      await flows.write(`${name}.flow.yaml`, fileOf(name))
      flows = await flows.restart()
    }
    expect(await statusOf(name)).toMatchObject({ paused: false, reason: null })
    expect(await post(`/sync/${name}`)).toEqual({ name, changes: 0 })
    // Another change needs approval again: the first one was never approved.
    await define(name, { trim: false })
    expect(await post(`/sync/${name}`)).toMatchObject({ skipped: 'paused', reason: question })
  },
)

test('so does a flow with only one more destination, which is filled, and one whose file sets onDefinitionChange', async () => {
  const name = await asking()
  const more = { name: 'two', type: 'file', path: `${flows.dir}/${name}.two`, format: 'ndjson' }
  await define(name, { added: [more] })
  expect(await statusOf(name)).toMatchObject({ paused: false })
  await post(`/sync/${name}`)
  expect([await linesOf(name), await linesOf(name, 'two')]).toEqual([2, 2])
  const other = await asking()
  await define(other, { trim: false, item: { onDefinitionChange: 'rebase' } })
  expect(await statusOf(other)).toMatchObject({ paused: false })
  expect(await post(`/sync/${other}`)).toEqual({ name: other, changes: 0 })
})

test.each(['while it asks', 'while the service is stopped'])(
  'a change at the source %s is sent after resume, and what only the definition changed is not',
  async (when) => {
    const name = await asking()
    const change = () =>
      flows.write(`${name}.json`, [
        { id: '1', t: ' a ' },
        { id: '2', t: ' c ' },
        { id: '3', t: ' d ' },
      ])
    if (when === 'while it asks') await change()
    else {
      // The next process finds the changed source and the changed definition together.
      await define(name)
      await change()
      await flows.write(`${name}.flow.yaml`, fileOf(name, { trim: false }))
      flows = await flows.restart()
      expect(await post(`/sync/${name}`)).toMatchObject(asks)
    }
    await post(`/flow/${name}/resume`)
    await post(`/sync/${name}`)
    expect(await linesOf(name)).toBe(4)
    const text = await readFile(join(flows.dir, `${name}.out`), 'utf8')
    const sent = text.trim().split('\n').slice(2)
    expect(sent.map((line) => JSON.parse(line).t).sort()).toEqual([' c ', ' d '])
    expect(await post(`/sync/${name}`)).toEqual({ name, changes: 0 })
  },
)

test('a pause by an operator of a flow that needs approval stays when the definition is restored', async () => {
  const name = await asking()
  await post(`/flow/${name}/pause`, { reason: 'stocktaking' })
  await define(name)
  expect(await statusOf(name)).toMatchObject({ paused: true, reason: 'stocktaking' })
  await post(`/flow/${name}/resume`)
  expect(await post(`/sync/${name}`)).toEqual({ name, changes: 0 })
})

test('a resume of another pause does not approve a change that was not shown', async () => {
  const name = await asking()
  await define(name)
  await post(`/flow/${name}/pause`, { reason: 'stocktaking' })
  await define(name, { trim: false })
  expect(await post(`/sync/${name}?force=true`)).toMatchObject({
    skipped: 'paused',
    ...asks,
  })
  expect(await statusOf(name)).toMatchObject({ reason: 'stocktaking' })
  await post(`/flow/${name}/resume`)
  expect(await post(`/sync/${name}`)).toMatchObject({ skipped: 'paused', reason: question })
})

test('a pause by an operator survives the return of a missing file', async () => {
  const name = await asking()
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

test('a process ends the pause for approval that another process set', async () => {
  const name = await asking()
  const other = await startTestFlows({ service, env: { FLOWS_DIR: flows.flowsDir } })
  try {
    await flows.write(`${name}.flow.yaml`, fileOf(name))
    await other.call('POST', '/flows/reload')
    expect((await other.call('GET', '/flows/status')).json()[name]).toMatchObject({ paused: false })
    await expect
      .poll(async () => (await post(`/sync/${name}`)).changes, { timeout: 10_000 })
      .toBe(0)
    expect(await statusOf(name)).toMatchObject({ paused: false })
    expect((await other.call('POST', `/sync/${name}`)).json()).toEqual({ name, changes: 0 })
  } finally {
    await other.stop()
  }
})

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
  'after a %s no waiting delivery is sent by a mapping that nobody has approved',
  async (what) => {
    const name = await waitingPrice()
    if (what === 'restart') flows = await flows.restart()
    if (what === 'question') expect(await post(`/sync/${name}`)).toMatchObject(asks)
    if (what === 'sync of the item') {
      await flows.write(`${name}.json`, [{ id: '1', price: 120 }])
      expect(await post(`/sync/${name}/1`)).toMatchObject({ changed: true, jobs: 1 })
    }
    await isHeld(name)
    expect(await pricesOf(name)).toEqual([100])
    // The former mapping is written back: it sends what waited.
    await define(name, factor(1))
    const newest = what === 'sync of the item' ? 120 : 110
    await expect.poll(() => pricesOf(name)).toEqual([100, newest])
  },
)

test('after the answer what waited is sent by the new mapping', async () => {
  const name = await waitingPrice()
  expect(await post(`/sync/${name}`)).toMatchObject({ skipped: 'paused', ...asks })
  await post(`/flow/${name}/resume`)
  await post(`/sync/${name}`)
  await expect.poll(() => pricesOf(name)).toEqual([100, 110_000])
})

test('after the answer what waited is sent although the source cannot be read', async () => {
  const name = await waitingPrice()
  await post(`/sync/${name}`)
  await flows.remove(`${name}.json`)
  await post(`/flow/${name}/resume`)
  expect(await post(`/sync/${name}`)).toMatchObject({ error: expect.stringContaining('no file') })
  await expect.poll(() => pricesOf(name)).toEqual([100, 110_000])
})

test('a changed mapping of one destination holds no other destination', async () => {
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

test('a flow that has sent nothing is polled with its corrected definition at once, without approval', async () => {
  serial += 1
  const name = `shop-${serial}`
  await flows.write(`${name}.json`, [{ id: '1' }, { id: '2' }, { id: '3' }])
  await define(name, { item: { key: 'sku' } })
  expect(await post(`/sync/${name}`)).toMatchObject({ error: expect.stringContaining('"sku"') })
  await define(name)
  await expect.poll(() => linesOf(name).catch(() => 0), { timeout: 15_000 }).toBe(3)
  expect(await statusOf(name)).toMatchObject({ paused: false })
})

test('its preview needs no approval either', async () => {
  serial += 1
  const name = `shop-${serial}`
  await flows.write(`${name}.json`, [{ id: '1' }])
  const asleep = { startPaused: true }
  await flows.write(`${name}.flow.yaml`, { ...fileOf(name), ...asleep })
  await flows.call('POST', '/flows/reload')
  await flows.write(`${name}.flow.yaml`, { ...fileOf(name, { trim: false }), ...asleep })
  await flows.call('POST', '/flows/reload')
  const preview = (await flows.call('GET', `/sync/${name}/preview`)).json()
  expect(preview).toMatchObject({ rows_read: 1 })
})
