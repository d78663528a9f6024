import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { resetFlow } from '../../src/flows/poll/pauses-and-limits.ts'
import { forgetItems } from '../../src/flows/poll/poll-plan.ts'
import { withLease } from '../../src/jobs/with-lease.ts'
import {
  countItemsByFlow,
  listPksAfter,
  pksAfter,
} from '../../src/repositories/flows/flow-items.ts'
import { findFlowState, requireFlowState } from '../../src/repositories/flows/flow-state.ts'
import { openTestDatabase } from '../support/database.ts'
import { rowsRead } from './explained.ts'
import { audit, createTestPoll, records, silentLog, type TestPoll } from './poll-support.ts'

const items = 25
const limit = 10
const now = () => new Date()

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

async function polled(): Promise<TestPoll> {
  const poll = await createTestPoll(database, { now })
  poll.rows = [records(1, items)]
  await poll.poll()
  return poll
}

/** Removes items as a reset does, on a database that calls a function after each transaction. */
async function forget(poll: TestPoll, onPiece: (end: AbortController) => Promise<void> | void) {
  const pieces: Database = {
    ...database,
    transaction: async (work) => {
      const result = await database.transaction(work)
      await onPiece(lost)
      return result
    },
  }
  const lost = new AbortController()
  const name = `flow:${poll.name}`
  const lease = { database, now, processId: 'test', log: silentLog }
  await withLease(lease, name, async (own) =>
    forgetItems(
      { database: pieces, now },
      poll.name,
      { ...own, signal: lost.signal },
      await requireFlowState(database.db, poll.name),
      limit,
    ),
  )
}

/** How many items have a hash. */
const seen = async (poll: TestPoll) => (await countItemsByFlow(database.db)).get(poll.name) ?? 0
const reset = (poll: TestPoll) => resetFlow({ database, now, audit }, poll.name, 'me')

test('a reset removes all items in short transactions', async () => {
  const poll = await polled()
  await reset(poll)
  const left: number[] = []
  await forget(poll, async () => void left.push(await seen(poll)))
  expect(left).toEqual([15, 5, 0])
  expect(await findFlowState(database.db, poll.name)).toMatchObject({ forget_due: false })
  // Nothing was asked for: nothing is forgotten.
  await poll.poll()
  await forget(poll, () => undefined)
  expect(await seen(poll)).toBe(items)
})

test('the next poll completes a reset that a crash interrupted, and everything is sent again', async () => {
  const poll = await polled()
  await reset(poll)
  await expect(forget(poll, (lost) => lost.abort())).rejects.toThrow('lease')
  expect(await seen(poll)).toBe(items - limit)
  expect(await poll.poll()).toMatchObject({ changes: items })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
})

test('a reset during another reset stays requested, and the next poll carries it out', async () => {
  const poll = await polled()
  await reset(poll)
  let isFirst = true
  await forget(poll, async () => {
    if (isFirst) await reset(poll)
    isFirst = false
  })
  expect(await findFlowState(database.db, poll.name)).toMatchObject({ forget_due: true })
  expect(await poll.poll()).toMatchObject({ changes: items })
  expect(await findFlowState(database.db, poll.name)).toMatchObject({ forget_due: false })
})

test('a page of keys reads only its own rows, also in a table without statistics', {
  tags: ['long'],
}, async () => {
  const [before, flow, behind] = ['a', 'b', 'c'].map((letter) => `${letter}-${randomUUID()}`)
  if (!before || !flow || !behind) throw new Error('three names')
  await sql`
    insert into flow_items (flow, pk, hash, changed_at)
    select flow, lpad(n::text, 5, '0'), 'h', now()
    from unnest(${[before, flow, behind]}::text[]) as flow, generate_series(1, 5000) as n`.execute(
    database.db,
  )
  expect(await rowsRead(database.db, pksAfter(flow, '01000', 100))).toBeLessThanOrEqual(100)
  expect(await listPksAfter(database.db, flow, undefined, 2)).toEqual(['00001', '00002'])
  expect(await listPksAfter(database.db, flow, '00002', 2)).toEqual(['00003', '00004'])
  expect(await listPksAfter(database.db, flow, '04999', 2)).toEqual(['05000'])
  expect(await listPksAfter(database.db, flow, '05000', 2)).toEqual([])
})
