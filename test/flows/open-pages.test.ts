import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { retryFailed } from '../../src/flows/deliver/retry-deliveries.ts'
import {
  beforeAllOpen,
  countOpenDeliveries,
  openParts,
} from '../../src/repositories/flows/delivery-reports.ts'
import {
  failedRows,
  failureParts,
  groupFailures,
} from '../../src/repositories/flows/failed-deliveries.ts'
import { beforeAllDeliveries, inKeyOrder } from '../../src/repositories/flows/key-order.ts'
import { openTestDatabase } from '../support/database.ts'
import { rowsRead } from './explained.ts'

const items = 4_000
const pageRows = 200
const queuedAt = new Date(1_000_000)
const failedAt = new Date(2_000_000)
const now = new Date(3_000_000)

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(async () => {
  await database.close()
})

/** Of every six items one is done, one waits, one is delayed and three failed, in three ways. Nobody has counted the table. */
async function fill(): Promise<string> {
  const flow = `flow-${randomUUID()}`
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, state, attempts,
      queued_at, not_before, finished_at, last_error, last_status)
    select ${flow}, destination, 'P-' || lpad(place::text, 5, '0'), 1, 'upsert', 'h',
      case when place % 6 = 0 then 'done' when place % 6 < 3 then 'waiting' else 'failed' end, 1,
      ${queuedAt}::timestamptz + place * interval '1 ms',
      case when place % 6 = 2 then ${failedAt}::timestamptz + interval '1 hour' end,
      case when place % 6 > 2 then ${failedAt}::timestamptz + place * interval '1 ms' end,
      case when place % 6 > 2 then 'refused ' || place % 6 end,
      case when place % 6 > 2 then 419 + place % 6 end
    from unnest(array['erp', 'web']) as destination, generate_series(1, ${items}) as place`.execute(
    database.db,
  )
  return flow
}

const places = (test: (place: number) => boolean) =>
  Array.from({ length: items }, (_, index) => index + 1).filter(test)
const pkOf = (place: number) => `P-${String(place).padStart(5, '0')}`
const read = (statement: Parameters<typeof rowsRead>[1]) =>
  inKeyOrder(database, (trx) => rowsRead(trx, statement))

test('a page of open or failed deliveries reads about as many rows as it returns', {
  tags: ['long'],
}, async () => {
  const flow = await fill()
  const page = { after: beforeAllDeliveries, limit: pageRows }
  const { waiting, failed } = beforeAllOpen
  const after = { waiting: { ...waiting, flow }, failed: { ...failed, flow } }
  const parts = openParts(now, { after, limit: pageRows })
  // A page of what waits, and one of what failed.
  expect(await read(parts)).toBeLessThanOrEqual(2 * 2 * pageRows)
  expect(await read(failureParts(flow, page))).toBeLessThanOrEqual(2 * pageRows)
  expect(await read(failedRows({ flow, error: 'refused 4' }, page))).toBeLessThanOrEqual(
    2 * pageRows,
  )
})

test('a page in key order runs without JIT, and the settings are restored afterwards', {
  tags: ['long'],
}, async () => {
  const flow = await fill()
  const page = failureParts(flow, { after: beforeAllDeliveries, limit: pageRows })
  const plans = await inKeyOrder(database, (trx) =>
    sql<{ 'QUERY PLAN': object[] }>`explain (analyze, format json) ${page}`.execute(trx),
  )
  expect(plans.rows[0]?.['QUERY PLAN'][0]).not.toHaveProperty('JIT')
  const { rows } = await sql`
    select current_setting('enable_sort') as sort, current_setting('jit') = reset_val as jit
    from pg_settings where name = 'jit'`.execute(database.db)
  expect(rows).toEqual([{ sort: 'on', jit: true }])
})

test('open deliveries counted in pages give the same result as at once, also when pages end between two destinations', {
  tags: ['long'],
}, async () => {
  const flow = await fill()
  const ofFlow = async (limit?: number) =>
    (await countOpenDeliveries(database, now, limit)).filter((target) => target.flow === flow)
  const counts = {
    flow,
    waiting: places((place) => place % 6 === 1).length,
    delayed: places((place) => place % 6 === 2).length,
    failed: places((place) => place % 6 > 2).length,
    oldestWaitingAt: new Date(queuedAt.getTime() + 1),
  }
  const expected = [
    { ...counts, destination: 'erp' },
    { ...counts, destination: 'web' },
  ]
  expect(await ofFlow(333)).toEqual(expected)
  expect(await ofFlow()).toEqual(expected)
})

test('failures grouped in pages give the same result as at once', { tags: ['long'] }, async () => {
  const flow = await fill()
  const { value, rows } = await groupFailures(database, flow, 333)
  const failed = places((place) => place % 6 > 2)
  expect(rows).toBe(2 * failed.length)
  const group = (kind: number, destination: string) => {
    const ofKind = failed.filter((place) => place % 6 === kind)
    return {
      destination,
      error: `refused ${kind}`,
      why: null,
      status: 419 + kind,
      items: ofKind.length,
      lastAt: new Date(failedAt.getTime() + (ofKind.at(-1) ?? 0)),
      pks: ofKind.slice(0, 20).map(pkOf),
    }
  }
  const groups = [3, 4, 5].flatMap((kind) => [group(kind, 'erp'), group(kind, 'web')])
  expect(value).toHaveLength(groups.length)
  expect(value).toEqual(expect.arrayContaining(groups))
  const order = value.map((one) => one.items)
  expect(order).toEqual(order.toSorted((one, next) => next - one))
  expect((await groupFailures(database, flow, 10_000)).value).toEqual(value)
})

test('a retry sends one group of failures wherever its items are, each once, and wakes their destinations', {
  tags: ['long'],
}, async () => {
  const flow = await fill()
  const woken = new Set<string>()
  const announce = (_: string, payload: string) => void woken.add(payload.split('/')[1] ?? '')
  const deps = { database: { ...database, announce }, now: () => now }
  const wanted = places((place) => place % 6 === 4).map(pkOf)
  const filter = { flow, error: 'refused 4' }
  expect(await retryFailed(deps, { ...filter, pk: wanted[3] }, 333)).toBe(2)
  expect(await retryFailed(deps, { ...filter, destination: 'web' }, 333)).toBe(wanted.length - 1)
  expect(await retryFailed(deps, filter, 333)).toBe(wanted.length - 1)
  expect(await retryFailed(deps, filter, 333)).toBe(0)
  expect([...woken].sort()).toEqual(['erp', 'web'])
  const rows = await database.db
    .selectFrom('deliveries')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('flow', '=', flow)
    .where('state', '=', 'waiting')
    .where('version', '=', 2)
    .where('queued_at', '=', now)
    .executeTakeFirstOrThrow()
  expect(rows.count).toBe(2 * wanted.length)
})
