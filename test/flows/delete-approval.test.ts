import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A flow asks about deletes that its guard holds, and an operator answers without editing the file. */
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
const question = async (name: string) => (await flows.call('GET', `/flow/${name}/question`)).json()
const answer = async (name: string, more: object = {}) => {
  const { number } = await question(name)
  const body = { number: number ?? 1, answer: 'send', ...more }
  return flows.call('POST', `/flow/${name}/question`, { body })
}
/** Answers, and polls as the service does soon after. */
const carryOut = async (name: string, more: object = {}) => {
  await answer(name, more)
  await flows.call('POST', `/sync/${name}`)
  await flows.delivered()
}

test('a flow asks about deletes that its guard holds, with the reason and the keys', async () => {
  const why = {
    code: 'DELETES_HELD_MANY',
    data: { items: 5, percent: '50.0', known: 10, most: 10 },
    message: '5 deletes wait for an answer: 50.0 % of 10 items vanished at once, more than 10 %',
  }
  const reason = '5 deletes wait for an answer: 50.0 % of 10 items vanished at once, more than 10 %'
  const asked = {
    number: expect.any(Number),
    about: 'deletes',
    asked_at: expect.stringMatching(/Z$/),
    ...{ reason, why },
  }
  expect(await question('shop')).toEqual({
    ...{ name: 'shop', state: 'asked' },
    ...asked,
    missing: 5,
    missing_items: [
      { pk: 'A-10', name: 'Yerba 10' },
      { pk: 'A-6', name: null },
      { pk: 'A-7', name: 'Yerba 7' },
      { pk: 'A-8', name: 'Yerba 8' },
      { pk: 'A-9', name: 'Yerba 9' },
    ],
    ...{ destinations: [], of_source: 0, examples: [] },
  })
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  expect(cards.find(({ name }: { name: string }) => name === 'shop')).toMatchObject({
    question: asked,
    health: { state: 'attention', cause: 'question_open' },
  })
  expect(deletes('shop')).toEqual([])
})

test('one delete is allowed by its key, then the others; each answer is recorded', async () => {
  const name = 'approved'
  await carryOut(name, { pks: ['A-9'] })
  expect(deletes(name).map(({ path }) => path)).toEqual(['/approved/A-9'])
  expect((await answer(name, { pks: ['A-7', 'A-1'] })).json()).toEqual({
    error: 'The item A-1 is not missing at the source',
  })
  await carryOut(name, { pks: ['A-7', 'A-8'] })
  expect(deletes(name)).toHaveLength(3)
  await carryOut(name)
  expect(deletes(name)).toHaveLength(5)
  const { activity } = (await flows.call('GET', `/flows/activity?flow=${name}`)).json()
  expect(
    activity
      .filter(({ action }: { action: string }) => action === 'question answered')
      .map(({ detail }: { detail: string }) => detail.replace(/\d+/, 'N')),
  ).toEqual(['send, number N', 'send, number N, 2 items', 'send, number N, 1 items'])
  const audited = await flows.service.database.db
    .selectFrom('activity_log')
    .select('action')
    .where('action', '=', 'flow.question_answered')
    .where('resource_id', '=', name)
    .execute()
  expect(audited).toHaveLength(3)
})

test('an item that is back with an invalid record is not deleted by an answer', async () => {
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
  await carryOut(name)
  expect(
    deletes(name)
      .map(({ path }) => path)
      .sort(),
  ).toEqual(['A-10', 'A-6', 'A-8', 'A-9'].map((pk) => `/${name}/${pk}`))
})

test.each([
  ['nothing is asked', 'whole', {}, 409],
  ['an item is there', 'shop', { pks: ['A-1'] }, 400],
  ['a key is unknown', 'shop', { all: true }, 400],
  ['there is no such flow', 'none', {}, 404],
])('when %s the answer is refused with one field', async (_, name, body, status) => {
  const response = await answer(name, body)
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})
