import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { build, type Database } from '../../src/db/database.ts'
import { openPglite } from '../../src/db/pglite-engine.ts'
import { recordChanges } from '../../src/repositories/flows/deliveries.ts'
import { acquireLease } from '../../src/repositories/leases.ts'
import type { Outcome } from '../../src/sync/deliver/outcome.ts'
import { settleGroup } from '../../src/sync/deliver/settle.ts'
import { ClaimLostError, type Settled } from '../../src/sync/deliver/settlements.ts'
import type { Term } from '../../src/sync/deliver/tenure.ts'
import { openTestDatabase } from '../support/database.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'

/** What simply arrived is written by a statement of its own. It must leave what the transaction for all else would leave. */
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
  const target = { flow, destination: 'web', keepsHistory: true }
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
  const name = `deliver:${flow}/web`
  const token = (await acquireLease(database.db, { name, owner, now: at })) as number
  return { target, lease: { name, owner, token } }
}

const termOf = (lease: {
  name: string
  owner: string
  token: number
}): Pick<Term, 'holds' | 'proof'> => ({
  proof: () => lease,
  holds: async (trx) => {
    const found = await trx
      .selectFrom('leases')
      .select('token')
      .where('name', '=', lease.name)
      .executeTakeFirst()
    return found?.token === lease.token
  },
})

const arrived = (
  pk: string,
  term: Pick<Term, 'holds' | 'proof'>,
  version = 1,
): Settled<Outcome> => ({
  claim: { pk, term },
  outcome: { kind: 'delivered', version, change: 'upsert', hash: 'h1:a', attempts: 2, status: 201 },
})

const failed = (pk: string, term: Pick<Term, 'holds' | 'proof'>): Settled<Outcome> => ({
  claim: { pk, term },
  outcome: {
    ...{ kind: 'final', version: 1, change: 'upsert', hash: 'h1:a' },
    failure: { why: { code: 'UNEXPECTED' }, status: 422, attempts: 1 },
  },
})

async function look(flow: string) {
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

test('it is done, counted and told of in the history', async () => {
  const { target, lease } = await owe(['a', 'b'])
  const group = ['b', 'a'].map((pk) => arrived(pk, termOf(lease)))
  expect(await settleGroup(database, target, group, at)).toMatchObject({ delivered: 2, again: [] })
  expect(await look(target.flow)).toEqual({
    states: { a: 'done', b: 'done' },
    history: [
      ['a', 2, 'delivered', 201],
      ['b', 2, 'delivered', 201],
    ],
    completed: 2,
    failed: 0,
  })
})

test('groups of one are not planned anew each time, which takes as long as all the rest', {
  tags: ['long'],
}, async () => {
  // One that no other test has filled or analysed: the planner's choice depends on what it knows of the tables.
  const engine = await openPglite({ log: () => {}, loadDataDir: await pgliteTemplate() })
  const embedded = build(engine)
  const before = database
  database = embedded
  try {
    const pks = Array.from({ length: 12 }, (_, n) => `k${n}`)
    const { target, lease } = await owe(pks)
    for (const pk of pks) await settleGroup(database, target, [arrived(pk, termOf(lease))], at)
    const { rows } = await sql<{ anew: number; planned: number }>`
      select custom_plans::int as anew, generic_plans::int as planned from pg_prepared_statements
      where statement like '%item_attempts%' and statement like '%locked as materialized%'
        and ${true}`.execute(database.db)
    // Five times it is tried whether the values would make a better plan.
    expect(rows).toEqual([{ anew: 5, planned: 5 }])
  } finally {
    database = before
    await embedded.close()
  }
})

test('T50: of a claim that another process has taken over nothing is written', async () => {
  const { target, lease } = await owe(['a'])
  await acquireLease(database.db, {
    name: lease.name,
    owner: 'two',
    now: new Date(at.getTime() + 60_000),
  })
  await expect(
    settleGroup(database, target, [arrived('a', termOf(lease))], at),
  ).rejects.toBeInstanceOf(ClaimLostError)
  expect(await look(target.flow)).toEqual({
    states: { a: 'waiting' },
    history: [],
    completed: 0,
    failed: 0,
  })
})

test('a process that has let go writes nothing either', async () => {
  const { target, lease } = await owe(['a'])
  const term = { ...termOf(lease), proof: () => undefined, holds: async () => false }
  await expect(settleGroup(database, target, [arrived('a', term)], at)).rejects.toBeInstanceOf(
    ClaimLostError,
  )
  expect((await look(target.flow)).states).toEqual({ a: 'waiting' })
})

test('a newer change that came meanwhile stays owed, beside what is done', async () => {
  const { target, lease } = await owe(['a', 'b'], 2)
  const term = termOf(lease)
  const settled = await settleGroup(
    database,
    target,
    [arrived('a', term, 1), arrived('b', term, 2)],
    at,
  )
  expect(settled).toMatchObject({ delivered: 2, again: ['a'] })
  expect(await look(target.flow)).toMatchObject({
    states: { a: 'waiting', b: 'done' },
    completed: 2,
  })
})

test('what failed beside it is written all the same', async () => {
  const { target, lease } = await owe(['a', 'b'])
  const term = termOf(lease)
  const settled = await settleGroup(database, target, [failed('a', term), arrived('b', term)], at)
  expect(settled).toMatchObject({ delivered: 1, finals: [{ pk: 'a' }] })
  expect(await look(target.flow)).toMatchObject({
    states: { a: 'failed', b: 'done' },
    completed: 1,
    failed: 1,
  })
})

test('what is written is not written again because the rest of its group was not', async () => {
  const { target, lease } = await owe(['a', 'b'])
  const term = termOf(lease)
  const group = [failed('a', term), arrived('b', term)]
  const away = { db: database.db, transaction: () => Promise.reject(new Error('away')) }
  await expect(settleGroup(away, target, group, at)).rejects.toThrow('away')
  expect(await settleGroup(database, target, group, at)).toMatchObject({ delivered: 1 })
  const { history, completed, failed: refused } = await look(target.flow)
  expect([history.length, completed, refused]).toEqual([2, 1, 1])
})
