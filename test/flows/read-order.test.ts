import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { syncItem } from '../../src/flows/control/sync-item.ts'
import { resetItem } from '../../src/flows/poll/pauses-and-limits.ts'
import type { SourceRow } from '../../src/flows/types.ts'
import { findHashes, renewHashes, upsertHashes } from '../../src/repositories/flows/flow-items.ts'
import { findFlowState } from '../../src/repositories/flows/flow-state.ts'
import { openTestDatabase } from '../support/database.ts'
import { audit, createTestPoll, type TestPoll } from './poll-support.ts'

let database: Database
let offsetMs = 0
const now = () => new Date(Date.now() + offsetMs)

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const create = (options: Omit<Parameters<typeof createTestPoll>[1], 'now'> = {}) =>
  createTestPoll(database, { now, ...options })
const sync = (poll: TestPoll, pk: string) => syncItem(poll.deps, poll.runtime, pk)
const sent = (poll: TestPoll) =>
  poll.enqueued.map(({ pk, kind, value }) => [pk, kind === 'delete' ? kind : value.v])
const cursor = async (poll: TestPoll) => (await findFlowState(database.db, poll.name))?.cursor

test('an item that is synced during a poll and changes again before the poll reads it has the last content sent', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: 'x', v: 1, at: 1 }]]
  await poll.poll()

  poll.rows = [[{ id: 'other', v: 1, at: 2 }], [{ id: 'x', v: 3, at: 4 }]]
  poll.beforeBatch = async (index) => {
    if (index !== 1) return
    poll.runtime.source.readItem = async () => [{ id: 'x', v: 2, at: 3 }]
    expect(await sync(poll, 'x')).toMatchObject({ changed: true })
  }
  await poll.poll()
  // It is unknown which of the two is newer, so the cursor stays.
  expect(await cursor(poll)).toBe('1')

  poll.beforeBatch = () => undefined
  await poll.poll()
  expect(sent(poll).filter(([pk]) => pk === 'x')).toEqual([
    ['x', 1],
    ['x', 2],
    ['x', 3],
  ])
  expect(await cursor(poll)).toBe('4')
})

test('content that a poll read before a sync of the item does not replace the newer one', async () => {
  const poll = await create()
  poll.rows = [[{ id: 'x', v: 1 }]]
  await poll.poll()
  poll.rows = [[{ id: 'x', v: 'old' }]]
  poll.runtime.source.readItem = async () => [{ id: 'x', v: 2 }]
  poll.beforeBatch = async () => void (await sync(poll, 'x'))
  await poll.poll()
  expect(sent(poll)).toEqual([
    ['x', 1],
    ['x', 2],
  ])
})

/** Begins a sync whose first answer of the source comes when it is released; a later read gives what is there then. */
async function slowSync(poll: TestPoll, pk: string, first: SourceRow, ...later: SourceRow[]) {
  const begun = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  poll.runtime.source.readItem = async () => {
    poll.runtime.source.readItem = async () => later
    begun.resolve()
    await released.promise
    return [first]
  }
  const ended = sync(poll, pk)
  await begun.promise
  return {
    release: () => {
      released.resolve()
      return ended
    },
  }
}

test.each([
  { what: 'a known item', pk: 'x', before: [['x', 1]] },
  { what: 'a new item', pk: 'y', before: [] },
])(
  '$what: content that a sync read before a poll stored the newer one does not replace it',
  async ({ pk, before }) => {
    const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
    poll.rows = [[{ id: 'x', v: 1, at: 1 }]]
    await poll.poll()
    const newer = { id: pk, v: 3, at: 4 }
    poll.rows = [[newer]]
    let slow: Awaited<ReturnType<typeof slowSync>> | undefined
    poll.beforeBatch = async () => {
      slow = await slowSync(poll, pk, { id: pk, v: 2, at: 3 }, newer)
    }
    await poll.poll()
    expect(await slow?.release()).toMatchObject({ found: true, changed: false })
    // The cursor has passed the newer content: no later poll reads it again.
    poll.beforeBatch = () => undefined
    poll.rows = [[]]
    await poll.poll()
    expect(sent(poll).filter(([of]) => of === pk)).toEqual([...before, [pk, 3]])
  },
)

test('of two syncs of an item at once, the one that began later does not restore what it read earlier', async () => {
  const poll = await create()
  poll.rows = [[{ id: 'x', v: 1 }]]
  await poll.poll()
  const [older, newer] = [
    { id: 'x', v: 2 },
    { id: 'x', v: 3 },
  ]
  const earlier = await slowSync(poll, 'x', newer, newer)
  const later = await slowSync(poll, 'x', older, newer)
  expect(await earlier.release()).toMatchObject({ changed: true })
  expect(await later.release()).toMatchObject({ changed: false })
  poll.rows = [[newer]]
  await poll.poll()
  expect(sent(poll)).toEqual([
    ['x', 1],
    ['x', 3],
  ])
})

test('an item that a sync found unchanged is not set back by a poll that began earlier', async () => {
  const poll = await create()
  poll.rows = [[{ id: 'x', v: 1 }]]
  await poll.poll()
  poll.rows = [[{ id: 'x', v: 'old' }]]
  poll.runtime.source.readItem = async () => [{ id: 'x', v: 1 }]
  poll.beforeBatch = async () => {
    expect(await sync(poll, 'x')).toMatchObject({ changed: false })
  }
  await poll.poll()
  expect(sent(poll)).toEqual([['x', 1]])
})

test('the same content, found by a sync and a poll at once, is sent once and blocks nothing', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: 'x', v: 1, at: 1 }]]
  await poll.poll()
  poll.rows = [[{ id: 'x', v: 2, at: 2 }]]
  poll.runtime.source.readItem = async () => [{ id: 'x', v: 2, at: 2 }]
  poll.beforeBatch = async () => void (await sync(poll, 'x'))
  await poll.poll()
  expect(sent(poll)).toEqual([
    ['x', 1],
    ['x', 2],
  ])
  expect(await cursor(poll)).toBe('2')
})

test('a comparing read does not replace the hash that a later read of the item stored', async () => {
  const flow = 'compared-late'
  const [item, at] = [{ pk: 'x', hash: 'newer' }, now()]
  const renew = (read: number) =>
    database.transaction(async (trx) => {
      await renewHashes(
        trx,
        flow,
        [{ pk: 'x', hash: 'by the changed definition', was: 'newer' }],
        read,
      )
      return (await findHashes(trx, flow, ['x'])).get('x')
    })
  await database.transaction((trx) => upsertHashes(trx, flow, [item], { read: 5, at }))
  expect(await renew(4)).toBe('newer')
  expect(await renew(5)).toBe('by the changed definition')
})

test('a sync that began before a whole poll reads again instead of restoring the older content', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: 'x', v: 2, at: 1 }]]
  await poll.poll()
  // The source shows v1 for a moment, to the sync alone.
  let reads = 0
  poll.runtime.source.readItem = async () => {
    reads += 1
    if (reads > 1) return [{ id: 'x', v: 2, at: 3 }]
    poll.rows = [[{ id: 'x', v: 2, at: 3 }]]
    await poll.poll()
    return [{ id: 'x', v: 1, at: 2 }]
  }
  expect(await sync(poll, 'x')).toMatchObject({ found: true })
  expect(reads).toBe(2)
  await poll.poll()
  expect(sent(poll).at(-1)).toEqual(['x', 2])
})

test('a sync does not restore an item that a poll has found missing meanwhile', async () => {
  const poll = await create({
    flow: { deletes: { mode: 'delete', guard: { emptySource: 'allow' } } },
  })
  poll.rows = [[{ id: 'x', v: 1 }]]
  await poll.poll()
  let reads = 0
  poll.runtime.source.readItem = async () => {
    reads += 1
    if (reads > 1) return []
    poll.rows = []
    await poll.poll()
    return [{ id: 'x', v: 1 }]
  }
  expect(await sync(poll, 'x')).toEqual({ found: false, changed: false, jobs: 0 })
  expect(sent(poll)).toEqual([
    ['x', 1],
    ['x', 'delete'],
  ])
})

test('a sync that began during a poll does not restore an item that this poll has found missing', async () => {
  const poll = await create({
    flow: { deletes: { mode: 'delete', guard: { maxPercent: 100, minItems: 0 } } },
  })
  const other = { id: 'other', v: 1 }
  poll.rows = [[{ id: 'x', v: 1 }, other]]
  await poll.poll()
  poll.rows = [[other]]
  let slow: Awaited<ReturnType<typeof slowSync>> | undefined
  poll.beforeBatch = async () => {
    slow = await slowSync(poll, 'x', { id: 'x', v: 1 })
  }
  await poll.poll()
  expect(await slow?.release()).toEqual({ found: false, changed: false, jobs: 0 })
  poll.beforeBatch = () => undefined
  await poll.poll()
  expect(sent(poll).filter(([pk]) => pk === 'x')).toEqual([
    ['x', 1],
    ['x', 'delete'],
  ])
})

test('a sync that polls overtake repeatedly reports it and loses nothing', async () => {
  const poll = await create()
  poll.rows = [[{ id: 'x', v: 1 }]]
  await poll.poll()
  poll.runtime.source.readItem = async () => {
    await poll.poll()
    return [{ id: 'x', v: 2 }]
  }
  await expect(sync(poll, 'x')).rejects.toMatchObject({ code: 'CONFLICT' })
  expect(sent(poll)).toEqual([['x', 1]])
})

test.each([
  ['set back by a minute', -60_000],
  ['set back by a day', -86_400_000],
  ['set forward by a day', 86_400_000],
])('a clock that is %s does not prevent the delivery of a change', async (_, stepMs) => {
  const poll = await create()
  poll.rows = [
    [
      { id: 'x', v: 1 },
      { id: 'y', v: 1 },
    ],
  ]
  await poll.poll()
  offsetMs += stepMs
  try {
    poll.rows = [
      [
        { id: 'x', v: 2 },
        { id: 'y', v: 1 },
      ],
    ]
    expect(await poll.poll()).toMatchObject({ changes: 1 })
    poll.runtime.source.readItem = async () => [{ id: 'y', v: 2 }]
    expect(await sync(poll, 'y')).toMatchObject({ changed: true })
  } finally {
    offsetMs -= stepMs
  }
  poll.rows = [
    [
      { id: 'x', v: 3 },
      { id: 'y', v: 2 },
    ],
  ]
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  poll.runtime.source.readItem = async () => [{ id: 'y', v: 3 }]
  expect(await sync(poll, 'y')).toMatchObject({ changed: true })
})

test('a full scan with a clock a day ahead does not delay the next ones', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 }, fullScanEveryMs: 3_600_000 })
  poll.rows = [[{ id: 'x', at: 1 }]]
  offsetMs += 86_400_000
  try {
    await poll.poll()
  } finally {
    offsetMs -= 86_400_000
  }
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, null, '1'])
})

test('each change has its own number, greater than those before, also after a reset', async () => {
  const poll = await create()
  const changes: number[] = []
  const { enqueue } = poll.deps
  poll.deps.enqueue = async (trx, runtime, found, options) => {
    changes.push(...found.map(({ change }) => change))
    await enqueue(trx, runtime, found, options)
  }
  for (const v of [100, 90, 100]) {
    poll.rows = [[{ id: 'x', v }]]
    await poll.poll()
  }
  await resetItem({ database, now, audit }, poll.name, 'x', 'me')
  await poll.poll()
  poll.runtime.source.readItem = async () => [{ id: 'x', v: 80 }]
  await sync(poll, 'x')
  expect(changes).toHaveLength(5)
  expect(new Set(changes).size).toBe(5)
  expect(changes.toSorted((a, b) => a - b)).toEqual(changes)
})
