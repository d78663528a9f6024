import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import type { PaymentDeps } from '../../src/payments/deps.ts'
import {
  type NewLease,
  newLeaseColumns,
  type SendLease,
  takeSendLease,
} from '../../src/payments/operations/send-lease.ts'
import { serviceContext } from '../../src/payments/request-context.ts'
import { insertOrder } from '../../src/repositories/orders/order-queries.ts'
import { latch } from '../flows/deliver-support.ts'
import { openTestDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'

const client = asClientName('acme')
let nowMs = Date.parse('2026-11-22T12:00:00Z')
const now = () => new Date(nowMs)

let database: Database
let deps: PaymentDeps
beforeAll(async () => {
  database = await openTestDatabase()
  await database.db.insertInto('clients').values({ name: client, created_at: now() }).execute()
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  deps = { database, now, log, stopwatch: () => nowMs } as unknown as PaymentDeps
})
afterAll(() => database.close())
// The lease has its own clock; a test advances it explicitly.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
afterEach(() => void vi.useRealTimers())

function pass(ms: number): void {
  nowMs += ms
  vi.advanceTimersByTime(ms)
}

/** A row whose creation is not confirmed. */
async function openRow(taken?: ReturnType<typeof newLeaseColumns>): Promise<string> {
  const id = randomUUID()
  await database.transaction((trx) =>
    insertOrder(trx, {
      id,
      client,
      caja_id: 'CAJA-1',
      sucursal_id: 'SUC-1',
      terminal_id: 'T1',
      mp_user_id: 2025701502,
      external_reference: id,
      mp_external_reference: id,
      reference_attempt: 1,
      amount_cents: 10_000,
      send_ticket_number: true,
      print_ticket: false,
      payment_method: 'all',
      expiration_minutes: 16,
      creation: 'intent',
      status: 'created',
      created_at: now(),
      last_updated_at: now(),
      expires_at: new Date(nowMs + 960_000),
      ...taken,
    }),
  )
  return id
}

const rowOf = (id: string) =>
  database.db
    .selectFrom('orders')
    .select(['sender', 'sender_until', 'unanswered_at', 'sent_at', 'next_check_at'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow()

const send = async <T>(
  id: string,
  work: (lease: SendLease) => Promise<T>,
  taken: NewLease | null = null,
) => {
  const row = { table: 'orders' as const, id, orderId: id }
  await using lease = await takeSendLease(deps, row, taken, serviceContext(deps, 'sweeper'))
  return lease && { result: await work(lease) }
}

/** Takes the lease and keeps it until `giveBack`. */
async function takeAndKeep(id: string) {
  const [begun, end] = [latch(), latch()]
  let lease: SendLease | undefined
  const done = send(id, async (own) => {
    lease = own
    begun.open()
    await end.opened
  })
  await begun.opened
  return {
    lease: lease as unknown as SendLease,
    async giveBack() {
      end.open()
      await done
    },
  }
}

test('while one request holds the lease of a key no other one gets it, however often it asks', async () => {
  const id = await openRow()
  const first = await takeAndKeep(id)
  const refused = await Promise.all([1, 2, 3].map(() => send(id, async () => 'sent')))
  expect(refused).toEqual([undefined, undefined, undefined])
  await first.giveBack()
  expect(await send(id, async () => 'sent')).toEqual({ result: 'sent' })
  expect(await rowOf(id)).toMatchObject({ sender: null, sender_until: null })
})

test('the request that creates a row has its lease; no other request takes it', async () => {
  const taken = newLeaseColumns(now())
  const id = await openRow(taken)
  expect(await send(id, async () => 'sent')).toBeUndefined()
  const begun = { sender: taken.sender, begunAt: now(), provenMs: performance.now() }
  const sent = await send(id, async ({ permit }) => (await permit()) !== undefined, begun)
  expect(sent).toEqual({ result: true })
})

test('a lease is renewed for as long as its work lasts', async () => {
  const id = await openRow()
  const first = await takeAndKeep(id)
  for (let thirds = 0; thirds < 9; thirds += 1) {
    pass(1_700)
    // Other statements of this process come after the renewal.
    await eventually(async () =>
      expect((await rowOf(id)).sender_until?.getTime()).toBeGreaterThan(nowMs + 3_000),
    )
  }
  expect(await send(id, async () => 'sent')).toBeUndefined()
  await first.giveBack()
})

test('T33: an attempt is recorded right before it is sent, with the status check that follows if no answer comes', async () => {
  const id = await openRow()
  await send(id, async ({ permit }) => {
    expect(await rowOf(id)).toMatchObject({ unanswered_at: null, sent_at: null })
    expect((await permit())?.()).toBe(true)
    const row = await rowOf(id)
    expect([row.unanswered_at, row.sent_at]).toEqual([now(), now()])
    expect(row.next_check_at?.getTime()).toBe(nowMs + 6_000)
  })
})

test('a request whose lease was taken over, or whose order is to be canceled, sends nothing', async () => {
  const id = await openRow()
  const expired = await takeAndKeep(id)
  // The process was suspended, and its renewals with it.
  nowMs += 5_001
  const successor = await takeAndKeep(id)
  expect(await expired.lease.permit()).toBeUndefined()
  expect((await successor.lease.permit())?.()).toBe(true)
  await expired.giveBack()
  // It released its own lease only, not the successor’s.
  expect((await rowOf(id)).sender).toBe(successor.lease.sender)
  await database.db
    .updateTable('orders')
    .set({ cancel_requested_at: now() })
    .where('id', '=', id)
    .execute()
  expect(await successor.lease.permit()).toBeUndefined()
  await successor.giveBack()
})

test('a permit is valid for a short time: a call that was suspended longer does not start', async () => {
  const id = await openRow()
  await send(id, async ({ permit }) => {
    const isStillMine = await permit()
    pass(4_400)
    expect(isStillMine?.()).toBe(true)
    pass(200)
    expect(isStillMine?.()).toBe(false)
  })
})

test('an attempt without an answer stays recorded until all later ones are settled', async () => {
  const id = await openRow()
  await send(id, async ({ permit }) => void (await permit()))
  const lostAt = now()
  expect((await rowOf(id)).unanswered_at).toEqual(lostAt)
  pass(10_000)
  await send(id, async (lease) => {
    expect([lease.unansweredAt, lease.doubtfulAt]).toEqual([lostAt, lostAt])
    await lease.permit()
    expect(lease.doubtfulAt).toEqual(now())
    lease.settle()
    // This attempt was answered; the earlier one was not.
    expect(lease.doubtfulAt).toEqual(lostAt)
  })
  expect((await rowOf(id)).unanswered_at).toEqual(lostAt)
  const clean = await openRow()
  await send(clean, async (lease) => {
    await lease.permit()
    lease.settle()
  })
  expect((await rowOf(clean)).unanswered_at).toBeNull()
})

test('work that throws releases the lease and keeps the attempt recorded as unanswered', async () => {
  const id = await openRow()
  const work = send(id, async ({ permit }) => {
    await permit()
    throw new Error('cut')
  })
  await expect(work).rejects.toThrow('cut')
  expect(await rowOf(id)).toMatchObject({ sender: null, unanswered_at: now() })
})
