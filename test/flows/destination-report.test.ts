import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { reportDestination } from '../../src/flows/deliver/destination-reports.ts'
import { openTestDatabase } from '../support/database.ts'

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const now = new Date('2026-11-26T12:00:30Z')
const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000)

const owe = (pk: string, state: string, queuedAt: Date, endedAt: Date | null) =>
  sql`insert into deliveries (flow, destination, pk, version, change_number, kind, hash, payload, state, attempts,
      queued_at, delivered_at, finished_at, may_have_arrived)
    values ('shop', 'web', ${pk}, 1, 1, 'upsert', 'h', ${state === 'waiting' ? '{}' : null}, ${state}, 0,
      ${queuedAt}, ${state === 'done' ? endedAt : null}, ${endedAt}, false)`.execute(database.db)

test('the queue of each minute, the rate of the last five and the end of the load come from recorded data', async () => {
  // Of 40 items that were queued half an hour ago 10 arrived in the last minutes, one failed.
  for (let item = 0; item < 10; item += 1)
    await owe(`d${item}`, 'done', ago(30), ago(1 + (item % 5)))
  for (let item = 0; item < 29; item += 1) await owe(`w${item}`, 'waiting', ago(30), null)
  await owe('f1', 'failed', ago(30), ago(3))
  const report = await reportDestination(database.db, now, 'shop', {
    name: 'web',
    rateLimit: { max: 2, perMs: 60_000 },
  })
  expect(report).toMatchObject({
    ...{ waiting: 29, done: 10, perMinute: 2, rateLimit: { max: 2, perMs: 60_000 } },
    endsAt: new Date(now.getTime() + 14.5 * 60_000),
  })
  const of = (minutes: number) => report.samples.at(-1 - minutes)
  expect([of(0), of(1), of(3), of(6), of(31)]).toMatchObject([
    { waiting: 29, delivered: 0, failed: 0 },
    { waiting: 29, delivered: 2, failed: 0 },
    { waiting: 33, delivered: 2, failed: 1 },
    { waiting: 40, delivered: 0, failed: 0 },
    { waiting: 0, delivered: 0, failed: 0 },
  ])
})

test('a destination without deliveries has no end of load', async () => {
  const report = await reportDestination(database.db, now, 'shop', { name: 'none' })
  expect(report).toMatchObject({ waiting: 0, done: 0, perMinute: 0, endsAt: null, rateLimit: null })
})
