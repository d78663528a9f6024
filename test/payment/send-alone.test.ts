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
} from '../../src/payments/operations/runner.ts'
import { insertOrder } from '../../src/repositories/orders/order-queries.ts'
import { latch } from '../flows/deliver-support.ts'
import { openTestDatabase } from '../support/database.ts'

const client = asClientName('acme')
let nowMs = Date.parse('2026-11-22T12:00:00Z')
const now = () => new Date(nowMs)

let database: Database
let deps: PaymentDeps
beforeAll(async () => {
  database = await openTestDatabase()
  await database.db.insertInto('clients').values({ name: client, created_at: now() }).execute()
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  deps = { database, now, log } as unknown as PaymentDeps
})
afterAll(() => database.close())
// The lease's own clock; time passes for it only when a test says so.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
afterEach(() => void vi.useRealTimers())

function pass(ms: number): void {
  nowMs += ms
  vi.advanceTimersByTime(ms)
}

/** A row whose creation is not confirmed. */
async function openRow(held?: ReturnType<typeof newLeaseColumns>): Promise<string> {
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
      ...held,
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
  held: NewLease | null = null,
) => {
  const lease = await takeSendLease(deps, { table: 'orders', id }, held)
  if (!lease) return undefined
  try {
    return { result: await work(lease) }
  } finally {
    await lease.release()
  }
}

/** Takes the lease, and keeps it until it is let go. */
async function hold(id: string) {
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
    async letGo() {
      end.open()
      await done
    },
  }
}

test('while one sends under a key nobody else does, however often he asks; then the next may', async () => {
  const id = await openRow()
  const first = await hold(id)
  const refused = await Promise.all([1, 2, 3].map(() => send(id, async () => 'sent')))
  expect(refused).toEqual([undefined, undefined, undefined])
  await first.letGo()
  expect(await send(id, async () => 'sent')).toEqual({ result: 'sent' })
  expect(await rowOf(id)).toMatchObject({ sender: null, sender_until: null })
})

test('a new row is its own request’s to send, and not to be taken', async () => {
  const held = newLeaseColumns(now())
  const id = await openRow(held)
  expect(await send(id, async () => 'sent')).toBeUndefined()
  const begun = { sender: held.sender, begunAt: now(), provenMs: performance.now() }
  const sent = await send(id, async ({ permit }) => (await permit()) !== undefined, begun)
  expect(sent).toEqual({ result: true })
})

test('a lease lasts as long as its work: it is prolonged while that goes on', async () => {
  const id = await openRow()
  const first = await hold(id)
  for (let thirds = 0; thirds < 9; thirds += 1) {
    pass(1_700)
    // A second statement of this process comes after the renewal.
    await vi.waitFor(async () =>
      expect((await rowOf(id)).sender_until?.getTime()).toBeGreaterThan(nowMs + 3_000),
    )
  }
  expect(await send(id, async () => 'sent')).toBeUndefined()
  await first.letGo()
})

test('T33: an attempt is noted right before it is sent, with the look that follows if it is never heard of', async () => {
  const id = await openRow()
  await send(id, async ({ permit }) => {
    expect(await rowOf(id)).toMatchObject({ unanswered_at: null, sent_at: null })
    expect((await permit())?.()).toBe(true)
    const row = await rowOf(id)
    expect([row.unanswered_at, row.sent_at]).toEqual([now(), now()])
    expect(row.next_check_at?.getTime()).toBe(nowMs + 6_000)
  })
})

test('who finds his lease taken over, or the order given up, sends nothing', async () => {
  const id = await openRow()
  const zombie = await hold(id)
  // It stood still, and its renewals with it.
  nowMs += 5_001
  const heir = await hold(id)
  expect(await zombie.lease.permit()).toBeUndefined()
  expect((await heir.lease.permit())?.()).toBe(true)
  await zombie.letGo()
  // What it gave back was not its own.
  expect((await rowOf(id)).sender).toBe(heir.lease.sender)
  await database.db
    .updateTable('orders')
    .set({ cancel_requested_at: now() })
    .where('id', '=', id)
    .execute()
  expect(await heir.lease.permit()).toBeUndefined()
  await heir.letGo()
})

test('a proof is good for one moment: at the first byte of a call that stood still it is none', async () => {
  const id = await openRow()
  await send(id, async ({ permit }) => {
    const isStillMine = await permit()
    pass(4_400)
    expect(isStillMine?.()).toBe(true)
    pass(200)
    expect(isStillMine?.()).toBe(false)
  })
})

test('an attempt that nobody answered stays noted, until every one after it is settled', async () => {
  const id = await openRow()
  await send(id, async ({ permit }) => void (await permit()))
  const lostAt = now()
  expect((await rowOf(id)).unanswered_at).toEqual(lostAt)
  pass(10_000)
  await send(id, async ({ unansweredAt, doubtfulAt, permit, settle }) => {
    expect([unansweredAt, doubtfulAt()]).toEqual([lostAt, lostAt])
    await permit()
    expect(doubtfulAt()).toEqual(now())
    settle()
    // This attempt is answered. The one that was lost before is not.
    expect(doubtfulAt()).toEqual(lostAt)
  })
  expect((await rowOf(id)).unanswered_at).toEqual(lostAt)
  const clean = await openRow()
  await send(clean, async ({ permit, settle }) => {
    await permit()
    settle()
  })
  expect((await rowOf(clean)).unanswered_at).toBeNull()
})

test('work that throws gives the lease back and keeps what is unanswered', async () => {
  const id = await openRow()
  const work = send(id, async ({ permit }) => {
    await permit()
    throw new Error('cut')
  })
  await expect(work).rejects.toThrow('cut')
  expect(await rowOf(id)).toMatchObject({ sender: null, unanswered_at: now() })
})
