import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cleanDeliveries } from '../../src/flows/engine/flow-housekeeping.ts'
import {
  attemptsKept,
  insertItemAttempts,
  keepVersions,
  listItemHistory,
  trimItemHistory,
  versionsKept,
} from '../../src/repositories/flows/item-versions.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { blocksRead, rowsRead } from './explained.ts'

let target: TestTarget
let flows: TestFlows

/** Each test has a flow of its own. */
const names = ['changing', 'refused', 'returning', 'large', 'leaving', 'private', 'bystander']

beforeAll(async () => {
  target = await startTarget()
  const files = names.flatMap((name) => {
    const flow = jsonFlow(name, target.url, {
      ...(name === 'leaving' && {
        deletes: { mode: 'delete', guard: { emptySource: 'allow', maxPercent: 100 } },
      }),
      ...(name === 'private' && { queue: { keepHistory: '0s' } }),
    }) as { destinations: { request: object }[] }
    if (name === 'leaving') {
      for (const one of flow.destinations) {
        Object.assign(one, { delete: { method: 'DELETE', url: `${target.url}/${name}/{pk}` } })
      }
    }
    return [
      [`${name}.flow.yaml`, flow],
      [`${name}.json`, []],
    ]
  })
  flows = await startTestFlows({ files: Object.fromEntries(files) })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

/** The source has these items, and each delivery arrives or fails for good. */
async function show(flow: string, ...items: object[]): Promise<void> {
  await flows.write(`${flow}.json`, items)
  await flows.flows.sync(flow, { force: true })
  await settled()
}

async function settled(): Promise<void> {
  await expect
    .poll(async () => (await flows.flows.stats()).queue, { timeout: 20_000 })
    .toMatchObject({ waiting: 0, delayed: 0, active: 0 })
}

const historyOf = async (flow: string, pk = 'A-1') =>
  (await flows.call('GET', `/flow/${flow}/items/${pk}`)).json().history

test('each content of an item is stored with its changes since the one before', async () => {
  await show('changing', { id: 'A-1', price: '10', size: { w: 1 }, old: true })
  await show('changing', { id: 'A-1', price: '12', size: { w: 1, h: 2 } })
  const { content, versions, attempts } = await historyOf('changing')
  expect(content).toEqual({ id: 'A-1', price: '12', size: { w: 1, h: 2 } })
  expect(versions).toMatchObject([
    {
      kind: 'upsert',
      comparison: 'compared',
      difference_count: 3,
      differences: [
        { field: 'old', change: 'removed', from: true },
        { field: 'price', change: 'changed', from: '10', to: '12' },
        { field: 'size.h', change: 'added', to: 2 },
      ],
    },
    { comparison: 'first', differences: [], difference_count: 0 },
  ])
  const [newer, older] = versions
  expect(attempts).toMatchObject([
    { destination: 'web', version: newer.id, outcome: 'delivered', attempt: 1, status: 200 },
    { destination: 'web', version: older.id, outcome: 'delivered', attempt: 1, reason: null },
  ])
})

test('every answer is stored: the retry, the final failure, and the result of sending it again', {
  tags: ['long'],
}, async () => {
  target.answer(({ path }) => (path.startsWith('/refused/') ? 503 : 200))
  await show('refused', { id: 'A-1' })
  target.answer(200)
  await flows.call('POST', '/flow/refused/retry', { body: { pk: 'A-1' } })
  await settled()
  const { versions, attempts } = await historyOf('refused')
  expect(versions).toHaveLength(1)
  expect(attempts).toMatchObject([
    { outcome: 'delivered', attempt: 1, status: 200, reason: null },
    { outcome: 'failed', attempt: 2, status: 503, reason: expect.stringContaining('503') },
    { outcome: 'retry', attempt: 1, status: 503, version: versions[0].id },
  ])
})

test('a content that returns is a version of its own; one that is only sent again is not', {
  tags: ['long'],
}, async () => {
  await show('returning', { id: 'A-1', price: '1' })
  await show('returning', { id: 'A-1', price: '2' })
  await show('returning', { id: 'A-1', price: '1' })
  await flows.call('DELETE', '/reset/returning')
  await show('returning', { id: 'A-1', price: '1' })
  const { versions, attempts } = await historyOf('returning')
  const [third, second, first] = versions
  expect(versions).toHaveLength(3)
  expect(third.hash).toBe(first.hash)
  expect(third.differences).toEqual([{ field: 'price', change: 'changed', from: '2', to: '1' }])
  expect(attempts).toHaveLength(4)
  expect(attempts.slice(0, 3)).toMatchObject([
    { version: third.id },
    { version: third.id },
    { version: second.id },
  ])
})

test('the history of an item is found by its key alone, also of a flow without statistics', {
  tags: ['long'],
}, async () => {
  const { db } = flows.service.database
  const fill = (flow: string) =>
    sql`
    insert into item_versions (flow, pk, seen_at, kind, hash, payload)
    select ${flow}, 'P-' || n, now(), 'upsert', 'h-' || n, '{}'
    from generate_series(1, 20000) as n`.execute(db)
  const counted = `a-${randomUUID()}`
  const flow = `b-${randomUUID()}`
  await fill(counted)
  await sql`analyze item_versions`.execute(db)
  await fill(flow)
  const keep = sql`
    with found as materialized (
      select 'P-' || n as pk, 'upsert' as kind, 'h-' || n % 150 as hash, '{}'::jsonb as payload
      from generate_series(1, 300) as n
    )
    ${keepVersions(flow, new Date())}`
  expect(await rowsRead(db, keep)).toBeLessThan(2_000)
  const { rows } = await sql<{ kept: number }>`
    select count(*)::int as kept from item_versions where flow = ${flow}`.execute(db)
  expect(rows).toEqual([{ kept: 20_151 }])
})

test('storing a thousand new items reads a bounded number of pages', async () => {
  const { db } = flows.service.database
  const keep = sql`
    with found as materialized (
      select * from (
        select 'P-' || n as pk, 'upsert' as kind, 'h' as hash, '{}'::jsonb as payload
        from generate_series(1, 1000) as n
      ) as one order by pk
    )
    ${keepVersions(randomUUID(), new Date())}`
  // The writes alone need 8 for each item. A plan that relied on the order of the items needed 21.
  expect(await blocksRead(db, keep)).toBeLessThan(14_000)
})

test('a content beyond 64 KiB is stored as a mark without comparison', async () => {
  await show('large', { id: 'A-1' })
  await show('large', { id: 'A-1', image: 'x'.repeat(66_000) })
  expect(await historyOf('large')).toMatchObject({
    content: null,
    versions: [{ comparison: 'too_large', differences: [] }, { comparison: 'first' }],
    attempts: [{ outcome: 'delivered' }, { outcome: 'delivered' }],
  })
})

test('a deletion is a version, and a returning item is compared with its content before', async () => {
  await show('leaving', { id: 'A-1', price: '1' })
  await show('leaving')
  await show('leaving', { id: 'A-1', price: '3' })
  const { versions, attempts } = await historyOf('leaving')
  expect(versions).toMatchObject([
    {
      kind: 'upsert',
      comparison: 'compared',
      differences: [{ field: 'price', from: '1', to: '3' }],
    },
    { kind: 'delete', comparison: 'deleted' },
    { kind: 'upsert', comparison: 'first' },
  ])
  expect(attempts.map(({ kind }: { kind: string }) => kind)).toEqual(['upsert', 'delete', 'upsert'])
})

test('a flow that keeps no history writes none', async () => {
  await show('private', { id: 'A-1', price: '1' })
  expect(await historyOf('private')).toEqual({ content: null, versions: [], attempts: [] })
})

test('housekeeping keeps the newest version of each item, and nothing older than the flow’s limit', async () => {
  const { database, clock } = flows.service
  await show('bystander', { id: 'A-1' })
  // No flow of the service: its own housekeeping, which goes round all the time here, would be faster.
  const flow = `aging ${randomUUID()}`
  const at = clock.now()
  const attempt = { kind: 'upsert', hash: 'h', attempt: 1, status: null, why: null } as const
  for (const pk of ['a', 'b']) {
    await sql`insert into item_versions (flow, pk, seen_at, kind, hash)
      select ${flow}, ${pk}, ${at}, 'upsert', n::text from generate_series(1, ${versionsKept + 3}) as n
    `.execute(database.db)
  }
  const attempts = Array.from({ length: attemptsKept + 2 }, (_, index) => ({
    ...attempt,
    pk: 'a',
    hash: String(index),
    outcome: 'delivered' as const,
  }))
  await database.transaction((trx) =>
    insertItemAttempts({ flow, destination: 'web' }, attempts, at).execute(trx),
  )
  expect(await trimItemHistory(database, flow, new Date(0))).toBe(3 + 3 + 2)
  expect(await trimItemHistory(database, flow, new Date(0))).toBe(0)
  const { versions } = await listItemHistory(database.db, flow, 'a')
  expect(versions.map(({ hash }) => hash)).toEqual(
    Array.from({ length: versionsKept }, (_, index) => String(versionsKept + 3 - index)),
  )

  const clean = (passedMs: number) =>
    cleanDeliveries(
      { database, now: () => new Date(at.getTime() + passedMs) },
      {
        name: flow,
        queue: { keepCompletedMs: 0, keepFailedMs: 0, keepHistoryMs: 1_000 },
      },
    )
  expect((await clean(1_000)).history).toBe(0)
  expect((await clean(1_001)).history).toBe(2 * versionsKept + attemptsKept)
  expect((await listItemHistory(database.db, flow, 'a')).attempts).toEqual([])
  // What other flows keep is theirs.
  expect((await historyOf('bystander')).versions).toHaveLength(1)
})
