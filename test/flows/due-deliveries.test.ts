import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { DeliveryWorker } from '../../src/flows/deliver/delivery-worker.ts'
import {
  beforeAllDue,
  dueDeliveries,
  walkDue,
} from '../../src/repositories/flows/due-deliveries.ts'
import { openTestDatabase } from '../support/database.ts'
import { leading, memoryLog } from './deliver-support.ts'
import { rowsRead } from './explained.ts'

const items = 2_500
const hourMs = 3600_000
const destination = 'web'

let database: Database

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(async () => {
  await database.close()
})

const keyOf = (place: number) => `P-${String(place).padStart(4, '0')}`

/** A first import: rows that wait, some since the same moment. */
async function importItems(): Promise<{ flow: string; destination: string }> {
  const flow = `flow-${randomUUID()}`
  const pks = Array.from({ length: items }, (_, place) => keyOf(place))
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, attempts, queued_at)
    select ${flow}, ${destination}, pk, 1, 'upsert', 'h', '{}'::jsonb, 'waiting', 0,
      now() + ((place - 1) / 1500) * interval '1.5 milliseconds'
    from unnest(${pks}::text[]) with ordinality as item (pk, place)`.execute(database.db)
  return { flow, destination }
}

const setDue = (flow: string, pk: string, due: string) =>
  sql`update deliveries set due_at = now() + ${due}::interval where flow = ${flow} and pk = ${pk}`.execute(
    database.db,
  )

async function walkAll(target: { flow: string; destination: string }): Promise<string[][]> {
  const walk = walkDue(database, target, hourMs)
  const pages: string[][] = []
  for (;;) {
    const page = (await walk.next(1_000)).map(({ pk }) => pk)
    pages.push(page)
    if (page.length < 1_000) return pages
  }
}

test('due deliveries are read once in order of age, and a page of a counted table reads only its own rows', async () => {
  const target = await importItems()
  const pages = await walkAll(target)
  expect(pages.flat()).toEqual(Array.from({ length: items }, (_, place) => keyOf(place)))
  expect(pages.map(({ length }) => length)).toEqual([1_000, 1_000, 500])
  await sql`analyze deliveries`.execute(database.db)
  const page = dueDeliveries(target, { after: beforeAllDue, furthestMs: hourMs, limit: 200 })
  expect(await rowsRead(database.db, page)).toBeLessThan(1_000)
})

test('in a first import, before the table has statistics, a page reads only its own rows', async () => {
  const fresh = await openTestDatabase()
  onTestFinished(() => fresh.close())
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, attempts, queued_at)
    select 'first', ${destination}, n::text, 1, 'upsert', 'h', jsonb_build_object('name', repeat('x', 200)), 'waiting', 0, now()
    from generate_series(1, 20000) as n`.execute(fresh.db)
  const fetched = async () => {
    const { rows } = await sql<{ n: number }>`
      select (idx_tup_fetch + seq_tup_read)::float8 as n, pg_stat_force_next_flush()
      from pg_stat_user_tables where relname = 'deliveries'`.execute(fresh.db)
    return rows[0]?.n ?? 0
  }
  const before = await fetched()
  const walk = walkDue(fresh, { flow: 'first', destination }, hourMs)
  for (let page = 0; page < 3; page += 1) expect(await walk.next(200)).toHaveLength(200)
  await fetched()
  await expect.poll(async () => (await fetched()) - before).toBeGreaterThan(0)
  expect((await fetched()) - before).toBeLessThan(5_000)
})

test('a delivery with a later time comes first when it is due, also a time before the clock was set back', async () => {
  const target = await importItems()
  const { flow } = target
  await setDue(flow, keyOf(7), '-1 minute')
  await setDue(flow, keyOf(1_700), '-2 minutes')
  await setDue(flow, keyOf(9), '30 minutes')
  await setDue(flow, keyOf(11), '1 day')
  const found = (await walkAll(target)).flat()
  expect(found.slice(0, 3)).toEqual([keyOf(1_700), keyOf(7), keyOf(11)])
  expect(found).toHaveLength(items - 1)
  expect(new Set(found).size).toBe(items - 1)
  expect(found).not.toContain(keyOf(9))
})

test('a walk that reached its end continues with deliveries that became due behind it', async () => {
  const target = await importItems()
  const walk = walkDue(database, target, hourMs)
  while ((await walk.next(1_000)).length === 1_000) {}
  expect(await walk.next(10)).toEqual([])
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, attempts, queued_at)
    values (${target.flow}, ${destination}, 'new', 1, 'upsert', 'h', '{}', 'waiting', 0, now() + interval '1 minute')`.execute(
    database.db,
  )
  expect((await walk.next(10)).map(({ pk }) => pk)).toEqual(['new'])
})

test('deliveries without a notification are found among very many', {
  tags: ['long'],
}, async () => {
  const target = await importItems()
  const worked: string[] = []
  const deps = { leader: leading, log: memoryLog(), pollMs: 20, sleep: wait }
  const worker = new DeliveryWorker<string, string>(deps, {
    concurrency: 8,
    batch: { most: 100, groupOf: () => ({ kind: 'upsert', most: 100 }) },
    admit: () => ({ starts: 10, waitMs: 0 }),
    walk: () => {
      const walk = walkDue(database, target, hourMs)
      return {
        next: async (limit) => (await walk.next(limit)).map(({ pk }) => ({ pk, row: pk })),
      }
    },
    load: async () => [],
    delayDeliveries: async () => {},
    attempt: async (owed) => owed.map(({ pk }) => pk),
    save: async (group) => {
      const pks = group.map(({ pk }) => pk)
      worked.push(...pks)
      await sql`update deliveries set state = 'done'
        where flow = ${target.flow} and pk = any(${pks}::text[])`.execute(database.db)
      return []
    },
    lost: async () => {},
  })
  await expect.poll(() => worked.length, { timeout: 15_000 }).toBe(items)
  // Due before everything that the walk has read, as when the writer's clock is behind.
  await sql`update deliveries set state = 'waiting', queued_at = now() - interval '1 day'
    where flow = ${target.flow} and pk = ${keyOf(1_234)}`.execute(database.db)
  await expect.poll(() => worked.at(-1), { timeout: 15_000 }).toBe(keyOf(1_234))
  expect(worked).toHaveLength(items + 1)
  await worker.stop(0)
})
