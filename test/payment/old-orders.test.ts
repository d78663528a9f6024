import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { takeLease } from '../../src/repositories/leases.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, openShop, payByCard, readOrder, type Till } from '../support/till.ts'

/** Old data is deleted with everything that belongs to it; data that is still needed stays. */

const dayMs = 24 * 3_600_000
let service: TestService
let till: Till

beforeAll(async () => {
  service = await startTestService({
    env: { KEEP_ORDERS_DAYS: '400', KEEP_TIMELINE_DAYS: '5', KEEP_WEBHOOKS_DAYS: '10' },
  })
  till = await openShop(service, 'acme')
})
afterAll(() => service.stop())

async function pay(reference: string): Promise<string> {
  const made = await charge(service, till, { reference })
  expect(made.statusCode).toBe(201)
  const { order_id: id } = made.json()
  await act(service, id, payByCard)
  expect((await readOrder(service, till, id)).json().status).toBe('processed')
  return id
}

/** Sets an order back in time. */
async function age(id: string, days: number) {
  const { db } = service.database
  await sql`update orders set created_at = created_at - ${days} * interval '1 day', next_check_at = null
    where id = ${id}`.execute(db)
}

/** After the next housekeeping; a time much later would count as a wrong clock. */
const soon = () => new Date(service.clock.now().getTime() + 3_660_000)

/** Advances an hour, so that the housekeeping is due, and runs it. */
async function deleteOldData() {
  service.clock.advance(3_600_000)
  await service.sweeper.sweepOnce()
}

async function count(table: string, orderId: string): Promise<number> {
  const { rows } = await sql<{ rows: number }>`
    select count(*)::int as rows from ${sql.table(table)} where order_id = ${orderId}`.execute(
    service.database.db,
  )
  return rows[0]?.rows ?? -1
}

const belonging = [
  'order_events',
  'order_operations',
  'provider_payments',
  'orphans',
  'chargebacks',
  'settlement_rows',
  'order_calls',
]

test('the lease that a killed process leaves behind delays the deletion for seconds, not for an hour', async () => {
  const id = await pay('LEFT-1')
  await age(id, 401)
  service.clock.advance(3_600_000)
  const { database, clock } = service
  await takeLease(database, { name: 'housekeeping', owner: 'killed', now: clock.now() })
  await service.sweeper.sweepOnce()
  expect(await isThere(id)).toBe(true)
  service.clock.advance(16_000)
  await service.sweeper.sweepOnce()
  expect(await isThere(id)).toBe(false)
})

async function isThere(id: string): Promise<boolean> {
  const { db } = service.database
  return (await db.selectFrom('orders').select('id').where('id', '=', id).execute()).length === 1
}

test('an order is deleted with everything that belongs to it after its time, and not a day before', async () => {
  const [old, younger] = [await pay('OLD'), await pay('YOUNGER')]
  const { db } = service.database
  const refunded = await sql`insert into order_operations
    (id, order_id, client, kind, refund_type, amount_cents, state, created_at)
    values (${randomUUID()}, ${old}, 'acme', 'refund', 'partial', 1, 'done', now())`.execute(db)
  expect(Number(refunded.numAffectedRows)).toBe(1)
  for (const [payment, link] of [
    ['P-1', 'order_id'],
    ['P-2', 'surplus_of'],
  ] as const) {
    await sql`insert into provider_payments (client, payment_id, mp_user_id, status, sold_at, fingerprint,
      first_read_at, changed_at, ${sql.ref(link)})
      values ('acme', ${payment}, 1, 'approved', now(), 'x', now(), now(), ${old})`.execute(db)
    await sql`insert into orphans (id, client, payment_id, amount_cents, sold_at, state, found_at, ${sql.ref(link)})
      values (${randomUUID()}, 'acme', ${payment}, 1, now(), 'adopted', now(), ${old})`.execute(db)
  }
  await age(old, 401)
  await age(younger, 399)
  expect(await count('order_events', old)).toBeGreaterThan(0)
  await deleteOldData()

  expect((await readOrder(service, till, old)).statusCode).toBe(404)
  for (const table of belonging) expect([table, await count(table, old)]).toEqual([table, 0])
  const left = await sql`select from provider_payments where payment_id in ('P-1', 'P-2')`.execute(
    db,
  )
  expect(left.rows).toHaveLength(0)
  expect((await readOrder(service, till, younger)).json().status).toBe('processed')
  expect(await count('order_events', younger)).toBeGreaterThan(0)
})

test('an order that may still change, or that needs a decision, is not deleted', async () => {
  const { db } = service.database
  const waiting = await pay('WAITING')
  const doubtful = await pay('DOUBTFUL')
  const refunding = await pay('REFUNDING')
  const contradicted = await pay('CONTRADICTED')
  const paidLate = await pay('PAID LATE')
  const paidLess = await pay('PAID LESS')
  const all = [waiting, doubtful, refunding, contradicted, paidLate, paidLess]
  for (const id of all) await age(id, 500)
  await sql`update orders set refund_contradicted = 'refunded' where id = ${contradicted}`.execute(
    db,
  )
  await sql`update orders set paid_after_close = true where id = ${paidLate}`.execute(db)
  await sql`update orders set paid_cents = amount_cents - 1 where id = ${paidLess}`.execute(db)
  await sql`update orders set next_check_at = ${soon()} where id = ${waiting}`.execute(db)
  await sql`update orders set conflict = 'amount' where id = ${doubtful}`.execute(db)
  await sql`insert into order_operations (id, order_id, client, kind, refund_type, amount_cents, state, created_at)
    values (${randomUUID()}, ${refunding}, 'acme', 'refund', 'partial', 1, 'unknown', now())`.execute(
    db,
  )
  await deleteOldData()
  const { rows } = await sql<{ id: string }>`
    select id from orders where id = any(${all}::uuid[])`.execute(db)
  expect(rows.map(({ id }) => id).toSorted()).toEqual(all.toSorted())
})

test('an order of a payment that an open case names is not deleted, whichever order the case is kept with', async () => {
  const { db } = service.database
  const [kept, second] = [await pay('CASE-1'), await pay('CASE-2')]
  const { payments } = await db
    .selectFrom('orders')
    .select('payments')
    .where('id', '=', second)
    .executeTakeFirstOrThrow()
  const named = JSON.stringify(['77', payments[0]?.referenceId])
  await sql`insert into chargebacks (id, client, mp_user_id, case_id, payment_id, payment_ids, order_id, state, found_at, next_read_at)
    values (${randomUUID()}, 'acme', 1, 'C-1', '77', ${named}::jsonb, ${kept}, 'open', now(), ${soon()})`.execute(
    db,
  )
  for (const id of [kept, second]) await age(id, 500)
  await deleteOldData()
  expect([await isThere(kept), await isThere(second)]).toEqual([true, true])
  await sql`update chargebacks set state = 'lost', next_read_at = null where case_id = 'C-1'`.execute(
    db,
  )
  await deleteOldData()
  expect([await isThere(kept), await isThere(second)]).toEqual([false, false])
})

test('calls and webhooks are deleted after their own time, in steps with pauses, and waiting webhooks stay', async () => {
  const { db } = service.database
  const id = await pay('CALLS')
  const ago = (days: number) => new Date(service.clock.now().getTime() - days * dayMs)
  await sql`insert into order_calls (order_id, client, kind, at, duration_ms, operation, caller, attempt)
    select ${id}, 'acme', 'provider', ${ago(6)}, 1, 'order.get', 'sweeper', 1 from generate_series(1, 2500)`.execute(
    db,
  )
  await sql`insert into webhook_log (id, signature_valid, status, received_at, next_attempt_at, topic)
    values (${randomUUID()}, true, 'processed', ${ago(11)}, null, 'old'),
      (${randomUUID()}, true, 'processed', ${ago(9)}, null, 'young'),
      (${randomUUID()}, true, 'received', ${ago(11)}, ${soon()}, 'waiting')`.execute(db)
  const pausesSoFar = () => service.sleeps.filter((ms) => ms >= 50).length
  const pauses = pausesSoFar()
  await deleteOldData()
  const old = await sql`select from order_calls where at < ${ago(5)}`.execute(db)
  expect(old.rows).toHaveLength(0)
  const { rows } = await sql<{ topic: string }>`
    select topic from webhook_log where topic in ('old', 'young', 'waiting') order by topic`.execute(
    db,
  )
  expect(rows.map(({ topic }) => topic)).toEqual(['waiting', 'young'])
  // At least three steps of calls, and one of each other kind.
  expect(pausesSoFar() - pauses).toBeGreaterThanOrEqual(6)
})
