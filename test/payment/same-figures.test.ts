import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { orderStatuses } from '../../src/domain/order.ts'
import { decisionOf, doubtAfterMs } from '../../src/domain/order-state.ts'
import { listBoxCharges, listUndecided } from '../../src/repositories/fleet/fleet-observations.ts'
import { deleteOldOrders } from '../../src/repositories/orders/old-orders.ts'
import type { OrderRow } from '../../src/repositories/orders/order-queries.ts'
import {
  listInDoubt,
  listPaidAfterClose,
} from '../../src/repositories/statistics/order-statistics.ts'
import { insertOrders } from '../support/insert-orders.ts'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, charge, type Till } from '../support/till.ts'

/** Two places that show the same number use one condition: each is compared over all states that an order can have. */
let service: TestService
let shop: Till
const client = asClientName('acme')
let rows: OrderRow[]

beforeAll(async () => {
  service = await startTestService()
  shop = await openOwnShop(service, 'acme')
  expect((await charge(service, shop, { reference: 'FIRST' })).statusCode).toBe(201)
  rows = await copyCrossed()
}, 60_000)
afterAll(() => service.stop())

function crossed(parts: Record<string, unknown[]>): Record<string, unknown>[] {
  let all: Record<string, unknown>[] = [{}]
  for (const [key, values] of Object.entries(parts)) {
    all = all.flatMap((one) => values.map((value) => ({ ...one, [key]: value })))
  }
  return all
}

/** Copies of the first order, each at a box of its own, with every combination that the database accepts. */
async function copyCrossed(): Promise<OrderRow[]> {
  const now = service.clock.now()
  const ago = (ms: number) => new Date(now.getTime() - ms)
  const changes = crossed({
    status: [...orderStatuses],
    creation: ['intent', 'unknown', 'confirmed', 'refused'],
    conflict: [null, 'amount'],
    paid_after_close: [true, false],
    settled_as: [null, 'paid', 'not_paid'],
    money: [
      [0, 0],
      [100, 0],
      [100, 100],
      [300, 100],
      [300, 300],
    ],
    created_at: [ago(1_000), ago(doubtAfterMs), ago(10 * doubtAfterMs)],
  })
    .filter(({ creation, status }) => creation !== 'refused' || status === 'failed')
    .filter((_, index) => index % 5 === 0)
    .map(({ money, ...row }, index) => {
      const [paid_cents, refunded_cents] = money as [number, number]
      const id = randomUUID()
      return {
        ...row,
        id,
        paid_cents,
        refunded_cents,
        amount_cents: 300,
        caja_id: `BOX-${index}`,
        mp_order_id: `ORD${id}`,
        mp_external_reference: id,
        next_check_at: null,
        external_reference: `CROSSED-${index}`,
        ...(row.settled_as !== null && { settled_at: now, settled_reason: 'x' }),
        ...(index % 11 === 0 && { refund_unclear: 'x' }),
      }
    })
  const { db } = service.database
  await insertOrders(
    db,
    sql`select (jsonb_populate_record(first, change)).* from orders as first,
      jsonb_array_elements(${JSON.stringify(changes)}::jsonb) as change
    where first.external_reference = 'FIRST'`,
  )
  return db
    .selectFrom('orders')
    .selectAll()
    .where('external_reference', 'like', 'CROSSED-%')
    .execute()
}

const namesOf = (found: readonly { externalReference: string }[]) =>
  found.map(({ externalReference }) => externalReference).toSorted()
const isRefundInDoubt = (order: OrderRow) => order.refund_unclear !== null
const decisionIn = (order: OrderRow) => decisionOf({ ...order, surplus: null })
const expected = (rule: (order: OrderRow) => boolean) =>
  rows
    .filter(rule)
    .map((order) => order.external_reference)
    .toSorted()

/** A charge is in doubt while no person has settled it: unconfirmed for some time, or contradicted. */
function doubtIn({ creation, created_at: createdAt, conflict, settled_as: settled }: OrderRow) {
  if (settled !== null) return null
  const isOld = service.clock.now().getTime() - createdAt.getTime() >= doubtAfterMs
  if (isOld && (creation === 'intent' || creation === 'unknown')) return 'in_doubt'
  return conflict === null ? null : 'contradicted'
}

test('the statistics and the state of the box agree on which orders are in doubt', {
  tags: ['long'],
}, async () => {
  const now = service.clock.now()
  const before = new Date(now.getTime() - doubtAfterMs)
  const { db } = service.database
  const found = await listInDoubt(db, { client, before, limit: 10_000 })
  const inDoubt = expected((order) => isRefundInDoubt(order) || doubtIn(order) !== null)
  expect(namesOf(found)).toEqual(inDoubt)
  expect(inDoubt.length).toBeGreaterThan(100)

  // Each order stands at a box of its own.
  await sql`insert into pos select (jsonb_populate_record(first, jsonb_build_object('id', gen_random_uuid(),
      'external_id', caja_id, 'mp_pos_id', caja_id, 'mp_external_id', caja_id))).*
    from orders join pos as first on first.id = (select id from pos limit 1)
    where external_reference like 'CROSSED-%'`.execute(db)
  const charges = await listBoxCharges(db, { limit: 1, doubtBefore: before }, { client })
  const doubts = new Map(charges.map(({ reference, doubt }) => [reference, doubt]))
  for (const order of rows) {
    expect([order, doubts.get(order.external_reference)]).toEqual([order, doubtIn(order)])
  }
})

test('order, statistics, state of the box and deletion agree on what needs a decision', async () => {
  const { db } = service.database
  const longAgo = new Date(0)
  const later = new Date(service.clock.now().getTime() + 3_600_000)
  const undecided = await listUndecided(db, longAgo, client)
  const decisions = new Map(undecided.map((one) => [one.reference, one.decision]))
  for (const order of rows) {
    const decision = isRefundInDoubt(order) ? 'refund_in_doubt' : (decisionIn(order) ?? undefined)
    expect([order, decisions.get(order.external_reference)]).toEqual([order, decision])
  }

  const late = await listPaidAfterClose(db, { from: longAgo, to: later }, 10_000)
  expect(namesOf(late)).toEqual(expected((order) => decisionIn(order) === 'paid_late'))

  let kept: { external_reference: string }[] = []
  const undone = new Error('rolled back, since other tests need the orders')
  const work = service.database.transaction(async (trx) => {
    await trx.deleteFrom('idempotency_keys').execute()
    const deleted = await deleteOldOrders(trx, later, 10_000)
    expect(deleted).toBeGreaterThan(100)
    kept = await trx.selectFrom('orders').select('external_reference').execute()
    throw undone
  })
  await expect(work).rejects.toBe(undone)
  const names = new Set(kept.map((order) => order.external_reference))
  expect(
    expected((order) => decisionIn(order) !== null).filter((name) => !names.has(name)),
  ).toEqual([])
})

test('the overview counts all boxes, also beyond the limit of boxes in an answer', {
  tags: ['long'],
}, async () => {
  const { db } = service.database
  await sql`insert into pos select (jsonb_populate_record(first, jsonb_build_object(
      'id', gen_random_uuid(), 'external_id', 'MANY-' || n, 'mp_pos_id', 'MANY-' || n, 'mp_external_id', 'MANY-' || n))).*
    from pos as first, generate_series(1, 2010) as n
    where first.id = (select id from pos limit 1)`.execute(db)
  const from = new Date(service.clock.now().getTime() - 3_600_000).toISOString()
  const overview = await call(service, { url: `/overview?from=${from}`, token: shop.key })
  expect(overview.statusCode, overview.body).toBe(200)
  const fleet = await call(service, { url: '/health/fleet', token: shop.key })
  const states: { state: string }[] = fleet.json().boxes
  expect(overview.json().box_counts).toEqual({
    total: states.length,
    ok: states.filter(({ state }) => state === 'ok').length,
  })
  expect(states.length).toBeGreaterThan(2000)
})
