import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { askFill, listFills } from '../../src/repositories/flows/flow-state.ts'
import { openTestDatabase } from '../support/database.ts'
import { createTestPoll, records, storeOverFields, type TestPoll } from './poll-support.ts'

/** A fill is complete only when the source was read whole. */
const now = () => new Date()
let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

async function filled(options: Partial<Parameters<typeof createTestPoll>[1]> = {}) {
  const poll = await createTestPoll(database, { now, ...options })
  poll.rows = [records(1, 4)]
  await poll.poll()
  const target = { flow: poll.name, destination: 'out' }
  await database.transaction((trx) => askFill(trx, target))
  const before = poll.enqueued.length
  const sent = () => poll.enqueued.slice(before).map(({ pk }) => pk)
  return { poll, sent, isOpen: async () => (await listFills(database.db, poll.name)).length > 0 }
}

/** A read that ends early, as of an incomplete file: the rest is missing, and the source reports it. */
function cut(poll: TestPoll) {
  const { scan } = poll.runtime.source
  poll.runtime.source.scan = async function* (options) {
    options.warn?.({ why: { code: 'EMPTY' }, isIncomplete: true })
    yield* scan(options)
  }
  return () => {
    poll.runtime.source.scan = scan
  }
}

test('an incomplete read of the source fills a destination in part, and the next read completes it', async () => {
  const { poll, sent, isOpen } = await filled()
  const mend = cut(poll)
  poll.rows = [records(1, 1)]
  await poll.poll()
  expect([sent(), await isOpen()]).toEqual([['1'], true])
  mend()
  poll.rows = [records(1, 4)]
  await poll.poll()
  expect(await isOpen()).toBe(false)
  expect(new Set(sent())).toEqual(new Set(['1', '2', '3', '4']))
})

test('items with a hash from an earlier version, over fewer fields, are also sent to a new destination', async () => {
  const { poll, sent, isOpen } = await filled()
  await storeOverFields(poll, ['id'])
  poll.rows = [[...records(1, 2, { price: 5 }), ...records(3, 4)]]
  await poll.poll()
  expect(await isOpen()).toBe(false)
  expect(sent().sort()).toEqual(['1', '2', '3', '4'])
  // The new destination uses the price.
  poll.rows = [[...records(1, 2, { price: 6 }), ...records(3, 4)]]
  await poll.poll()
  expect(sent().sort()).toEqual(['1', '1', '2', '2', '3', '4'])
})
