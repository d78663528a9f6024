import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import type { Flow } from '../../src/flows/definition/schema.ts'
import { isReadOnce } from '../../src/flows/deliver/destination-worker.ts'
import { requeueAfterLostLease } from '../../src/flows/deliver/late-requests.ts'
import type { DeliveryOutcome } from '../../src/flows/deliver/retry-rules.ts'
import { findHashes, upsertHashes } from '../../src/repositories/flows/flow-items.ts'
import { insertFlowState, requireFlowState } from '../../src/repositories/flows/flow-state.ts'
import { useService } from './deliver-service.ts'
import { flowOf, memoryLog, receiver, rowOf, statesOf } from './deliver-support.ts'

const service = useService()
const soon = { timeout: 10_000, interval: 5 }

/** A request of an earlier version, by a process that lost its lease before the answer. */
const broken = (mayHaveArrived: boolean): DeliveryOutcome => ({
  ...{ kind: 'postponed', version: 1, delayMs: 0, mayHaveArrived },
})

const targetOf = (flow: Flow) => ({
  flow: flow.name,
  destination: 'web',
  keyNames: flow.item.key,
  keepsHistory: flow.queue.keepHistoryMs > 0,
  isReadOnce: isReadOnce(flow.source),
})

function countTransactions(database: Database): { counted: Database; transactions(): number } {
  let transactions = 0
  const counted: Database = {
    ...database,
    transaction: (work) => {
      transactions += 1
      return database.transaction(work)
    },
  }
  return { counted, transactions: () => transactions }
}

test('what late requests may have overwritten is queued again in one transaction, and nothing else', async () => {
  const { database, run, change } = service()
  const flow = flowOf('late-requests')
  const web = receiver()
  await run(flow, [web])
  const arrived = (count: number) => expect.poll(() => web.calls.length, soon).toBe(count)
  const pks = ['a', 'b', 'same', 'unsent']
  await change(
    flow,
    pks.map((pk) => ({ pk, value: { id: pk, of: 'old' } })),
  )
  await arrived(4)
  const newer = ['a', 'b', 'unsent'].map((pk) => ({
    pk,
    hash: 'h1:new',
    value: { id: pk, of: 'new' },
  }))
  await change(flow, newer)
  await arrived(7)
  await expect.poll(() => statesOf(database, flow.name), soon).toEqual({ done: 4 })

  const { counted, transactions } = countTransactions(database)
  const log = memoryLog()
  await requeueAfterLostLease(
    { database: counted, now: () => new Date(), log },
    targetOf(flow),
    ['b', 'unsent', 'same', 'a', 'unknown'].map((pk) => ({ pk, outcome: broken(pk !== 'unsent') })),
  )
  expect(transactions()).toBe(1)
  expect(log.lines.map(({ fields }) => fields)).toMatchObject([{ pk: 'a' }, { pk: 'b' }])
  await arrived(9)
  await expect.poll(() => statesOf(database, flow.name), soon).toEqual({ done: 4 })
  const again = web.calls.slice(7)
  expect(again.map(({ pk, body }) => [pk, body]).sort()).toEqual([
    ['a', { id: 'a', of: 'new' }],
    ['b', { id: 'b', of: 'new' }],
  ])
  expect(await rowOf(database, flow.name, 'same')).toMatchObject({ version: 1, state: 'done' })
})

const large = 'x'.repeat(70_000)

test.each([
  { what: 'has no history', keepHistoryMs: 0, of: 'new' },
  { what: 'has no history of so large items', keepHistoryMs: 86_400_000, of: large },
])(
  'an item of archived files is sent again where the flow $what',
  async ({ keepHistoryMs, of }) => {
    const { database, run, change } = service()
    const plain = flowOf(`read-once-${keepHistoryMs}`)
    const source = { ...plain.source, after: 'archive' } as Flow['source']
    const flow = { ...plain, source, queue: { ...plain.queue, keepHistoryMs } }
    const web = receiver()
    await run(flow, [web])
    await change(flow, [{ pk: 'a', value: { id: 'a', of: 'old' } }])
    await expect.poll(() => web.calls.length, soon).toBe(1)
    await change(flow, [{ pk: 'a', hash: 'h1:new', value: { id: 'a', of } }])
    await expect.poll(() => web.calls.length, soon).toBe(2)
    await expect.poll(() => statesOf(database, flow.name), soon).toEqual({ done: 1 })
    const late = [{ pk: 'a', outcome: broken(true) }]
    await requeueAfterLostLease(
      { database, now: () => new Date(), log: memoryLog() },
      targetOf(flow),
      late,
    )
    await expect.poll(() => web.calls.length, soon).toBe(3)
    expect(web.calls[2]?.body).toEqual({ id: 'a', of })
  },
)

test('an item whose content is nowhere is forgotten in the same transaction, and the next poll reads all', async () => {
  const { database, run, change } = service()
  const plain = flowOf('content-nowhere')
  const flow = { ...plain, queue: { ...plain.queue, keepHistoryMs: 0 } }
  const web = receiver()
  await run(flow, [web])
  await change(flow, [{ pk: 'a', value: { id: 'a', of: 'old' } }])
  await expect.poll(() => web.calls.length, soon).toBe(1)
  await change(flow, [{ pk: 'a', hash: 'h1:new', value: { id: 'a', of: 'new' } }])
  await expect.poll(() => web.calls.length, soon).toBe(2)
  await expect.poll(() => statesOf(database, flow.name), soon).toEqual({ done: 1 })
  await database.transaction(async (trx) => {
    await insertFlowState(trx, flow.name, 'as it is', new Date())
    const item = { pk: 'a', hash: 'h1:new' }
    await upsertHashes(trx, flow.name, [item], { read: 1, at: new Date() })
  })
  const { db } = database
  const { resets } = await requireFlowState(db, flow.name)
  const { counted, transactions } = countTransactions(database)
  await requeueAfterLostLease(
    { database: counted, now: () => new Date(), log: memoryLog() },
    targetOf(flow),
    [{ pk: 'a', outcome: broken(true) }],
  )
  expect(transactions()).toBe(1)
  expect(await rowOf(database, flow.name, 'a')).toMatchObject({ payload: null, state: 'done' })
  expect(await findHashes(db, flow.name, ['a'])).toEqual(new Map([['a', '']]))
  const after = await requireFlowState(db, flow.name)
  expect(after).toMatchObject({ full_scan_due: true, resets: resets + 1 })
})
