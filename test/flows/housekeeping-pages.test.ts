import { randomUUID } from 'node:crypto'
import { type KyselyPlugin, sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import type { Step } from '../../src/db/steps.ts'
import { cleanDeliveries } from '../../src/flows/engine/flow-housekeeping.ts'
import { createThrottledSteps } from '../../src/jobs/throttled-steps.ts'
import { deleteFinished, finishedRows } from '../../src/repositories/flows/finished-deliveries.ts'
import { deleteFlowErrorsBefore } from '../../src/repositories/flows/flow-errors.ts'
import {
  attemptsKept,
  historyKinds,
  historyRows,
  trimItemHistory,
  versionsKept,
} from '../../src/repositories/flows/item-versions.ts'
import { beforeAllDeliveries, inKeyOrder } from '../../src/repositories/flows/key-order.ts'
import { openTestDatabase } from '../support/database.ts'
import { rowsRead } from './explained.ts'

const items = 4_000
const pageRows = 200
const old = new Date(1_000_000)
const recent = new Date(2_000_000)
const between = new Date(1_500_000)
const never = new Date(0)

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(async () => {
  await database.close()
})

/** Old deliveries, done or failed; every third item is no longer known. The tables have no statistics yet. */
async function fill(destinations: readonly string[]): Promise<string> {
  const flow = `flow-${randomUUID()}`
  await sql`
    insert into flow_items (flow, pk, hash, changed_at)
    select ${flow}, 'P-' || place, 'h', ${old} from generate_series(1, ${items}) as place
    where place % 3 <> 0`.execute(database.db)
  await sql`
    insert into deliveries
      (flow, destination, pk, version, kind, hash, state, attempts, queued_at, may_have_arrived, finished_at)
    select ${flow}, destination, 'P-' || place, 1, 'upsert', 'h',
      case when place % 5 = 0 then 'failed' when place % 7 = 0 then 'waiting' else 'done' end, 1,
      ${old}, place % 11 = 0, case when place % 2 = 0 then ${old}::timestamptz else ${recent}::timestamptz end
    from unnest(${destinations}::text[]) as destination, generate_series(1, ${items}) as place`.execute(
    database.db,
  )
  return flow
}

const before = { doneBefore: between, failedBefore: between }

test('a page of finished deliveries reads about as many rows as it examines, however many items there are', async () => {
  const flow = await fill(['web'])
  const page = { after: beforeAllDeliveries, limit: pageRows }
  const read = await inKeyOrder(database, (trx) => rowsRead(trx, finishedRows(flow, before, page)))
  expect(read).toBeLessThan(4 * pageRows)
})

test('finished deliveries are removed wherever they are, and nothing else, also when pages end between two destinations', {
  tags: ['long'],
}, async () => {
  const flow = await fill(['erp', 'web'])
  const isRemoved = (place: number) => {
    if (place % 2 !== 0) return false
    // What may be at the destination is deleted there by its row.
    if (place % 5 === 0) return place % 3 === 0 || place % 11 !== 0
    return place % 7 !== 0 && place % 3 === 0
  }
  const places = Array.from({ length: items }, (_, index) => index + 1)
  const kept = places.filter((place) => !isRemoved(place)).map((place) => `P-${place}`)
  expect(await deleteFinished(database, flow, before, { limit: 333 })).toBe(
    2 * (items - kept.length),
  )
  for (const destination of ['erp', 'web']) {
    const left = await database.db
      .selectFrom('deliveries')
      .select('pk')
      .where('flow', '=', flow)
      .where('destination', '=', destination)
      .execute()
    expect(left.map(({ pk }) => pk).sort()).toEqual(kept.toSorted())
  }
  expect(await deleteFinished(database, flow, before, { limit: items })).toBe(0)
})

/** The database, and the number of rows that each of its statements removed. */
function watched() {
  const taken: number[] = []
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      if (result.numAffectedRows !== undefined) taken.push(Number(result.numAffectedRows))
      return result
    },
  }
  return { db: database.db.withPlugin(plugin), taken }
}

/** The given number of versions and attempts of each item, the same at either time. */
async function fillHistory(flow: string, pks: readonly string[], each: number): Promise<void> {
  await sql`
    insert into item_versions (flow, pk, seen_at, kind, hash)
    select ${flow}, pk, case when n % 2 = 0 then ${old}::timestamptz else ${recent}::timestamptz end, 'upsert', n::text
    from generate_series(1, ${each}) as n, unnest(${pks}::text[]) as item (pk)`.execute(database.db)
  await sql`
    insert into item_attempts (flow, pk, at, destination, kind, hash, attempt, outcome)
    select flow, pk, seen_at, 'web', kind, hash, 1, 'delivered' from item_versions
    where flow = ${flow} order by id`.execute(database.db)
}

test('old history and old errors are removed in pages, and those of other flows stay', async () => {
  const [flow, other] = [`flow-${randomUUID()}`, `flow-${randomUUID()}`]
  const pks = Array.from({ length: 50 }, (_, index) => `P-${index}`)
  for (const name of [flow, other]) {
    await fillHistory(name, pks, 4)
    await sql`
      insert into flow_errors (id, flow, adapter, pk, error, attempts, at)
      select gen_random_uuid(), ${name}, 'web', 'P-' || n, 'no', 1,
        case when n % 2 = 0 then ${old}::timestamptz else ${recent}::timestamptz end
      from generate_series(1, 100) as n`.execute(database.db)
  }
  const { db, taken } = watched()
  const watching = { ...database, db }
  expect(await trimItemHistory(watching, flow, between, { limit: 30 })).toBe(2 * 100)
  expect(await deleteFlowErrorsBefore(db, flow, between, { limit: 30 })).toBe(50)
  expect(taken.length).toBeGreaterThan(4 + 4 + 2)
  expect(Math.max(...taken)).toBeLessThanOrEqual(30)
  expect(await trimItemHistory(watching, flow, recent)).toBe(0)
  expect(await trimItemHistory(watching, other, between)).toBe(2 * 100)
  expect(await deleteFlowErrorsBefore(db, other, between)).toBe(50)
})

test('the history of each item is trimmed in pages that read only the rows that they examine', {
  tags: ['long'],
}, async () => {
  const flow = `flow-${randomUUID()}`
  // More of one item than fits into a page, and pages that end within an item.
  const pks = Array.from({ length: 40 }, (_, index) => `P-${index}`)
  await fillHistory(flow, pks, versionsKept + 3)
  await fillHistory(flow, ['P-17'], 4 * attemptsKept)
  const limit = attemptsKept + 11
  const page = historyRows(historyKinds[0], flow, {
    from: '',
    before: never,
    kept: versionsKept,
    limit,
  })
  const read = await inKeyOrder(database, (trx) => rowsRead(trx, page))
  expect(read).toBeLessThanOrEqual(limit)

  const kept = async () => {
    const { rows } = await sql<{ versions: number; attempts: number }>`
      select
        (select count(*) from item_versions where flow = ${flow}) as versions,
        (select count(*) from item_attempts where flow = ${flow}) as attempts`.execute(database.db)
    return rows[0]
  }
  const had = await kept()
  const removed = await trimItemHistory(database, flow, never, { limit })
  const left = await kept()
  expect(left?.versions).toBe(pks.length * versionsKept)
  expect(left?.attempts).toBe((pks.length - 1) * 2 * (versionsKept + 3) + attemptsKept)
  expect(removed).toBe(
    (had?.versions ?? 0) + (had?.attempts ?? 0) - (left?.versions ?? 0) - (left?.attempts ?? 0),
  )
  expect(await trimItemHistory(database, flow, never, { limit })).toBe(0)
})

test('the housekeeping of a flow pauses after each statement and ends at a stop', async () => {
  const flow = await fill(['web'])
  await fillHistory(flow, ['P-1'], versionsKept + 1)
  const queue = { keepCompletedMs: 0, keepFailedMs: 0, keepHistoryMs: 0 }
  let steps = 0
  const stopping = new AbortController()
  const step = createThrottledSteps(
    {
      stopwatch: () => 0,
      sleep: async () => {
        steps += 1
        if (steps === 3) stopping.abort()
      },
    },
    stopping.signal,
  )
  const deps = { database, now: () => new Date() }
  await expect(cleanDeliveries(deps, { name: flow, queue }, step)).rejects.toThrow('aborted')
  expect(steps).toBe(3)
  const counted: unknown[] = []
  const counting: Step = async (work) => {
    const result = await work()
    counted.push(result)
    return result
  }
  await cleanDeliveries(deps, { name: flow, queue }, counting)
  expect(counted.length).toBeGreaterThan(4)
})
