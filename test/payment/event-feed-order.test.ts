/** @module-tag long */

import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { FeedCursor } from '../../src/domain/event-cursor.ts'
import { readFeed } from '../../src/payments/events/feed.ts'
import { insertEvent } from '../../src/repositories/events/event-log.ts'
import { needsPostgres, postgresUrl } from '../support/database.ts'
import { rounds } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Writers that hold their transactions open for a while, and readers of two processes, on PostgreSQL. */
let service: TestService
let twin: TestService
beforeAll(async () => {
  if (!postgresUrl) return
  service = await startTestService()
  twin = await startTestService({ twinOf: service })
})
afterAll(async () => {
  await twin?.stop()
  await service?.stop()
})

const resources = 5
const changesOfWriter = rounds(60)
const writers = 8
const client = 'busy' as never

/** Changes a resource: its row is locked, its version grows, and the event is written; then the commit waits. */
async function change(resource: number, random: () => number): Promise<void> {
  const { database, clock } = service
  await database.transaction(async (trx) => {
    if (random() < 0.5) await sql`select pg_current_xact_id()`.execute(trx)
    const { rows } = await sql<{ version: number }>`
      update probe set version = version + 1 where id = ${resource} returning version`.execute(trx)
    await insertEvent(trx, {
      client,
      sucursalId: null,
      cajaId: null,
      type: 'order.paid',
      at: clock.now(),
      resource: { type: 'order', id: `r${resource}`, version: rows[0]?.version ?? 0 },
      orderId: null,
      changes: {},
      data: null,
    })
    await wait(random() * 4)
  })
}

/** The same numbers in each run. */
function numbersFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}

/** Reads with a cursor until every change is read. */
async function readAll({ deps }: TestService, total: number, limit: number) {
  const read: { id: string; resource: string; version: number }[] = []
  let after: FeedCursor | undefined
  while (read.length < total) {
    const filter = { stores: undefined, types: undefined, cajaId: undefined, sucursalId: undefined }
    const page = await readFeed(deps, { client, after, limit, ...filter })
    for (const { id, resource_id: resource, resource_version: version } of page.events) {
      read.push({ id, resource, version: version ?? 0 })
    }
    after = page.next
  }
  return read
}

test.skipIf(!postgresUrl)(
  `readers of two processes get every event once, in the order of each resource, though transactions commit late; ${needsPostgres}`,
  { timeout: 120_000 },
  async () => {
    const { db } = service.database
    await sql`create table probe (id integer primary key, version integer not null)`.execute(db)
    await sql`insert into probe select n, 0 from generate_series(0, ${resources - 1}) as n`.execute(
      db,
    )
    const total = writers * changesOfWriter
    const reading = [
      readAll(service, total, 7),
      readAll(twin, total, 50),
      readAll(service, total, 500),
    ]
    await Promise.all(
      Array.from({ length: writers }, async (_, writer) => {
        const random = numbersFrom(writer + 1)
        for (let times = 0; times < changesOfWriter; times += 1) {
          await change(Math.floor(random() * resources), random)
        }
      }),
    )
    const [first, ...others] = await Promise.all(reading)
    for (const other of others) expect(other).toEqual(first)
    expect(new Set(first?.map(({ id }) => id)).size).toBe(total)
    for (let resource = 0; resource < resources; resource += 1) {
      const versions = first?.filter((one) => one.resource === `r${resource}`)
      expect(versions?.map(({ version }) => version)).toEqual(
        versions?.map((_, place) => place + 1),
      )
    }
  },
)
