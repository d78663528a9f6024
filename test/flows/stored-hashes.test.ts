import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { syncItem } from '../../src/flows/control/sync-item.ts'
import type { SourceRow } from '../../src/flows/types.ts'
import { openTestDatabase } from '../support/database.ts'
import { createTestPoll, storeOverFields, type TestPoll } from './poll-support.ts'

/** The hash of an item is over its canonical form. Rows of an earlier version have one over the fields that mappings used. */
let database: Database
const now = () => new Date()

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const row = (id: string, price: number, seen: unknown = 0): SourceRow => ({ id, price, seen })
const sentBy = async (poll: TestPoll, ...rows: SourceRow[]) => {
  poll.rows = [rows]
  const before = poll.enqueued.length
  await poll.poll()
  return poll.enqueued.slice(before).map(({ pk }) => pk)
}

/** A flow as an upgrade finds it: items that were stored by these fields alone. */
async function upgraded(rows: SourceRow[], item: object = {}): Promise<TestPoll> {
  const poll = await createTestPoll(database, { now, flow: { item } })
  poll.rows = [rows]
  await storeOverFields(poll, ['id', 'price'])
  await database.db
    .updateTable('flow_state')
    .set({ item_form: 'f1', last_success_at: now() })
    .where('flow', '=', poll.name)
    .execute()
  return poll
}

test('each field counts, except those of hash.ignore', async () => {
  const hash = { ignore: ['seen'] }
  const poll = await createTestPoll(database, { now, flow: { item: { hash } } })
  expect(await sentBy(poll, row('1', 10), row('2', 10))).toEqual(['1', '2'])
  expect(await sentBy(poll, row('1', 10, 1), row('2', 11, 1))).toEqual(['2'])
  expect(poll.enqueued.at(-1)?.value).toEqual({ id: '2', price: 11, seen: 1 })
})

test('after an upgrade only an item is sent whose used fields changed', async () => {
  const poll = await upgraded([row('1', 10), row('2', 10), row('3', 10)])
  expect(await sentBy(poll, row('1', 10), row('2', 11), row('3', 10))).toEqual(['2'])
  // Fields that no mapping uses change often, and must not cause one send of everything.
  expect(await sentBy(poll, row('1', 10, 1), row('2', 11), row('3', 10, 1))).toEqual([])
  poll.runtime.source.readItem = async () => [row('1', 10, 2)]
  const deps = { ...poll.deps }
  expect(await syncItem(deps, poll.runtime, '1')).toMatchObject({ changed: false })
  expect(await sentBy(poll, row('1', 10, 3), row('2', 11), row('3', 12, 3))).toEqual(['3'])
  // From then on the whole item counts.
  expect(await sentBy(poll, row('1', 10, 4), row('2', 11), row('3', 12, 4))).toEqual(['3'])
})

test('a rebase after an upgrade sends changes of the fields that counted, and then all fields count', async () => {
  const poll = await upgraded([row('1', 10), row('2', 10)], { onDefinitionChange: 'rebase' })
  poll.runtime = { ...poll.runtime, definitionHash: 'd2' }
  expect(await sentBy(poll, row('1', 10, 5), row('2', 11, 5))).toEqual(['2'])
  expect(await sentBy(poll, row('1', 10, 5), row('2', 11, 5))).toEqual([])
  expect(await sentBy(poll, row('1', 10, 6), row('2', 11, 5))).toEqual(['1'])
})

test('a hash over all fields by an earlier version is the same content', async () => {
  const poll = await createTestPoll(database, { now })
  await sentBy(poll, row('1', 10))
  await database.db
    .updateTable('flow_items')
    .set((eb) => ({ hash: eb.fn('replace', ['hash', eb.val('h2:'), eb.val('h1:')]) }))
    .where('flow', '=', poll.name)
    .execute()
  expect(await sentBy(poll, row('1', 10))).toEqual([])
  expect(await sentBy(poll, row('1', 11))).toEqual(['1'])
})
