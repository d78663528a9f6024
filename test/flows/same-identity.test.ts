import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Two articles of the ERP with one code are one article at the destination: a person must learn it, with both keys. */
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  const names = ['shop', 'many']
  const flowOf = (name: string) =>
    jsonFlow(name, target.url, { startPaused: false, item: { key: 'id' } }) as {
      destinations: object[]
    }
  const to = (flow: string, name: string, address: string) => ({
    ...flowOf(flow).destinations[0],
    name,
    request: { method: 'PUT', url: `${target.url}/${flow}/${name}/${address}` },
    delete: { url: `${target.url}/${flow}/${name}/${address}` },
  })
  const files = names.map((name) => {
    const destinations = [to(name, 'by-code', '{body.code}'), to(name, 'by-key', '{pk}')]
    return [`${name}.flow.yaml`, { ...flowOf(name), destinations }]
  })
  flows = await startTestFlows({ files: Object.fromEntries(files) })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

const bring = async (flow: string, ...items: [id: string, code: string][]) => {
  const rows = items.map(([id, code]) => ({ id, code }))
  await flows.write(`${flow}.json`, rows)
  await flows.call('POST', `/sync/${flow}`)
  await flows.ended(flow)
}
const reported = async (name: string, flow = 'shop') => {
  const { flows: reports } = (await flows.call('GET', `/destinations/${name}`)).json()
  return reports.find((one: { flow: string }) => one.flow === flow).same_identity
}
const ofItem = async (pk: string) => {
  const { destinations } = (await flows.call('GET', `/flow/shop/items/${pk}`)).json()
  return Object.fromEntries(
    destinations.map((one: { name: string; same_identity: string[] }) => [
      one.name,
      one.same_identity,
    ]),
  )
}

test('two items with one identity are named by the report of the destination, and of each of them', {
  tags: ['long'],
}, async () => {
  await bring('shop', ['1', 'A'], ['2', 'B'], ['3', 'A'], ['4', 'C'])
  await expect.poll(() => reported('by-code')).toEqual({ count: 1, groups: [['1', '3']] })
  await expect.poll(() => reported('by-key')).toEqual({ count: 0, groups: [] })
  expect(await ofItem('1')).toEqual({ 'by-code': ['3'], 'by-key': [] })
  expect(await ofItem('3')).toEqual({ 'by-code': ['1'], 'by-key': [] })
  expect(await ofItem('2')).toEqual({ 'by-code': [], 'by-key': [] })
  // A change that takes the code of others, and one that gives it up.
  await bring('shop', ['1', 'A'], ['2', 'A'], ['3', 'A'], ['4', 'C'])
  await expect.poll(() => reported('by-code')).toEqual({ count: 1, groups: [['1', '2', '3']] })
  await bring('shop', ['1', 'A'], ['2', 'D'], ['3', 'E'], ['4', 'C'])
  await expect.poll(() => reported('by-code')).toEqual({ count: 0, groups: [] })
})

test('of thousands of items each identity is found, also one that the pages of the count divide', {
  tags: ['long'],
}, async () => {
  const { db } = flows.service.database
  await bring('many', ['1', 'A'])
  // Ten pairs, and 21 items with one identity where the first page of the index ends. Another flow has every identity too.
  await sql`
    insert into deliveries (flow, destination, pk, version, change_number, kind, hash, state, attempts, queued_at,
      may_have_arrived, claim, claim_exact)
    select flow, 'by-code', 'n' || lpad(n::text, 5, '0'), 1, 1, 'upsert', 'h', 'done', 0, now(), false, claim, claim
    from generate_series(1, 12000) as n cross join (values ('many'), ('other')) as flows (flow)
    cross join lateral (select lpad((case
      when flow = 'other' then n
      when n between 4990 and 5010 then 4990
      when n % 1000 = 1 then n - 1 else n end)::text, 6, '0') as claim) as made`.execute(db)
  const { count, groups } = await reported('by-code', 'many')
  expect(count).toBe(11)
  expect(groups).toHaveLength(10)
  expect(groups).toContainEqual(['n01000', 'n01001'])
  expect(groups).toContainEqual(Array.from({ length: 10 }, (_, index) => `n0${4990 + index}`))
})
