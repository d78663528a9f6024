import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Deletes that the guard holds back are shown, and an operator lets them through without editing the file. */
let target: TestTarget
let flows: TestFlows
const items = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => ({
    id: `A-${from + index}`,
    // Some records have no name.
    ...(from + index !== 6 && { Nombre: `Yerba ${from + index}` }),
  }))

const flowOf = (name: string) => {
  const flow = jsonFlow(name, target.url, {
    startPaused: false,
    deletes: { mode: 'delete', guard: { maxPercent: 10, minItems: 1 } },
  }) as { destinations: object[] }
  const destinations = flow.destinations.map((one) => ({
    ...one,
    delete: { url: `${target.url}/${name}/{pk}` },
  }))
  return { ...flow, destinations }
}

/** Deletes need approval in `shop` and `approved`, and none do in `whole`. */
beforeAll(async () => {
  target = await startTarget()
  const names = ['shop', 'approved', 'whole']
  const files = names.flatMap((name) => [
    [`${name}.flow.yaml`, flowOf(name)],
    [`${name}.json`, items(1, 10)],
  ])
  flows = await startTestFlows({ files: Object.fromEntries(files) })
  for (const name of names) await flows.flows.sync(name, { force: false })
  await flows.delivered()
  for (const name of ['shop', 'approved']) {
    await flows.write(`${name}.json`, items(1, 5))
    await flows.flows.sync(name, { force: false })
  }
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const deletes = (name: string) =>
  target.received.filter(({ method, path }) => method === 'DELETE' && path.startsWith(`/${name}/`))
const approve = (body?: object) =>
  flows.call('POST', '/flow/approved/deletes/approve', body && { body })

test('deletes that need approval are listed with the reason and the keys', async () => {
  const held = {
    items: 5,
    known: 10,
    reason: '5 deletes need approval: 50.0 % of 10 items vanished at once, more than 10 %',
    why: {
      code: 'DELETES_HELD_MANY',
      data: { items: 5, percent: '50.0', known: 10, most: 10 },
      message: '5 bajas esperan aprobación: faltan de golpe 50.0 % de 10 ítems, más del 10 %',
    },
    since: expect.stringMatching(/Z$/),
  }
  expect((await flows.call('GET', '/flow/shop/deletes')).json()).toEqual({
    name: 'shop',
    scans: 1,
    missing: 5,
    pks: ['A-10', 'A-6', 'A-7', 'A-8', 'A-9'],
    items: [
      { pk: 'A-10', name: 'Yerba 10' },
      { pk: 'A-6', name: null },
      { pk: 'A-7', name: 'Yerba 7' },
      { pk: 'A-8', name: 'Yerba 8' },
      { pk: 'A-9', name: 'Yerba 9' },
    ],
    held,
    approved_at: null,
  })
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  expect(cards.find(({ name }: { name: string }) => name === 'shop').held_deletes).toEqual(held)
  expect(deletes('shop')).toEqual([])
})

test('one delete is approved by its key, then the others; each approval is recorded', async () => {
  expect((await approve({ pk: 'A-9' })).json()).toEqual({
    name: 'approved',
    status: 'approved',
    deletes: 1,
    changes: 1,
  })
  await flows.delivered()
  expect(deletes('approved').map(({ path }) => path)).toEqual(['/approved/A-9'])
  expect((await approve({ pks: ['A-7', 'A-1'] })).json()).toEqual({
    error: 'The item A-1 is not missing at the source',
  })
  expect((await approve({ pks: ['A-7', 'A-8'] })).json()).toMatchObject({ deletes: 2, changes: 2 })
  await flows.delivered()
  expect(deletes('approved')).toHaveLength(3)
  expect((await approve()).json()).toMatchObject({ deletes: 2, changes: 2 })
  await flows.delivered()
  expect(deletes('approved')).toHaveLength(5)
  const { activity } = (await flows.call('GET', '/flows/activity?flow=approved')).json()
  expect(
    activity
      .filter(({ action }: { action: string }) => action === 'deletes approved')
      .map(({ detail }: { detail: string }) => detail),
  ).toEqual(['2 deletes', '2 deletes', 'the delete of A-9'])
  const audited = await flows.service.database.db
    .selectFrom('activity_log')
    .select('action')
    .where('action', '=', 'flow.deletes_approved')
    .execute()
  expect(audited).toHaveLength(3)
})

test('an item that is back with an invalid record is not deleted by an approval', async () => {
  const name = 'invalid'
  const flow = { ...flowOf(name), item: { key: 'id', hash: { decimals: { price: 2 } } } }
  const priced = (from: number, to: number) => items(from, to).map((one) => ({ ...one, price: 1 }))
  await flows.write(`${name}.json`, priced(1, 10))
  await flows.write(`${name}.flow.yaml`, flow)
  await flows.call('POST', '/flows/reload')
  await flows.call('POST', `/sync/${name}`)
  await flows.write(`${name}.json`, priced(1, 5))
  await flows.call('POST', `/sync/${name}`)
  await flows.write(`${name}.json`, [...priced(1, 5), { id: 'A-7', price: 'x' }])
  await flows.call('POST', `/flow/${name}/deletes/approve`)
  await flows.delivered()
  expect(
    deletes(name)
      .map(({ path }) => path)
      .sort(),
  ).toEqual(['A-10', 'A-6', 'A-8', 'A-9'].map((pk) => `/${name}/${pk}`))
})

test.each([
  ['nothing is held', '/flow/whole/deletes/approve', undefined, 400],
  ['the item is there', '/flow/shop/deletes/approve', { pk: 'A-1' }, 400],
  ['a key is unknown', '/flow/shop/deletes/approve', { all: true }, 400],
  ['there is no such flow', '/flow/none/deletes/approve', undefined, 404],
])('when %s the approval is refused with one field', async (_, url, body, status) => {
  const response = await flows.call('POST', url, body && { body })
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})

test('the OpenAPI document has both routes', async () => {
  const { paths } = (await flows.call('GET', '/openapi.json')).json()
  expect(paths['/flow/{name}/deletes'].get).toBeDefined()
  expect(paths['/flow/{name}/deletes/approve'].post).toBeDefined()
})
