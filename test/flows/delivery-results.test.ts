import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { recordChanges } from '../../src/repositories/flows/deliveries.ts'
import {
  type DeliveryResultRow,
  writeResults,
} from '../../src/repositories/flows/delivery-results.ts'
import { openTestDatabase } from '../support/database.ts'

let database: Database

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const queuedAt = new Date('2026-11-26T12:00:00Z')
const at = new Date('2026-11-26T12:00:05Z')
const target = { flow: 'mixed', destination: 'web' }
const why = { code: 'HTTP_STATUS', data: { status: 503 } } as const

const results: DeliveryResultRow[] = [
  { pk: 'arrived', became: 'delivered', digest: 'b1', body: { whole: { id: 7 } } },
  {
    pk: 'overtaken',
    became: 'delivered_before',
    hash: 'h0',
    digest: 'b0',
    body: { whole: { id: 8 } },
  },
  { pk: 'same', became: 'unchanged', digest: 'b2' },
  { pk: 'filtered', became: 'skipped', why: { code: 'FILTERED_OUT' } },
  { pk: 'busy', became: 'retrying', attempts: 1, why, status: 503, delayMs: 60_000 },
  { pk: 'later', became: 'postponed', delayMs: 0 },
  {
    pk: 'refused',
    became: 'failed',
    attempts: 3,
    why,
    status: 503,
    begun: { body: { whole: { id: 9 } } },
  },
  { pk: 'begun', became: 'begun', begun: { body: { whole: { id: 10 } } } },
]

test('the outcomes of many deliveries are recorded by one statement, each as it ended', async () => {
  const changes = results.map(({ pk }) => ({
    ...{ pk, kind: 'upsert' as const, hash: `h-${pk}`, value: { pk }, change: 1 },
  }))
  await database.transaction(async (trx) => {
    const to = { flow: 'mixed', destinations: ['web'], keepsHistory: false }
    await recordChanges(trx, to, changes, queuedAt)
    await writeResults(trx, { ...target, keepsHistory: false, isReadOnce: false }, results, at)
  })
  const rows = await database.db
    .selectFrom('deliveries')
    .selectAll()
    .where('flow', '=', 'mixed')
    .execute()
  const row = (pk: string) => rows.find((one) => one.pk === pk)
  const nothingWrong = { last_error: null, last_status: null, why: null, not_before: null }
  expect(row('arrived')).toMatchObject({
    ...{ state: 'done', delivered_hash: 'h-arrived', delivered_digest: 'b1', delivered_at: at },
    ...{
      delivered_body: { whole: { id: 7 } },
      may_have_arrived: false,
      payload: null,
      finished_at: at,
    },
    ...nothingWrong,
  })
  expect(row('overtaken')).toMatchObject({
    ...{ state: 'waiting', delivered_hash: 'h0', delivered_digest: 'b0', delivered_at: at },
    ...{ payload: { pk: 'overtaken' }, finished_at: null, ...nothingWrong },
  })
  expect(row('same')).toMatchObject({
    ...{ state: 'done', delivered_hash: 'h-same', delivered_digest: 'b2', delivered_at: null },
    ...{ payload: null, finished_at: at, ...nothingWrong },
  })
  expect(row('filtered')).toMatchObject({
    ...{ state: 'done', skipped: 'the filter of the destination leaves it out', payload: null },
    ...{ why: { code: 'FILTERED_OUT' }, delivered_hash: null, finished_at: at },
  })
  const failed = { last_error: 'HTTP 503', last_status: 503, why }
  expect(row('busy')).toMatchObject({
    ...{ state: 'waiting', attempts: 1, payload: { pk: 'busy' }, finished_at: null, ...failed },
    ...{ not_before: new Date(at.getTime() + 60_000), may_have_arrived: false },
  })
  expect(row('busy')?.due_at.getTime()).toBeGreaterThan(Date.now())
  expect(row('later')).toMatchObject({ state: 'waiting', attempts: 0, not_before: at })
  expect(row('refused')).toMatchObject({
    ...{ state: 'failed', attempts: 3, payload: { pk: 'refused' }, finished_at: at, ...failed },
    ...{ not_before: null, may_have_arrived: true, delivered_body: { whole: { id: 9 } } },
  })
  expect(row('begun')).toMatchObject({
    ...{
      state: 'waiting',
      attempts: 0,
      may_have_arrived: true,
      delivered_body: { whole: { id: 10 } },
    },
    ...{ delivered_hash: null, not_before: null },
  })
})
