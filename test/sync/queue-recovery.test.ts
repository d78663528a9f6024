import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import {
  beforeAllWaiting,
  bringForward,
  laterJobs,
  waitingRows,
} from '../../src/sync/queue/job-table.ts'
import { createDeliveryQueue, type DeliveryQueue } from '../../src/sync/queue/queue.ts'
import { queueName } from '../../src/sync/queue/queue-name.ts'
import { openTestDatabase } from '../support/database.ts'
import { rowsRead } from './explained.ts'

const items = 2_500
const destination = 'web'
const minuteMs = 60_000

let database: Database
let queue: DeliveryQueue
const logged: unknown[] = []

beforeAll(async () => {
  database = await openTestDatabase()
  const log = { info() {}, error() {}, warn: (fields: object) => void logged.push(fields) }
  queue = createDeliveryQueue({
    database,
    now: () => new Date(),
    processId: 'one',
    log,
    recoverMs: 50,
  })
  await queue.start()
})
afterAll(async () => {
  await queue.stop({ timeoutMs: 0 })
  await database.close()
})

/** A first import: rows that wait, some at the same moment, each with its wake-up; nobody has counted the tables yet. */
async function importItems(): Promise<string> {
  const flow = `flow-${randomUUID()}`
  const queuedAt = new Date(Date.now() - minuteMs)
  const pks = Array.from({ length: items }, (_, n) => `P-${n}`)
  await queue.ensureQueue(flow, destination)
  await database.transaction(async (trx) => {
    await sql`
      insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, attempts, queued_at)
      select ${flow}, ${destination}, pk, 1, 'upsert', 'h', '{}'::jsonb, 'waiting', 0,
        ${queuedAt}::timestamptz + (place / 1500) * interval '1.5 milliseconds'
      from unnest(${pks}::text[]) with ordinality as item (pk, place)`.execute(trx)
    await queue.wake(trx, flow, destination, pks)
  })
  return flow
}

async function countJobs(flow: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from pgboss.job where name = ${queueName(flow, destination)}`.execute(
    database.db,
  )
  return rows[0]?.count ?? 0
}

test('each waiting row finds its job by index, also in tables that nobody has counted yet', async () => {
  const flow = await importItems()
  const target = { queue: queueName(flow, destination), flow, destination }
  const page = waitingRows(target, { since: new Date(), after: beforeAllWaiting, limit: 1_000 })
  expect((await page.execute(database.db)).rows).toHaveLength(1_000)
  expect(await rowsRead(database.db, page)).toBeLessThan(2 * items)
})

test('wake-ups are brought forward without reading those of other items, and only those that are due later', async () => {
  const flow = await importItems()
  const name = queueName(flow, destination)
  const pks = ['P-3', 'P-1700', 'P-2499', 'nobody']
  await database.transaction((trx) =>
    queue.wake(trx, flow, destination, ['late'], { delayMs: minuteMs }),
  )
  await sql`
    update pgboss.job set start_after = now() + interval '1 hour'
    where name = ${name} and singleton_key in ('P-3', 'P-4', 'P-2499')`.execute(database.db)
  expect(await rowsRead(database.db, laterJobs(name, pks))).toBeLessThan(10 * pks.length)
  await database.transaction((trx) => bringForward(trx, name, pks))
  const { rows } = await sql<{ pk: string }>`
    select singleton_key as pk from pgboss.job where name = ${name} and start_after > now()
    order by 1`.execute(database.db)
  expect(rows.map(({ pk }) => pk)).toEqual(['P-4', 'late'])
})

test('wake-ups that got lost are replaced wherever they are among very many, and told once', async () => {
  const flow = await importItems()
  logged.length = 0
  const lost = ['P-3', 'P-999', 'P-1000', 'P-1499', 'P-1500', 'P-2499']
  await sql`
    delete from pgboss.job where name = ${queueName(flow, destination)}
      and coalesce(singleton_key, '') = any(${lost}::text[])`.execute(database.db)
  expect(await countJobs(flow)).toBe(items - lost.length)
  await queue.work(flow, destination, {
    concurrency: 1,
    admit: () => ({ starts: 0, waitMs: 20 }),
    load: async () => new Map(),
    attempt: async () => undefined,
    settle: async () => {},
  })
  await expect.poll(() => countJobs(flow)).toBe(items)
  await queue.unwork(flow, destination, { timeoutMs: 0 })
  expect(logged).toEqual([{ queue: queueName(flow, destination), items: lost.length }])
})
