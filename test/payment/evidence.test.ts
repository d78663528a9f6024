import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import { type OrderEvidence, type OrderStatus, orderStatuses } from '../../src/domain/order.ts'
import { canMove } from '../../src/domain/order-state.ts'
import { outcomeOf } from '../../src/errors/money-outcome.ts'
import { createLogger } from '../../src/http/logging.ts'
import type { PaymentDeps } from '../../src/payments/deps.ts'
import { nextCheck } from '../../src/payments/orders/check-and-retry-times.ts'
import { providerAnswered } from '../../src/payments/orders/decide.ts'
import { moveOrder } from '../../src/payments/orders/state.ts'
import { createStatusCheckNotes } from '../../src/payments/process/status-check-notes.ts'
import {
  findOrderOfAnyClient,
  insertOrder,
  type OrderRow,
} from '../../src/repositories/orders/order-queries.ts'
import { openTestDatabase } from '../support/database.ts'
import { rounds } from '../support/rounds.ts'

const amountCents = 10_000
const client = asClientName('acme')
const mpUserId = 2025701502
const start = new Date('2026-11-20T12:00:00Z')

let database: Database
let deps: Pick<PaymentDeps, 'database' | 'now' | 'recordMove' | 'startedAt' | 'statusChecks'>
beforeAll(async () => {
  database = await openTestDatabase()
  const statusChecks = createStatusCheckNotes(database, start, () => start, createLogger('silent'))
  deps = { database, now: () => start, recordMove: () => undefined, startedAt: start, statusChecks }
  await database.db.insertInto('clients').values({ name: client, created_at: start }).execute()
})
afterAll(() => database.close())

/** The table of legal moves; one step may stand for several that the service did not observe. */
const steps: Record<OrderStatus, readonly OrderStatus[]> = {
  created: ['at_terminal', 'processed', 'canceled', 'failed', 'expired', 'action_required'],
  at_terminal: ['processed', 'canceled', 'failed', 'expired', 'action_required'],
  action_required: ['processed', 'failed', 'canceled', 'expired'],
  processed: ['partially_refunded', 'refunded'],
  partially_refunded: ['refunded'],
  refunded: [],
  canceled: [],
  failed: [],
  expired: [],
}

function reaches(from: OrderStatus, to: OrderStatus): boolean {
  return steps[from].some((next) => next === to || reaches(next, to))
}

test('a move is legal exactly when the table of moves reaches it', () => {
  for (const from of orderStatuses) {
    for (const to of orderStatuses) {
      expect(canMove(from, to), `${from} to ${to}`).toBe(reaches(from, to))
    }
  }
})

test('an open order is checked again at growing intervals, an ended one never', () => {
  const row = (status: OrderStatus) => ({
    status,
    created_at: start,
    last_updated_at: start,
    expires_at: new Date(start.getTime() + 960_000),
    cancel_requested_at: null,
    creation: 'confirmed' as const,
    unanswered_at: null,
    refunds: [],
    refunded_cents: 0,
  })
  const waitAt = (ageMs: number) => {
    const now = new Date(start.getTime() + ageMs)
    const at = nextCheck(row('created'), now)
    return at === null ? null : at.getTime() - now.getTime()
  }
  const waits = [0, 60_000, 300_000, 900_000, 1_000_000, 3600_000].map((age) => waitAt(age) ?? 0)
  expect(waits[0]).toBeLessThanOrEqual(2_000)
  expect(waits).toEqual(waits.toSorted((a, b) => a - b))
  expect(waits.at(-1)).toBeLessThanOrEqual(300_000)
  for (const status of orderStatuses) {
    const isOpen = ['created', 'at_terminal', 'action_required'].includes(status)
    expect(nextCheck(row(status), start) !== null, status).toBe(isOpen)
  }
})

const paidStatuses: readonly (OrderStatus | null)[] = [
  'processed',
  'partially_refunded',
  'refunded',
]
const finals: readonly OrderStatus[] = ['canceled', 'failed', 'expired', 'refunded']

type ReportedState = {
  status: OrderStatus | null
  refundedCents: number
  flaw: 'none' | 'amount' | 'reference' | 'account' | 'id'
}

const reportedState: fc.Arbitrary<ReportedState> = fc.record({
  status: fc.option(fc.constantFrom(...orderStatuses), { freq: 12 }),
  refundedCents: fc.integer({ min: 1, max: amountCents - 1 }),
  flaw: fc.oneof(
    { weight: 9, arbitrary: fc.constant('none' as const) },
    { weight: 1, arbitrary: fc.constantFrom('amount', 'reference', 'account', 'id') },
  ),
})

function evidenceOf(
  order: OrderRow,
  { status, refundedCents, flaw }: ReportedState,
): OrderEvidence {
  const isPaid = paidStatuses.includes(status)
  const returned =
    status === 'refunded' ? amountCents : status === 'partially_refunded' ? refundedCents : 0
  return {
    mpOrderId: flaw === 'id' ? `ORDX${order.id}` : `ORD${order.id}`,
    mpUserId: flaw === 'account' ? '1' : String(mpUserId),
    externalReference: flaw === 'reference' ? 'another' : order.mp_external_reference,
    terminalId: order.terminal_id,
    status,
    providerStatus: status ?? 'quantum',
    statusDetail: status,
    amountCents: flaw === 'amount' ? amountCents + 1 : amountCents,
    paidCents: isPaid ? amountCents : 0,
    refundedCents: returned,
    payments: [],
    refunds: returned === 0 ? [] : [refundOf(returned)],
    updatedAt: null,
  }
}

function refundOf(cents: number) {
  return {
    id: `REF${cents}`,
    transactionId: null,
    referenceId: null,
    amountCents: cents,
    status: 'processed',
  }
}

async function newOrder(): Promise<OrderRow> {
  const id = randomUUID()
  return database.transaction((trx) =>
    insertOrder(trx, {
      id,
      client,
      caja_id: 'CAJA-1',
      sucursal_id: 'SUC-1',
      terminal_id: 'T1',
      mp_user_id: mpUserId,
      external_reference: id,
      mp_external_reference: id,
      reference_attempt: 1,
      amount_cents: amountCents,
      send_ticket_number: true,
      print_ticket: false,
      payment_method: 'all',
      expiration_minutes: 16,
      creation: 'intent',
      status: 'created',
      created_at: start,
      last_updated_at: start,
      expires_at: new Date(start.getTime() + 960_000),
    }),
  )
}

async function applyState(orderId: string, reported: ReportedState, atMs: number) {
  const { db } = database
  const known = await requireRow(orderId)
  let before = known
  const at = { ...deps, now: () => new Date(start.getTime() + atMs) }
  const moved = await moveOrder(at, db, known, 'webhook', (order) => {
    before = order
    return providerAnswered(evidenceOf(order, reported))
  })
  return { before, ...moved }
}

async function requireRow(id: string): Promise<OrderRow> {
  return (await findOrderOfAnyClient(database.db, id)) as OrderRow
}

test('T30, T45: for evidence in any order states follow the table, money never shrinks, conflicts stay visible', {
  tags: ['long'],
}, async () => {
  const property = fc.asyncProperty(
    fc.array(reportedState, { minLength: 1, maxLength: 8 }),
    async (all) => {
      const { id } = await newOrder()
      let changes = 0
      for (const [index, reported] of all.entries()) {
        const { before, order: after, changed } = await applyState(id, reported, index * 1000)
        changes += Number(changed)
        expect(after.version).toBe(before.version + Number(changed))
        if (after.status !== before.status) {
          expect(reaches(before.status, after.status)).toBe(true)
          expect(after.status).toBe(reported.status)
        }
        if (finals.includes(before.status)) expect(after.status).toBe(before.status)
        if (reported.status === null) expect(after.status).toBe(before.status)
        expect(after.refunded_cents).toBeGreaterThanOrEqual(before.refunded_cents)
        if (before.paid_after_close) expect(after.paid_cents).toBe(before.paid_cents)
        // The first reported id is the order's; another one after it contradicts.
        const { mpOrderId } = evidenceOf(before, reported)
        const isFlawed =
          (before.mp_order_id ?? mpOrderId) !== mpOrderId || !['none', 'id'].includes(reported.flaw)
        if (isFlawed) {
          const { conflict, standing, version, last_updated_at, next_check_at, ...rest } = after
          expect(conflict).not.toBeNull()
          expect(before).toMatchObject(rest)
        } else if (paidStatuses.includes(reported.status)) {
          const isClosed = ['canceled', 'failed', 'expired'].includes(before.status)
          expect(after.paid_after_close).toBe(before.paid_after_close || isClosed)
          expect(after.paid_cents).toBe(amountCents)
          // An old answer does not take back what contradicts our record.
          if (after.conflict === null) {
            expect(outcomeOf(after)).toBe(
              after.refunded_cents < amountCents ? 'charged' : 'not_charged',
            )
          } else expect(outcomeOf(after)).toBe('unknown')
        }
        // The same evidence again changes nothing.
        expect((await applyState(id, reported, index * 1000 + 1)).changed).toBe(false)
      }
      const events = await database.db
        .selectFrom('order_events')
        .selectAll()
        .where('order_id', '=', id)
        .orderBy('id')
        .execute()
      expect(events.map((event) => event.version)).toEqual(
        Array.from({ length: changes }, (_, index) => index + 2),
      )
      events.forEach((event, index) => {
        expect(event.from_status).toBe(events[index - 1]?.to_status ?? 'created')
      })
    },
  )
  await fc.assert(property, { numRuns: rounds(125) })
})

test('evidence that webhook, sweeper and client apply at once ends like evidence applied in sequence', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { id } = await newOrder()
    const reported = (['at_terminal', 'processed', 'refunded', 'canceled'] as const).map(
      (status) => ({
        status,
        refundedCents: 1,
        flaw: 'none' as const,
      }),
    )
    await applyState(id, { status: 'created', refundedCents: 1, flaw: 'none' }, 0)
    const results = await Promise.all(reported.map((each, index) => applyState(id, each, index)))
    const last = await database.db
      .selectFrom('orders')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    expect(last.version).toBe(2 + results.filter((result) => result.changed).length)
    expect(finals).toContain(last.status)
    if (last.status === 'canceled') expect(last.paid_after_close).toBe(true)
    expect([last.paid_cents, last.refunded_cents]).toEqual([amountCents, amountCents])
  }
})

const notCreated = { kind: 'not_created' as const, code: 'invalid', unansweredAt: null }

async function close(id: string): Promise<OrderRow> {
  const known = await requireRow(id)
  const { order } = await moveOrder(deps, database.db, known, 'sweeper', notCreated)
  return order
}

test('proof that an order does not exist closes only an open creation', async () => {
  const { id } = await newOrder()
  expect(await close(id)).toMatchObject({ status: 'failed', status_detail: 'not_created' })
  expect((await close(id)).version).toBe(2)
  const confirmed = await newOrder()
  await applyState(confirmed.id, { status: 'created', refundedCents: 1, flaw: 'none' }, 0)
  expect(await close(confirmed.id)).toMatchObject({
    status: 'created',
    creation: 'confirmed',
    version: 2,
  })
})

test('a move decided on an outdated order is decided again on the current one', async () => {
  const known = await newOrder()
  const { db } = database
  await applyState(known.id, { status: 'processed', refundedCents: 1, flaw: 'none' }, 0)
  const seen: (string | null)[] = []
  const { order, changed } = await moveOrder(deps, db, known, 'sweeper', (current) => {
    seen.push(current.mp_order_id)
    return notCreated
  })
  expect(changed).toBe(false)
  expect(seen).toEqual([null, expect.any(String)])
  expect(order).toMatchObject({ status: 'processed', creation: 'confirmed', version: 2 })
})

const creationUnknown = { kind: 'creation_unknown' as const }

test('a move keeps a cancel request and a new attempt that were recorded meanwhile', async () => {
  const { db } = database
  const canceled = await newOrder()
  await moveOrder(deps, db, canceled, 'api', { kind: 'cancel_requested' })
  const { order: given } = await moveOrder(deps, db, canceled, 'sweeper', creationUnknown)
  expect(given).toMatchObject({ creation: 'unknown', cancel_requested_at: start, version: 3 })
  const sent = await newOrder()
  const attempt = { unanswered_at: start }
  await db.updateTable('orders').set(attempt).where('id', '=', sent.id).execute()
  const { order } = await moveOrder(deps, db, sent, 'sweeper', creationUnknown)
  expect(order).toMatchObject({ creation: 'unknown', ...attempt })
})
