import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { deleteFinished } from '../../src/repositories/flows/finished-deliveries.ts'
import {
  patientFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A destination leaves the definition and returns. Meanwhile the source lost items. */
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows()
})
beforeEach(() => {
  target.answer(200)
  target.received.length = 0
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

type Options = { key?: string; mode?: 'delete' | 'ignore'; onDefinitionChange?: string }
const define = async (
  name: string,
  names: string[],
  { key = 'id', mode = 'delete', onDefinitionChange = 'keep' }: Options = {},
) => {
  const flow = patientFlow(name, target.url, {
    startPaused: false,
    item: { key, onDefinitionChange },
    deletes: { mode, guard: { maxPercent: 100, minItems: 100, emptySource: 'allow' } },
  }) as { destinations: object[] }
  const url = (to: string) => `${target.url}/${name}/${to}/{pk}`
  const destinations = names.map((to) => ({
    ...flow.destinations[0],
    ...{ name: to, request: { method: 'PUT', url: url(to) }, delete: { url: url(to) } },
  }))
  await flows.write(`${name}.flow.yaml`, { ...flow, destinations })
  expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
}
/** Removes the destination `web`. The first poll of a changed definition deletes nothing, so it comes before `ids` are lost. */
const removeWeb = async (name: string, options?: Options) => {
  await define(name, ['erp'], options)
  await flows.call('POST', `/sync/${name}`)
}
const poll = async (name: string, ...ids: string[]) => {
  const rows = ids.map((text) => {
    const [id = '', price = 1] = text.split('=')
    return { id, sku: `S-${id}`, price }
  })
  await flows.write(`${name}.json`, rows)
  await flows.call('POST', `/sync/${name}`)
  await flows.delivered()
}
/** The requests to a destination since the last call. */
const sent = (name: string, to: string) => {
  const path = `/${name}/${to}/`
  const own = target.received.filter((one) => one.path.startsWith(path))
  target.received.splice(0)
  return own.map((one) => `${one.method} ${one.path.slice(path.length)}`).sort()
}

test('an item that was deleted meanwhile is deleted there too, and what the destination has is not sent again', {
  tags: ['long'],
}, async () => {
  const name = 'back'
  await define(name, ['erp', 'web'])
  await poll(name, 'A', 'B', 'C')
  await removeWeb(name)
  await poll(name, 'A', 'D')
  await poll(name, 'A', 'C')
  expect(sent(name, 'erp')).toContain('DELETE B')
  const { db } = flows.service.database
  const later = new Date(flows.service.clock.now().getTime() + 60_000)
  await deleteFinished(flows.service.database, name, {
    doneBefore: later,
    failedBefore: new Date(0),
  })
  expect((await flows.call('GET', '/stats')).json().queue).toMatchObject({ waiting: 0, delayed: 0 })
  sent(name, 'web')
  await define(name, ['erp', 'web'])
  await poll(name, 'A', 'C')
  expect(sent(name, 'web')).toEqual(['DELETE B'])
  await poll(name, 'A', 'C')
  expect(sent(name, 'web')).toEqual([])
  const left = await db
    .selectFrom('deliveries')
    .select(['pk', 'delivered_hash'])
    .where('flow', '=', name)
    .where('destination', '=', 'web')
    .orderBy('pk')
    .execute()
  expect(left.map(({ pk }) => pk)).toEqual(['A', 'B', 'C'])
  expect(left[1]).toMatchObject({ delivered_hash: 'deleted' })
})

test('a change of a deleted item that waited for the destination is not sent', {
  tags: ['long'],
}, async () => {
  const name = 'waited'
  await define(name, ['erp', 'web'])
  await poll(name, 'A', 'B')
  target.answer(({ path }) => (path.includes('/web/') ? 422 : 200))
  await poll(name, 'A', 'B=2', 'C')
  await removeWeb(name)
  await poll(name, 'A')
  target.answer(200)
  sent(name, 'web')
  await define(name, ['erp', 'web'])
  await poll(name, 'A')
  await flows.call('POST', `/flow/${name}/retry`)
  await flows.delivered()
  // The destination refused C, but its request had been sent.
  expect(sent(name, 'web')).toEqual(['DELETE B', 'DELETE C'])
})

test('nothing is deleted there when the flow no longer deletes, or its key has changed', {
  tags: ['long'],
}, async () => {
  for (const [name, changed] of [
    ['ignoring', { mode: 'ignore' }],
    ['keyed', { key: 'sku' }],
  ] as const) {
    await define(name, ['erp', 'web'])
    await poll(name, 'A', 'B')
    await removeWeb(name)
    await poll(name, 'A')
    await removeWeb(name, changed)
    sent(name, 'web')
    await define(name, ['erp', 'web'], changed)
    await poll(name, 'A')
    expect(sent(name, 'web').filter((one) => one.startsWith('DELETE'))).toEqual([])
  }
})
