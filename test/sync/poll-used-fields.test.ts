import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { canonicalJson } from '../../src/domain/json.ts'
import { syncItem } from '../../src/sync/engine/sync-item.ts'
import { ExactTime } from '../../src/sync/item/exact-time.ts'
import { createItemReader } from '../../src/sync/item/item.ts'
import type { SourceRow } from '../../src/sync/types.ts'
import { openTestDatabase } from '../support/database.ts'
import { createTestPoll, type TestPoll } from './poll-support.ts'

let database: Database
const now = () => new Date()

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const create = (hashedFields?: string[], flow: object = {}) =>
  createTestPoll(database, { now, flow: { ...flow }, ...(hashedFields && { hashedFields }) })
const row = (id: string, price: number, seen: unknown = 0): SourceRow => ({ id, price, seen })
const sentBy = async (poll: TestPoll, ...rows: SourceRow[]) => {
  poll.rows = [rows]
  const before = poll.enqueued.length
  await poll.poll()
  return poll.enqueued.slice(before).map(({ pk }) => pk)
}

/** The flow is read by other fields from now on, as when its mapping was changed or the service is newer. */
function use(
  poll: TestPoll,
  fields: string[] | null,
  definitionHash = poll.runtime.definitionHash,
) {
  const reader = createItemReader(poll.runtime.flow, fields)
  poll.runtime = {
    ...poll.runtime,
    definitionHash,
    read: reader.read,
    hashes: reader,
    hashedFields: fields,
  }
}

/** What an earlier version of the service left: hashes over all fields, times with milliseconds. */
async function storeAsBefore(poll: TestPoll, rows: SourceRow[]): Promise<void> {
  for (const one of rows) {
    const digest = createHash('sha256').update(canonicalJson(one)).digest('base64url')
    await database.db
      .insertInto('flow_items')
      .values({ flow: poll.name, pk: String(one.id), hash: `h1:${digest}`, changed_at: now() })
      .execute()
  }
}

const hashOf = async (poll: TestPoll, pk: string) =>
  database.db
    .selectFrom('flow_items')
    .select(['hash', 'seen_as'])
    .where('flow', '=', poll.name)
    .where('pk', '=', pk)
    .executeTakeFirstOrThrow()

test('a column that no destination uses sends nothing, by a poll or a sync of the item', async () => {
  const poll = await create(['id', 'price'])
  expect(await sentBy(poll, row('1', 10), row('2', 10))).toEqual(['1', '2'])
  expect(await sentBy(poll, row('1', 10, 1), row('2', 10, 1))).toEqual([])
  poll.runtime.source.readItem = async () => [row('1', 10, 2)]
  const deps = { ...poll.deps, retryItem: async () => 0 }
  expect(await syncItem(deps, poll.runtime, '1')).toMatchObject({ changed: false })
  expect(await sentBy(poll, row('1', 11, 3), row('2', 10, 3))).toEqual(['1'])
  // What is sent is the whole item.
  expect(poll.enqueued.at(-1)?.value).toEqual({ id: '1', price: 11, seen: 3 })
})

test('after an upgrade nothing is sent again, and what changed meanwhile is', async () => {
  const poll = await create(['id', 'price'])
  await storeAsBefore(poll, [row('1', 10), row('2', 10), row('3', 10)])
  const { hash } = await hashOf(poll, '1')
  expect(await sentBy(poll, row('1', 10), row('2', 11), row('3', 10))).toEqual(['2'])
  // By the hash it is known what destinations have.
  expect(await hashOf(poll, '1')).toEqual({ hash, seen_as: expect.stringMatching(/^h2\./) })
  expect(await sentBy(poll, row('1', 10, 1), row('2', 11, 1), row('3', 12, 1))).toEqual(['3'])
})

test('after an upgrade times that had more digits all along are no change', async () => {
  const poll = await create()
  const at = new Date('2026-01-02T03:04:05.123Z')
  await storeAsBefore(poll, [{ id: '1', at: at.toISOString() }])
  expect(await sentBy(poll, { id: '1', at: ExactTime.of(at, '123456') })).toEqual([])
  expect(await sentBy(poll, { id: '1', at: ExactTime.of(at, '123457') })).toEqual(['1'])
})

test('without a mapping an upgrade writes nothing', async () => {
  const poll = await create()
  await storeAsBefore(poll, [row('1', 10)])
  expect(await sentBy(poll, row('1', 10))).toEqual([])
  expect(await hashOf(poll, '1')).toMatchObject({ seen_as: null })
})

test.each([
  ['more fields', ['id', 'price', 'seen']],
  ['fewer fields', ['id']],
  ['all fields', null],
])('a rebase to %s sends only what changed at the source', async (_, fields) => {
  const poll = await create(['id', 'price'], { item: { onDefinitionChange: 'rebase' } })
  await sentBy(poll, row('1', 10), row('2', 10), row('3', 10))
  use(poll, fields, 'd2')
  // Of item 3 a field changed that nobody used when it was read last.
  expect(await sentBy(poll, row('1', 10), row('2', 11), row('3', 10, 5))).toEqual(['2'])
  expect(await sentBy(poll, row('1', 10), row('2', 11), row('3', 10, 5))).toEqual([])
})

test('an item that is read long after the mapping changed is compared as it was stored', async () => {
  const poll = await create(['id', 'price'], { item: { onDefinitionChange: 'rebase' } })
  await sentBy(poll, row('1', 10), row('2', 10))
  use(poll, ['id', 'seen'], 'd2')
  await sentBy(poll, row('1', 10))
  use(poll, ['id', 'price', 'seen'], 'd3')
  expect(await sentBy(poll, row('1', 10), row('2', 10, 9))).toEqual([])
  expect(await sentBy(poll, row('1', 12), row('2', 13, 9))).toEqual(['1', '2'])
})
