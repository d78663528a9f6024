import { readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import {
  patientFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** While a destination does not answer nothing fails for good. Deliveries that did not arrive are listed with the reason. */
let target: TestTarget
let flows: TestFlows

const isDown = ({ path }: { path: string }) => (path.includes('/L-') ? 503 : 200)

beforeAll(async () => {
  target = await startTarget()
  target.answer(isDown)
  flows = await startTestFlows()
})
beforeEach(() => target.answer(isDown))
afterAll(async () => {
  await flows.stop()
  await target.close()
})

/** A flow of three items, of which two do not arrive. */
async function startLate(name: string): Promise<void> {
  await flows.write(`${name}.json`, [{ id: 'L-1' }, { id: 'L-2' }, { id: 'OK-1' }])
  await flows.write(`${name}.flow.yaml`, patientFlow(name, target.url))
  await flows.call('POST', '/flows/reload')
  await flows.flows.sync(name, { force: true })
}

const waiting = async (name: string, query = '') =>
  (await flows.call('GET', `/flow/${name}/waiting${query}`)).json().waiting as { pk: string }[]

test('a delivery that waits for a retry shows its item, its error and the time of the next attempt', async () => {
  const name = 'late'
  await startLate(name)
  await eventually(async () =>
    expect((await waiting(name)).toSorted((a, b) => a.pk.localeCompare(b.pk))).toMatchObject(
      ['L-1', 'L-2'].map((pk) => ({
        destination: 'web',
        pk,
        attempts: 1,
        last_error: expect.stringContaining('503'),
        last_status: 503,
        queued_at: expect.stringMatching(/Z$/),
        next_attempt_at: expect.stringMatching(/Z$/),
      })),
    ),
  )
  expect((await flows.call('GET', `/flow/${name}/failures`)).json().failures).toEqual([])
  expect(await waiting(name, '?limit=1')).toHaveLength(1)
})

/** Makes 60,000 deliveries of other items wait beside one that waits. */
const fillQueue = (flow: string, pk: string) =>
  sql`
    insert into deliveries
    select copy.* from deliveries as row, generate_series(1, 60000) as n,
      lateral jsonb_populate_record(row, jsonb_build_object('pk', 'L-' || n || '-more')) as copy
    where row.flow = ${flow} and row.destination = 'web' and row.pk = ${pk} and row.state = 'waiting'
  `.execute(flows.service.database.db)

test('while one destination is down, the flow is polled and its changes reach the others, however many wait', {
  tags: ['long'],
}, async () => {
  const flow = patientFlow('half', target.url, { pollInterval: '1s', startPaused: false })
  const file = { name: 'copy', type: 'file', path: `${flows.dir}/half.out`, format: 'ndjson' }
  await flows.write('half.json', [{ id: 'L-1' }, { id: 'L-2' }])
  await flows.write('half.flow.yaml', {
    ...flow,
    destinations: [...(flow.destinations as object[]), file],
  })
  await flows.write('one.json', [{ id: 'L-1' }])
  await flows.write('one.flow.yaml', {
    ...patientFlow('one', target.url, { pollInterval: '1s', startPaused: false }),
  })
  await flows.call('POST', '/flows/reload')
  const lines = async () => {
    flows.service.clock.advance(1_000)
    const text = await readFile(`${flows.dir}/half.out`, 'utf8').catch(() => '')
    return text.split('\n').length - 1
  }
  await expect.poll(lines, { timeout: 15_000 }).toBe(2)
  const found = async () => {
    flows.service.clock.advance(1_000)
    return (await flows.call('GET', '/flow/one/waiting'))
      .json()
      .waiting.map(({ pk }: { pk: string }) => pk)
  }
  await expect.poll(found, { timeout: 15_000 }).toEqual(['L-1'])
  await fillQueue('half', 'L-1')
  await fillQueue('one', 'L-1')
  await flows.write('half.json', [{ id: 'L-1' }, { id: 'L-2', price: 1 }])
  await expect.poll(lines, { timeout: 15_000 }).toBe(3)
  // Also the flow whose only destination is down.
  await flows.write('one.json', [{ id: 'L-1' }, { id: 'L-new' }])
  const stateOfNew = async () => {
    flows.service.clock.advance(1_000)
    const item = (await flows.call('GET', '/flow/one/items/L-new')).json()
    return item.destinations?.[0].state
  }
  await expect.poll(stateOfNew, { timeout: 15_000 }).toMatch(/^(waiting|delayed)$/)
  await flows.remove('half.flow.yaml')
  await flows.remove('one.flow.yaml')
  await flows.call('POST', '/flows/reload')
})

test.each([
  ['/flow/nobody/waiting', 404],
  ['/flow/limited/waiting?limit=0', 400],
  ['/flow/limited/waiting?limit=201', 400],
])('%s answers %i with one field', async (url, status) => {
  await startLate('limited')
  const response = await flows.call('GET', url)
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})

test('deliveries to a renamed destination are listed, and sent when the name is back', {
  tags: ['long'],
}, async () => {
  const name = 'renamed'
  await startLate(name)
  const waits = () => expect.poll(() => waiting(name))
  await waits().toMatchObject([{ last_status: 503 }, { last_status: 503 }])
  const cardOf = async () =>
    (await flows.call('GET', '/flows'))
      .json()
      .flows.find((one: { name: string }) => one.name === name)
  const renamed = patientFlow(name, target.url) as { destinations: { name: string }[] }
  await flows.write(`${name}.flow.yaml`, {
    ...renamed,
    destinations: renamed.destinations.map((one) => ({ ...one, name: 'shop' })),
  })
  await flows.call('POST', '/flows/reload')
  expect(await waiting(name)).toMatchObject([{ destination: 'web' }, { destination: 'web' }])
  expect((await cardOf()).destinations).toMatchObject([
    { name: 'shop', type: 'http', waiting: 0, delayed: 0 },
    { name: 'web', type: 'missing', waiting: 0, delayed: 2, failed: 0 },
  ])
  const item = (await flows.call('GET', `/flow/${name}/items/L-1`)).json()
  expect(item.destinations).toMatchObject([
    { name: 'shop', state: 'unknown' },
    { name: 'web', type: 'missing', state: 'delayed', in_sync: false },
  ])
  expect(flows.logLines.filter((line) => line.includes('no longer in the definition'))).toEqual([
    expect.stringContaining('"destinations":["web"]'),
  ])

  target.answer(200)
  await flows.write(`${name}.flow.yaml`, patientFlow(name, target.url))
  await flows.call('POST', '/flows/reload')
  expect((await cardOf()).destinations).toMatchObject([{ name: 'web', type: 'http' }])
  expect(await waiting(name)).toHaveLength(2)
})
