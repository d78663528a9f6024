import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import type { DeliveryOutcome } from '../../src/flows/deliver/retry-rules.ts'
import { saveGroup, type TermProof } from '../../src/flows/deliver/save-outcomes.ts'
import {
  askDeliveries,
  forgetDeliveredItems,
  withdrawAsked,
} from '../../src/repositories/flows/asked-deliveries.ts'
import {
  type DeliveryChange,
  findDeliveries,
  forgetDeliveries,
  hasDelivered,
  recordChanges,
} from '../../src/repositories/flows/deliveries.ts'
import type { OutcomeTarget } from '../../src/repositories/flows/delivery-target.ts'
import { deleteFinished } from '../../src/repositories/flows/finished-deliveries.ts'
import { notePendingDeletes } from '../../src/repositories/flows/pending-deletes.ts'
import { keepLease, type LeaseToken, takeLease } from '../../src/repositories/leases.ts'
import { openTestDatabase } from '../support/database.ts'
import { countStatements } from '../support/statements.ts'

/** What a destination answered of an item is part of its row, and outlives everything but a delete and another place. */
const at = new Date('2026-05-04T10:00:00Z')
const later = new Date('2026-12-04T10:00:00Z')
const named = { id: 7 }
let database: Database

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

async function open() {
  const flow = `flow-${randomUUID()}`
  const target: OutcomeTarget = { flow, destination: 'web', keepsHistory: true, isReadOnce: false }
  const name = `leader-of-${target.flow}`
  const owner = 'one'
  const lease = (await takeLease(database, { name, owner, now: at })) as LeaseToken
  const fence: TermProof = { proof: () => lease, holds: (trx) => keepLease(trx, lease) }
  const change = (more: Partial<DeliveryChange> = {}) =>
    database.transaction((trx) =>
      recordChanges(
        trx,
        { flow: target.flow, destinations: ['web'], keepsHistory: false },
        [{ pk: 'A', kind: 'upsert', hash: 'h1:a', value: { id: 'A' }, change: 1, ...more }],
        at,
      ),
    )
  const save = (outcome: DeliveryOutcome) =>
    saveGroup(database, target, [{ pk: 'A', outcome }], at, fence)
  const row = async () => (await findDeliveries(database.db, target, ['A']))[0]
  return { target, change, save, row }
}

type Delivered = Partial<Extract<DeliveryOutcome, { kind: 'delivered' }>>

const delivered = (more: Delivered = {}): DeliveryOutcome => ({
  ...{ kind: 'delivered', version: 1, change: 'upsert', hash: 'h1:a', attempts: 1, status: 201 },
  ...more,
})
const failure = { why: { code: 'UNEXPECTED' as const }, status: 422, attempts: 1 }

/** An item that was created, with the id that the destination gave it. */
async function created() {
  const flow = await open()
  await flow.change()
  await flow.save(delivered({ remember: named }))
  expect(await flow.row()).toMatchObject({ state: 'done', remembered: named })
  return flow
}

test('a delivery that is to be remembered takes one statement, as one without values does', async () => {
  const { change, save, row } = await open()
  await change()
  const create = await countStatements(() => save(delivered({ remember: named })))
  await change({ change: 2 })
  const update = await countStatements(() => save(delivered({ version: 2 })))
  expect([create.length, update.length]).toEqual([1, 1])
  expect(await row()).toMatchObject({ state: 'done', remembered: named })
})

test('later values replace earlier ones, and a delivered delete ends them', async () => {
  const { change, save, row } = await created()
  await change({ change: 2 })
  await save(delivered({ version: 2, remember: { id: 8 } }))
  expect(await row()).toMatchObject({ remembered: { id: 8 } })
  await change({ change: 3, kind: 'delete', hash: 'deleted' })
  await save(delivered({ version: 3, change: 'delete', hash: 'deleted', forget: true }))
  expect(await row()).toMatchObject({ state: 'done', delivered_hash: 'deleted', remembered: null })
})

test('a value counts whichever version was sent, and also when the attempt failed', async () => {
  const { change, save, row } = await open()
  await change()
  await change({ change: 2 })
  await save(delivered({ remember: named }))
  expect(await row()).toMatchObject({ state: 'waiting', version: 2, remembered: named })
  const tried = { version: 2, change: 'upsert', hash: 'h1:a' } as const
  await save({ kind: 'retry', ...tried, failure, delayMs: 0, remember: { id: 9 } })
  expect(await row()).toMatchObject({ state: 'waiting', remembered: { id: 9 } })
  await save({ kind: 'retry', ...tried, failure, delayMs: 0, forget: true })
  expect(await row()).toMatchObject({ state: 'waiting', remembered: null })
})

test('a value that arrives after the item was forgotten is kept', async () => {
  const { target, change, save, row } = await open()
  await change()
  await database.transaction((trx) => forgetDeliveries(trx, target, ['A']))
  expect(await row()).toBeUndefined()
  await save(delivered({ remember: named }))
  expect(await row()).toMatchObject({ state: 'done', kind: 'delete', remembered: named })
})

const ways: [string, (target: OutcomeTarget) => Promise<unknown>][] = [
  [
    'an answer that forgets it',
    (target) => database.transaction((trx) => forgetDeliveries(trx, target, ['A'])),
  ],
  [
    'the time for which deliveries are kept',
    ({ flow }) => deleteFinished(database, flow, { doneBefore: later, failedBefore: later }),
  ],
]

test.each(ways)(
  'an item that is gone has its values after %s, and returns under them',
  async (_, end) => {
    const { target, change, save, row } = await created()
    await end(target)
    await end(target)
    expect(await row()).toMatchObject({ state: 'done', remembered: named })
    expect(await hasDelivered(database.db, target)).toBe(true)
    const version = (await row())?.version ?? 0
    await change({ change: 9 })
    expect(await row()).toMatchObject({ state: 'waiting', kind: 'upsert', remembered: named })
    await save(delivered({ version: version + 1 }))
    expect(await row()).toMatchObject({ state: 'done', kind: 'upsert', remembered: named })
  },
)

test('a delete that failed for good loses its row with its time, and not the values', async () => {
  const { target, change, save, row } = await created()
  await change({ change: 2, kind: 'delete', hash: 'deleted' })
  await save({ kind: 'final', version: 2, change: 'delete', hash: 'deleted', failure })
  expect(await row()).toMatchObject({ state: 'failed' })
  await deleteFinished(database, target.flow, { doneBefore: later, failedBefore: later })
  expect(await row()).toMatchObject({ state: 'done', delivered_hash: 'deleted', remembered: named })
})

test('an item that a removed destination was never sent keeps the values that were found', async () => {
  const { target, change, save, row } = await open()
  await change()
  const tried = { version: 1, change: 'upsert', hash: 'h1:a' } as const
  await save({ kind: 'retry', ...tried, failure, delayMs: 0, remember: named })
  await database.transaction((trx) => notePendingDeletes(trx, target, ['A'], { change: 2, at }))
  expect(await row()).toMatchObject({ state: 'done', kind: 'delete', remembered: named })
})

test('another place has no values', async () => {
  const { target, change, row } = await created()
  await change({ change: 2 })
  await database.transaction((trx) => forgetDeliveredItems(trx, target, 10))
  expect(await row()).toMatchObject({ state: 'waiting', remembered: null })
  expect(await hasDelivered(database.db, target)).toBe(false)
})

test('an item that waits for an answer and is withdrawn keeps its values, as one that is not there', async () => {
  const { target, row } = await created()
  await database.transaction(async (trx) => {
    await forgetDeliveries(trx, target, ['A'])
    const asked = { pk: 'A', hash: 'h1:b', value: { id: 'A' }, asked: { digest: 'd' } }
    await askDeliveries(trx, target, [asked], { change: 5, at })
  })
  expect(await row()).toMatchObject({ state: 'waiting', asked: { digest: 'd' }, remembered: named })
  const withdrawn = await database.transaction((trx) =>
    withdrawAsked(trx, target.flow, { limit: 10, at }),
  )
  expect(withdrawn).toEqual(['A'])
  expect(await row()).toMatchObject({
    ...{ state: 'done', kind: 'delete', delivered_hash: 'deleted', asked: null, remembered: named },
  })
})
