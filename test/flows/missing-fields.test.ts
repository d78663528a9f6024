import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** A poll fails, and sends nothing, when no record has a field that the flow uses any more. */
let service: TestService
let target: TestTarget
let flows: TestFlows | undefined
let serial = 0
let shop = ''

beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())
beforeEach(async () => {
  target = await startTarget()
})
afterEach(async () => {
  await flows?.stop()
  flows = undefined
  await service.database.db.deleteFrom('deliveries').execute()
  await target.close()
})

type Row = Record<string, unknown>
const map = '{ "id": id, "price": price, "name": $exists(name) ? name : "" }'
const rows = (count: number, make: (n: number) => Row = (n) => ({ price: n, name: `n${n}` })) =>
  Array.from({ length: count }, (_, n): Row => ({ id: `A-${n}`, ...make(n) }))
const sent = () => target.received.map(({ path }) => path.split('/').at(-1)).sort()

/** A flow over a file, JSON records or the text of a CSV. */
async function begin(extra: { destination?: object; flow?: object }, content: Row[] | string) {
  serial += 1
  shop = `shop-${serial}`
  const isCsv = typeof content === 'string'
  const flow = jsonFlow(shop, target.url, { startPaused: false, ...extra.flow })
  const [web] = flow.destinations as object[]
  const file = `\${env:DIR}/${shop}.${isCsv ? 'csv' : 'json'}`
  const source = { type: 'file', path: file, format: isCsv ? 'csv' : 'json', settle: '0s' }
  flows = await startTestFlows({
    service,
    files: {
      'shop.flow.yaml': { ...flow, source, destinations: [{ ...web, map, ...extra.destination }] },
      [`${shop}.${isCsv ? 'csv' : 'json'}`]: content,
    },
  })
  return { flows, write: (next: Row[] | string) => flows?.write(file.slice(11), next) }
}

const call = async (method: 'GET' | 'POST', path: string) => {
  const answer = await flows?.call(method, path)
  return { status: answer?.statusCode, body: answer?.json() }
}
const sync = () => call('POST', `/sync/${shop}?force=true`)

test('a missing field of a mapping fails the poll, sends nothing and is shown; its return ends that', {
  tags: ['long'],
}, async () => {
  const { write } = await begin({}, rows(20))
  expect((await sync()).body).toMatchObject({ changes: 20 })
  await flows?.delivered()
  target.received.length = 0

  await write(rows(20, (n) => ({ name: `m${n}` })))
  const message =
    'in none of the records: "price" (destinations[0].map). The records have: id, name. '
  expect(await sync()).toMatchObject({
    status: 502,
    body: { error: expect.stringContaining(message) },
  })
  const [error] = (await call('GET', `/errors?flow=${shop}`)).body
  expect(error).toMatchObject({ adapter: 'source', error: expect.stringContaining(message) })
  const [card] = (await call('GET', '/flows')).body.flows
  expect(card).toMatchObject({
    last_error: expect.stringContaining(message),
    health: { cause: 'source_failing' },
  })
  flows = await flows?.restart()
  expect((await sync()).status).toBe(502)
  await flows?.delivered()
  expect(sent()).toEqual([])

  await write(rows(20, (n) => ({ price: n === 3 ? 99 : n, name: `n${n}` })))
  expect((await sync()).body).toMatchObject({ changes: 1 })
  await flows?.delivered()
  expect(sent()).toEqual(['A-3'])
})

test('a column that no line of a file has fails the first poll, and a forced sync of one item', async () => {
  const { write } = await begin({}, 'id,precio\nA-1,5\nA-2,6\n')
  expect((await sync()).body.error).toContain('"price" (destinations[0].map)')
  expect((await call('POST', `/sync/${shop}/A-1`)).body.error).toContain('"price"')
  await flows?.delivered()
  expect(sent()).toEqual([])
  await write('id,price\nA-1,5\nA-2,6\n')
  expect((await sync()).body).toMatchObject({ changes: 2 })
})

test('missing fields of key and filter are named too, one beside the other', async () => {
  await begin(
    { flow: { item: { key: ['id', 'branch'], filter: 'active = "1"' } } },
    'id,price\nA-1,5\n',
  )
  const { error } = (await sync()).body
  expect(error).toContain('"branch" (item.key), "active" (item.filter). ')
})

test('an optional field, or one that no JSON record ever had, does not fail the poll', {
  tags: ['long'],
}, async () => {
  const optional = { map: undefined, fields: { id: 'id', note: { from: 'note', optional: true } } }
  // Paused, or the timer may have polled before.
  const paused = { flow: { startPaused: true } }
  await begin({ ...paused, destination: optional }, 'id,price\nA-1,5\n')
  expect((await sync()).body).toMatchObject({ changes: 1 })
  await flows?.stop()
  await begin(paused, 'id,price\nA-1,5\n')
  expect((await sync()).body).toMatchObject({ changes: 1 })
  await flows?.stop()
  await begin(
    paused,
    rows(20, () => ({ name: 'x' })),
  )
  expect((await sync()).body).toMatchObject({ changes: 20 })
})

test('a field missing in a few JSON records, or in some records before, does not fail the poll', {
  tags: ['long'],
}, async () => {
  const { write } = await begin({}, rows(20))
  await sync()
  await write(rows(2, () => ({ name: 'x' })))
  expect((await sync()).body).toMatchObject({ changes: 2 })
  // Now not every record had it.
  await write([...rows(19), { id: 'A-19', name: 'x' }])
  await sync()
  await write(rows(20, () => ({ name: 'x' })))
  expect((await sync()).status).toBe(200)
})
