import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** After a changed definition every item is compared with what was delivered, and an operator decides about the differences. */
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

type Definition = {
  factor?: number
  item?: object
  deletes?: object
  out?: string
  copy?: object
  more?: object[]
}

const fileOf = (name: string, definition: Definition) => ({
  version: 1,
  name,
  pollInterval: '1h',
  source: { type: 'file', path: `${flows.dir}/${name}.json`, format: 'json', settle: '0s' },
  item: { key: 'id', ...definition.item },
  deletes: { mode: 'delete', guard: { minItems: 100 }, ...definition.deletes },
  destinations: [
    {
      ...{ name: 'copy', type: 'file', path: `${flows.dir}/${definition.out ?? name}.out` },
      ...{ format: 'ndjson', map: `{ "id": id, "price": price * ${definition.factor ?? 1} }` },
      ...definition.copy,
    },
    ...(definition.more ?? []),
  ],
})
const define = async (name: string, definition: Definition = {}) => {
  await flows.write(`${name}.flow.yaml`, fileOf(name, definition))
  await flows.call('POST', '/flows/reload')
}
const post = async (path: string, body?: object) =>
  (await flows.call('POST', path, body && { body })).json()
const questionOf = async (name: string) =>
  (await flows.call('GET', `/flow/${name}/question`)).json()
const asked = async (name: string, numbers: object) => {
  await expect.poll(() => questionOf(name)).toMatchObject({ state: 'asked' })
  const question = await questionOf(name)
  expect(question).toMatchObject(numbers)
  return question.number as number
}
const settled = (name: string) =>
  expect.poll(() => questionOf(name)).toMatchObject({ state: 'none' })
const answer = async (name: string, numbers: object, how: string) => {
  const number = await asked(name, numbers)
  const answered = await post(`/flow/${name}/question`, { number, answer: how })
  expect(answered).toEqual({ name, status: 'answered' })
  await settled(name)
}
const copies = (counts: object, name = 'copy') => ({ destinations: [{ name, ...counts }] })
/** What a destination was sent, in the order of keys; a delete shows as null. */
const sent = async (file: string) => {
  const text = await readFile(join(flows.dir, `${file}.out`), 'utf8').catch(() => '')
  const lines = text.split('\n').filter((line) => line !== '')
  return lines
    .map((line) => JSON.parse(line))
    .map(
      (line) =>
        `${line.id ?? line.pk ?? line._pk} ${line._kind === 'delete' ? 'deleted' : line.price}`,
    )
}
const isSent = (file: string, ...lines: string[]) =>
  expect.poll(async () => (await sent(file)).sort()).toEqual([...lines].sort())
const prices = (name: string, given: Record<string, number>) =>
  flows.write(
    `${name}.json`,
    Object.entries(given).map(([id, price]) => ({ id, price })),
  )

/** The outcomes of all deliveries are stored. Until then a change of the source counts as open. */
const stored = (name: string) => flows.ended(name)

/** A flow whose items 1 and 2 are delivered with the prices 100 and 200. */
async function delivered(definition: Definition = {}): Promise<string> {
  serial += 1
  const name = `prices-${serial}`
  await prices(name, { 1: 100, 2: 200 })
  await define(name, definition)
  await isSent(definition.out ?? name, '1 100', '2 200')
  await stored(name)
  return name
}

test('a changed mapping is asked about with numbers; nothing is sent, polls go on, and resume is no answer', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  await define(name, { factor: 1000 })
  await asked(name, { ...copies({ new: 0, changed: 2, unchanged: 0 }), missing: 0, of_source: 0 })
  expect((await questionOf(name)).examples[0].body).toContain('100000')
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  const card = cards.find((one: { name: string }) => one.name === name)
  expect(card).toMatchObject({
    health: { state: 'attention', cause: 'question_open' },
    question: { why: { code: 'DEFINITION_CHANGED' } },
  })
  await prices(name, { 1: 100, 2: 250 })
  expect(await post(`/sync/${name}`)).toMatchObject({
    changes: 1,
    why: { code: 'DEFINITION_CHANGED', data: { changed: 2 } },
  })
  await post(`/flow/${name}/resume`)
  await post('/flows/resume')
  expect(await post(`/sync/${name}/1`)).toMatchObject({ found: true })
  expect(await questionOf(name)).toMatchObject({ state: 'asked' })
  expect((await flows.call('GET', '/flows/status')).json()[name]).toMatchObject({ paused: false })
  await isSent(name, '1 100', '2 200')
})

test('send sends what differs by the new mapping', async () => {
  const name = await delivered()
  await define(name, { factor: 1000 })
  await answer(name, copies({ changed: 2 }), 'send')
  await isSent(name, '1 100', '2 200', '1 100000', '2 200000')
  expect(await post(`/sync/${name}`)).toEqual({ name, changes: 0 })
})

test('keep sends none of it, but what the source changed before, meanwhile and later', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  await post('/sending/stop', { flow: name, destination: 'copy' })
  await prices(name, { 1: 110, 2: 200 })
  await post(`/sync/${name}`)
  await define(name, { factor: 10 })
  await asked(name, copies({ changed: 1 }))
  await post('/sending/start', { flow: name, destination: 'copy' })
  await prices(name, { 1: 110, 2: 200, 3: 300 })
  await post(`/sync/${name}`)
  await isSent(name, '1 100', '2 200')
  await answer(name, {}, 'keep')
  await isSent(name, '1 100', '2 200', '1 1100', '3 3000')
  await prices(name, { 1: 110, 2: 210, 3: 300 })
  await post(`/sync/${name}`)
  await isSent(name, '1 100', '2 200', '1 1100', '3 3000', '2 2100')
})

test.each(['send', 'keep'])(
  'what the source changed while the service was stopped is told apart, and sent after %s',
  { tags: ['long'] },
  async (how) => {
    const name = await delivered()
    await prices(name, { 1: 100, 2: 250 })
    await flows.write(`${name}.flow.yaml`, fileOf(name, { factor: 10 }))
    flows = await flows.restart()
    await answer(name, { ...copies({ changed: 1 }), of_source: 1 }, how)
    const both = how === 'send' ? ['1 1000'] : []
    await isSent(name, '1 100', '2 200', '2 2500', ...both)
  },
)

test('a question survives a restart, and an answer needs the number of the question', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  await define(name, { factor: 10 })
  const number = await asked(name, copies({ changed: 2 }))
  flows = await flows.restart()
  expect(await asked(name, copies({ changed: 2 }))).toBe(number)
  await define(name, { factor: 100 })
  await expect.poll(async () => (await questionOf(name)).number).not.toBe(number)
  await asked(name, copies({ changed: 2 }))
  const late = await flows.call('POST', `/flow/${name}/question`, {
    body: { number, answer: 'send' },
  })
  expect(late.statusCode).toBe(409)
  await isSent(name, '1 100', '2 200')
})

test('the former definition written back ends the question, and nothing was sent', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  await define(name, { factor: 10 })
  await asked(name, copies({ changed: 2 }))
  await prices(name, { 1: 100, 2: 250 })
  await post(`/sync/${name}`)
  await define(name)
  await settled(name)
  await isSent(name, '1 100', '2 200', '2 250')
  expect(await post(`/sync/${name}`)).toEqual({ name, changes: 0 })
})

test('a definition that changes no body is accepted by itself', async () => {
  const name = await delivered()
  await define(name, {
    copy: { map: '{ "price": price, "id": id }' },
    item: { hash: { trim: false } },
  })
  await settled(name)
  await isSent(name, '1 100', '2 200')
})

test('a definition may say itself what a change means', { tags: ['long'] }, async () => {
  const [sends, keeps] = [await delivered(), await delivered()]
  await define(sends, { factor: 10, item: { onDefinitionChange: 'send' } })
  await isSent(sends, '1 100', '2 200', '1 1000', '2 2000')
  await define(keeps, { factor: 10, item: { onDefinitionChange: 'keep' } })
  await settled(keeps)
  await prices(keeps, { 1: 100, 2: 220 })
  await post(`/sync/${keeps}`)
  await isSent(keeps, '1 100', '2 200', '2 2200')
})

test('a destination added with another change gets all items, and other destinations go on', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  const two = { name: 'two', type: 'file', path: `${flows.dir}/${name}-two.out`, format: 'ndjson' }
  await define(name, { factor: 10, more: [two] })
  await asked(name, copies({ changed: 2 }))
  await isSent(`${name}-two`, '1 100', '2 200')
  await prices(name, { 1: 100, 2: 201 })
  await post(`/sync/${name}`)
  await isSent(`${name}-two`, '1 100', '2 200', '2 201')
  await isSent(name, '1 100', '2 200')
})

test('what a widened filter lets through is asked about, and sent', {
  tags: ['long'],
}, async () => {
  const name = await delivered({ item: { filter: 'price < 300' } })
  await prices(name, { 1: 100, 2: 200, 3: 300 })
  expect(await post(`/sync/${name}`)).toMatchObject({ changes: 0 })
  await define(name, { item: { filter: 'price < 400' } })
  await answer(name, copies({ new: 1, changed: 0, unchanged: 2 }), 'send')
  await isSent(name, '1 100', '2 200', '3 300')
})

test.each([
  ['send', ['2 deleted']],
  ['send_without_deletes', []],
  ['keep', []],
])(
  'what a narrowed filter leaves out is asked about, and after %s %j',
  { tags: ['long'] },
  async (how, more) => {
    const name = await delivered()
    await define(name, { item: { filter: 'price < 200' } })
    await answer(name, { missing: 1 }, how as string)
    await post(`/sync/${name}`)
    await isSent(name, '1 100', '2 200', ...(more as string[]))
    await post(`/sync/${name}`)
    await isSent(name, '1 100', '2 200', ...(more as string[]))
  },
)

test('deletes that are switched on do not delete what vanished before, unless an answer says so', {
  tags: ['long'],
}, async () => {
  const name = await delivered({ deletes: { mode: 'ignore' } })
  await prices(name, { 1: 100 })
  await post(`/sync/${name}`)
  await define(name)
  await answer(name, { missing: 1 }, 'keep')
  await post(`/sync/${name}`)
  await isSent(name, '1 100', '2 200')
})

test('another place is asked about: send makes everything there, keep takes it for the same place', {
  tags: ['long'],
}, async () => {
  const [sends, keeps] = [await delivered(), await delivered()]
  await define(sends, { out: `${sends}-new` })
  await answer(sends, copies({ is_moved: true, new: 2 }), 'send')
  await isSent(`${sends}-new`, '1 100', '2 200')
  await define(keeps, { out: `${keeps}-new` })
  await answer(keeps, copies({ is_moved: true, new: 2 }), 'keep')
  await prices(keeps, { 1: 100, 2: 220 })
  await post(`/sync/${keeps}`)
  await isSent(`${keeps}-new`, '2 220')
})

test('another key is asked about: keep takes the items for the same, and loses no price', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  const withSku = (second: number) =>
    flows.write(`${name}.json`, [
      { id: '1', sku: 'A', price: 100 },
      { id: '2', sku: 'B', price: second },
    ])
  await withSku(200)
  await post(`/sync/${name}`)
  await stored(name)
  await withSku(250)
  await define(name, { item: { key: 'sku' } })
  await answer(name, { ...copies({ new: 1 }), missing: 2, of_source: 1 }, 'keep')
  await isSent(name, '1 100', '2 200', '2 250')
  expect(await post(`/sync/${name}`)).toEqual({ name, changes: 0 })
  await isSent(name, '1 100', '2 200', '2 250')
})

test('items whose mapping fails are counted, and fail after any answer', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  const map = '{ "id": id, "price": price = 200 ? $number("x") : price }'
  await define(name, { copy: { map } })
  await answer(name, copies({ not_mappable: 1, unchanged: 1 }), 'keep')
  await expect.poll(async () => (await flows.call('GET', '/stats')).json().queue.failed).toBe(1)
  await post(`/errors/${name}/retry`).catch(() => undefined)
  await define(name)
  await settled(name)
})

test('a reset while it is asked answers nothing, and is sent after any answer', {
  tags: ['long'],
}, async () => {
  const name = await delivered()
  await define(name, { factor: 10 })
  await asked(name, copies({ changed: 2 }))
  await flows.call('DELETE', `/reset/${name}`)
  await post(`/sync/${name}`)
  await isSent(name, '1 100', '2 200')
  await answer(name, {}, 'keep')
  await isSent(name, '1 100', '2 200', '1 1000', '2 2000')
})

test('a resync with force answers: everything is sent', { tags: ['long'] }, async () => {
  const name = await delivered()
  await define(name, { factor: 10 })
  await asked(name, copies({ changed: 2 }))
  // The answer lets what was asked go; while nothing is sent, the resync meets all of it.
  await post('/sending/stop', { flow: name, destination: 'copy' })
  expect(await post(`/resync/${name}?force=true`)).toMatchObject({ changes: 2 })
  await post('/sending/start', { flow: name, destination: 'copy' })
  expect(await questionOf(name)).toMatchObject({ state: 'none' })
  await isSent(name, '1 100', '2 200', '1 1000', '2 2000')
})

test('one destination gets everything again, and the other nothing', async () => {
  const two = { name: 'two', type: 'file', path: `${flows.dir}/two.out`, format: 'ndjson' }
  const name = await delivered({ more: [two] })
  await post(`/resync/${name}?destination=two`)
  await isSent('two', '1 100', '2 200', '1 100', '2 200')
  await isSent(name, '1 100', '2 200')
  expect(await questionOf(name)).toMatchObject({ state: 'none' })
})
