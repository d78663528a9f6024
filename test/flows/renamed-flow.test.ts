import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A flow that gets another name keeps its state; see src/flows/engine/renamed-flow.ts. */
let target: TestTarget
let flows: TestFlows

const file = 'catalogue.flow.yaml'
beforeEach(async () => {
  target = await startTarget()
  target.answer(({ path }) => (path.endsWith('/C') ? 503 : 200))
  flows = await startTestFlows({
    files: { [file]: definition('prices'), 'items.json': ['A', 'B', 'C'].map((id) => ({ id })) },
  })
  await flows.flows.sync('prices', { force: true })
  await flows.ended()
  expect(target.received.length).toBeGreaterThan(3)
  await flows.call('POST', '/flow/prices/resume')
})
afterEach(async () => {
  await flows.stop()
  await target.close()
})

function definition(name: string, extra: Record<string, unknown> = {}): object {
  const url = `${target.url}/items/{pk}`
  const flow = jsonFlow(name, target.url, {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a flow file
    source: { type: 'file', path: '${env:DIR}/items.json', format: 'json', settle: '0s' },
    destinations: [
      {
        name: 'web',
        type: 'http',
        request: { method: 'PUT', url, headers: { 'idempotency-key': '{jobKey}' } },
        retry: { attempts: 2, initial: '100ms', max: '100ms', jitter: 0 },
      },
    ],
    ...extra,
  })
  return flow
}

const reload = async () => {
  expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
}
const sync = async (name: string) => (await flows.call('POST', `/sync/${name}?force=true`)).json()
const names = async () => Object.keys((await flows.call('GET', '/flows/status')).json())
const keysOf = (pk: string) =>
  target.received
    .filter(({ path }) => path.endsWith(`/${pk}`))
    .map(({ headers }) => headers['idempotency-key'])

/** By table, how many rows have this flow. */
async function rowsOf(flow: string): Promise<Record<string, number>> {
  const { db } = flows.service.database
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.columns
    where table_schema = current_schema() and column_name = 'flow'`.execute(db)
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const { rows } = await sql<{ count: number }>`
      select count(*)::int as count from ${sql.table(name)} where flow = ${flow}`.execute(db)
    const count = rows[0]?.count ?? 0
    if (count > 0) counts[name] = count
  }
  return counts
}

test('a renamed flow keeps its items, deliveries, history and idempotency keys', {
  tags: ['long'],
}, async () => {
  const before = await rowsOf('prices')
  expect(before).toMatchObject({ flow_items: 3, deliveries: 3, flow_state: 1, flow_errors: 1 })
  await flows.write(file, definition('catalogue'))
  await reload()
  expect(await names()).toEqual(['catalogue'])
  expect((await flows.call('GET', '/flows')).json().without_definition).toEqual([])
  expect(await rowsOf('prices')).toEqual({})
  expect(await rowsOf('catalogue')).toMatchObject({
    ...before,
    flow_activity: expect.any(Number),
  })
  const received = target.received.length
  expect(await sync('catalogue')).toEqual({ name: 'catalogue', changes: 0 })
  expect(target.received).toHaveLength(received)

  // The attempt in doubt.
  target.answer(200)
  await flows.call('POST', '/sync/catalogue/C')
  await flows.ended()
  expect(target.received).toHaveLength(received + 1)
  expect(new Set(keysOf('C')).size).toBe(1)

  const { activity } = (await flows.call('GET', '/flows/activity?flow=catalogue')).json()
  expect(activity).toContainEqual(
    expect.objectContaining({ action: 'renamed', detail: 'former name: prices' }),
  )
  const audit = await flows.service.database.db
    .selectFrom('activity_log')
    .select(['action', 'resource_id'])
    .where('action', '=', 'flow.renamed')
    .execute()
  expect(audit).toEqual([{ action: 'flow.renamed', resource_id: 'catalogue' }])
  expect(flows.logLines.filter((line) => line.includes('flow renamed'))).toHaveLength(1)

  // A second name, and the first one again.
  for (const name of ['third', 'prices']) {
    await flows.write(file, definition(name))
    await reload()
    expect(await sync(name)).toEqual({ name, changes: 0 })
  }
  expect(target.received).toHaveLength(received + 1)
})

test('a flow that was renamed while the service was stopped keeps its state and its pause', {
  tags: ['long'],
}, async () => {
  await flows.call('POST', '/flow/prices/pause')
  await flows.write(file, definition('catalogue', { startPaused: false }))
  const received = target.received.length
  flows = await flows.restart()
  await expect.poll(names).toEqual(['catalogue'])
  expect((await flows.call('GET', '/flows/status')).json().catalogue).toMatchObject({
    paused: true,
  })
  expect(await sync('catalogue')).toEqual({ name: 'catalogue', changes: 0 })
  expect(target.received).toHaveLength(received)
  expect(await rowsOf('prices')).toEqual({})
})

test('with the name another part of the definition may change, which asks as always', {
  tags: ['long'],
}, async () => {
  const { destinations } = definition('prices') as { destinations: object[] }
  const mapped = destinations.map((one) => ({ ...one, map: '{ "code": id }' }))
  await flows.write(file, definition('catalogue', { destinations: mapped }))
  const received = target.received.length
  await reload()
  await sync('catalogue')
  const question = async () => (await flows.call('GET', '/flow/catalogue/question')).json()
  await expect.poll(question).toMatchObject({ state: 'asked' })
  expect(target.received).toHaveLength(received)
})

test.each(['running', 'paused'])(
  'a flow is no other one whose file was removed in an earlier load: %s',
  { tags: ['long'] },
  async (state) => {
    if (state === 'paused') await flows.call('POST', '/flow/prices/pause')
    await flows.remove(file)
    await reload()
    await reload()
    flows = await flows.restart()
    await flows.write(file, definition('stock'))
    await reload()
    expect(await rowsOf('prices')).toMatchObject({ flow_items: 3 })
    expect(await sync('stock')).toEqual({ name: 'stock', changes: 3 })
    await flows.ended()
  },
)

test('a flow beside one with the same source and destinations takes over nothing', {
  tags: ['long'],
}, async () => {
  await flows.write('second.flow.yaml', definition('stock'))
  await reload()
  expect(await names()).toEqual(['prices', 'stock'])
  expect(await rowsOf('prices')).toMatchObject({ flow_items: 3 })
  expect(await sync('stock')).toEqual({ name: 'stock', changes: 3 })
  await flows.ended()
  // Which of both was renamed is not known.
  await flows.write(file, definition('catalogue'))
  await flows.remove('second.flow.yaml')
  await reload()
  expect(await rowsOf('catalogue')).toMatchObject({ flow_state: 1 })
  expect(await rowsOf('catalogue')).not.toHaveProperty('flow_items')
})

test('of two new names for one flow none takes over', { tags: ['long'] }, async () => {
  await flows.write(file, definition('catalogue'))
  await flows.write('second.flow.yaml', definition('stock'))
  await reload()
  expect(await rowsOf('prices')).toMatchObject({ flow_items: 3 })
  for (const name of ['catalogue', 'stock']) {
    expect(await rowsOf(name)).not.toHaveProperty('flow_items')
  }
})

test.each([
  ['another key', { item: { key: ['id', 'id'] } }],
  [
    'another source',
    { source: { type: 'file', path: '/tmp/others.json', format: 'json', settle: '0s' } },
  ],
  [
    'another destination',
    {
      destinations: [
        { name: 'web', type: 'http', request: { method: 'PUT', url: 'http://b.example/{pk}' } },
      ],
    },
  ],
])('a new name with %s takes over nothing', { tags: ['long'] }, async (_, change) => {
  await flows.write(file, definition('catalogue', change))
  await reload()
  expect(await rowsOf('prices')).toMatchObject({ flow_items: 3 })
  expect(await rowsOf('catalogue')).not.toHaveProperty('flow_items')
})

test('a flow that is renamed during its poll is taken over when the poll has ended', {
  tags: ['long'],
}, async () => {
  const asked: ServerResponse[] = []
  const server = createServer((_, response) => void asked.push(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const source = { type: 'http', url: `http://127.0.0.1:${port}/items` }
  const answer = (index: number) =>
    asked[index]?.setHeader('content-type', 'application/json').end('[{ "id": "A" }]')
  try {
    await flows.write(file, definition('slow', { source }))
    await reload()
    const first = sync('slow')
    await expect.poll(() => asked.length).toBe(1)
    answer(0)
    expect(await first).toEqual({ name: 'slow', changes: 1 })
    const running = sync('slow')
    await expect.poll(() => asked.length).toBe(2)
    await flows.write(file, definition('slower', { source }))
    await reload()
    await running
    await expect.poll(names).toEqual(['slower'])
    const next = sync('slower')
    await expect.poll(() => asked.length).toBe(3)
    answer(2)
    expect(await next).toEqual({ name: 'slower', changes: 0 })
  } finally {
    server.closeAllConnections()
    server.close()
  }
})
