import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { build } from '../../src/db/open-database.ts'
import { openPglite } from '../../src/db/pglite-engine.ts'
import type { DeliveryOutcome } from '../../src/flows/deliver/retry-rules.ts'
import {
  type ItemOutcome,
  saveGroup,
  type TermProof,
} from '../../src/flows/deliver/save-outcomes.ts'
import { LeaseLostError } from '../../src/jobs/with-lease.ts'
import { recordChanges } from '../../src/repositories/flows/deliveries.ts'
import { keepLease, type LeaseToken, takeLease } from '../../src/repositories/leases.ts'
import { openTestDatabase } from '../support/database.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'

/** Simple successes are recorded by a separate statement, with the same result as the transaction for all other outcomes. */
const at = new Date('2026-05-04T10:00:00Z')
const owner = 'one'
let database: Database

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(async () => {
  await database.close()
})

async function owe(pks: readonly string[], version = 1) {
  const flow = `flow-${randomUUID()}`
  const target = { flow, destination: 'web', keepsHistory: true, isReadOnce: false }
  const change = (pk: string) => ({
    pk,
    kind: 'upsert' as const,
    hash: 'h1:a',
    change: 1,
    value: { pk },
  })
  for (let times = 0; times < version; times += 1) {
    await database.transaction((trx) =>
      recordChanges(trx, { flow, destinations: ['web'], keepsHistory: false }, pks.map(change), at),
    )
  }
  const name = `leader-of-${flow}`
  const lease = (await takeLease(database, { name, owner, now: at })) as LeaseToken
  return { target, lease }
}

const fenceOf = (lease: LeaseToken): TermProof => ({
  proof: () => lease,
  holds: (trx) => keepLease(trx, lease),
})

const arrived = (pk: string, version = 1): ItemOutcome<DeliveryOutcome> => ({
  pk,
  outcome: { kind: 'delivered', version, change: 'upsert', hash: 'h1:a', attempts: 2, status: 201 },
})

const failed = (pk: string): ItemOutcome<DeliveryOutcome> => ({
  pk,
  outcome: {
    ...{ kind: 'final', version: 1, change: 'upsert', hash: 'h1:a' },
    failure: { why: { code: 'UNEXPECTED' }, status: 422, attempts: 1 },
  },
})

async function readState(flow: string) {
  const of = (table: 'deliveries' | 'item_attempts' | 'flow_totals') =>
    database.db.selectFrom(table).selectAll().where('flow', '=', flow)
  const rows = await of('deliveries').orderBy('pk').execute()
  const attempts = await of('item_attempts').orderBy('pk').execute()
  const totals = await of('flow_totals').executeTakeFirst()
  return {
    states: Object.fromEntries(rows.map((row) => [row.pk, 'state' in row && row.state])),
    history: attempts.map(
      (row) => 'attempt' in row && [row.pk, row.attempt, row.outcome, row.status],
    ),
    completed: Number((totals && 'jobs_completed' in totals && totals.jobs_completed) || 0),
    failed: Number((totals && 'jobs_failed' in totals && totals.jobs_failed) || 0),
  }
}

test('a delivered change is done, counted and recorded in the history', async () => {
  const { target, lease } = await owe(['a', 'b'])
  const group = ['b', 'a'].map((pk) => arrived(pk))
  expect(await saveGroup(database, target, group, at, fenceOf(lease))).toMatchObject({
    delivered: 2,
    again: [],
  })
  expect(await readState(target.flow)).toEqual({
    states: { a: 'done', b: 'done' },
    history: [
      ['a', 2, 'delivered', 201],
      ['b', 2, 'delivered', 201],
    ],
    completed: 2,
    failed: 0,
  })
})

test('groups of one item use a generic plan, since planning takes as long as all the rest', {
  tags: ['long'],
}, async () => {
  // A database that no other test has filled or analysed, since the planner's choice depends on the statistics.
  const engine = await openPglite({ log: () => {}, loadDataDir: await pgliteTemplate() })
  const embedded = build(engine)
  const before = database
  database = embedded
  try {
    const pks = Array.from({ length: 12 }, (_, n) => `k${n}`)
    const { target, lease } = await owe(pks)
    for (const pk of pks) await saveGroup(database, target, [arrived(pk)], at, fenceOf(lease))
    const { rows } = await sql<{ anew: number; planned: number }>`
      select custom_plans::int as anew, generic_plans::int as planned from pg_prepared_statements
      where statement like '%item_attempts%' and statement like '%locked as materialized%'
        and ${true}`.execute(database.db)
    // The server first tries five custom plans.
    expect(rows).toEqual([{ anew: 5, planned: 5 }])
  } finally {
    database = before
    await embedded.close()
  }
})

test('T50: of what is in hand when another process leads nothing is written, whatever its outcome', async () => {
  const { target, lease } = await owe(['a', 'b'])
  await takeLease(database, {
    name: lease.name,
    owner: 'two',
    now: new Date(at.getTime() + 60_000),
  })
  for (const group of [[arrived('a')], [failed('a')], [arrived('a'), failed('b')]]) {
    await expect(saveGroup(database, target, group, at, fenceOf(lease))).rejects.toBeInstanceOf(
      LeaseLostError,
    )
  }
  expect(await readState(target.flow)).toEqual({
    states: { a: 'waiting', b: 'waiting' },
    history: [],
    completed: 0,
    failed: 0,
  })
})

test('a process that gave back its lease writes nothing either', async () => {
  const { target, lease } = await owe(['a'])
  const fence = { ...fenceOf(lease), proof: () => undefined, holds: async () => false }
  await expect(saveGroup(database, target, [arrived('a')], at, fence)).rejects.toBeInstanceOf(
    LeaseLostError,
  )
  expect((await readState(target.flow)).states).toEqual({ a: 'waiting' })
})

test('a newer change that came meanwhile stays open when the older one is recorded as delivered', async () => {
  const { target, lease } = await owe(['a', 'b'], 2)
  const fence = fenceOf(lease)
  const settled = await saveGroup(database, target, [arrived('a', 1), arrived('b', 2)], at, fence)
  expect(settled).toMatchObject({ delivered: 2, again: ['a'] })
  expect(await readState(target.flow)).toMatchObject({
    states: { a: 'waiting', b: 'done' },
    completed: 2,
  })
})

test('failures of the same group are recorded all the same', async () => {
  const { target, lease } = await owe(['a', 'b'])
  const fence = fenceOf(lease)
  const settled = await saveGroup(database, target, [failed('a'), arrived('b')], at, fence)
  expect(settled).toMatchObject({ delivered: 1, finals: [{ pk: 'a' }] })
  expect(await readState(target.flow)).toMatchObject({
    states: { a: 'failed', b: 'done' },
    completed: 1,
    failed: 1,
  })
})

test('an outcome is not recorded twice when the rest of its group is repeated', async () => {
  const { target, lease } = await owe(['a', 'b'])
  const fence = fenceOf(lease)
  const group = [failed('a'), arrived('b')]
  const away = { db: database.db, transaction: () => Promise.reject(new Error('away')) }
  await expect(saveGroup(away, target, group, at, fence)).rejects.toThrow('away')
  expect(await saveGroup(database, target, group, at, fence)).toMatchObject({ delivered: 1 })
  const { history, completed, failed: refused } = await readState(target.flow)
  expect([history.length, completed, refused]).toEqual([2, 1, 1])
})

test('T50: a lease that expired stays valid until another process takes it', async () => {
  const { target, lease } = await owe(['a', 'b'])
  await database.db
    .updateTable('leases')
    .set({ deadline: new Date(at.getTime() - 60_000) })
    .where('name', '=', lease.name)
    .execute()
  const group = [arrived('a'), failed('b')]
  expect(await saveGroup(database, target, group, at, fenceOf(lease))).toMatchObject({
    delivered: 1,
  })
})
