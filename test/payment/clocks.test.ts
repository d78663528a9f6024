import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { createAccountPauses } from '../../src/payments/operations/account-queues.ts'
import { createOrder } from '../../src/payments/orders/charge.ts'
import { nextCheck } from '../../src/payments/orders/check-and-retry-times.ts'
import { createForeignOrders } from '../../src/payments/process/foreign-orders.ts'
import { requestContext } from '../../src/payments/request-context.ts'
import { ProviderError } from '../../src/provider/provider.ts'
import { furthestMs } from '../../src/repositories/due-work.ts'
import { type LeaseToken, leaseMs, releaseLease, takeLease } from '../../src/repositories/leases.ts'
import {
  clearFaults,
  creation,
  deliver,
  forgetRequests,
  openOwnShop,
  operationsOf,
  orderRow,
  ordersAtProvider,
  providerRequests,
  refund,
  refunding,
  retireShops,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard } from '../support/till.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** Two processes on one database, each with its own estimate of the time, as in production. */
let service: TestService
let duplicate: TestService
beforeAll(async () => {
  service = await startTestService({ ownTime: true })
  duplicate = await startTestService({ twinOf: service, ownTime: true })
})
afterAll(async () => {
  await duplicate.stop()
  await service.stop()
})
afterEach(async () => {
  await retireShops(service)
  vi.useRealTimers()
  // The clock of the embedded database is the wall clock: each process must measure it again.
  for (const { deps, database } of [service, duplicate]) {
    await expect
      .poll(async () => Math.abs(deps.now().getTime() - (await database.clockMs())))
      .toBeLessThan(1_000)
  }
  await clearFaults(service)
})

/** Sets the wall clock of this host wrong by so much. It runs on. */
function setWallClock(offMs: number): void {
  vi.useRealTimers()
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + offMs, shouldAdvanceTime: true })
}

/** The embedded database has one host only, so its wall clock is that of the database. */
const hasHosts = () => service.database.engine === 'postgres'

async function aheadOfDatabaseMs(at: Date | null): Promise<number> {
  return (at?.getTime() ?? Number.NaN) - (await service.database.clockMs())
}

test('a process whose host is ten minutes ahead cancels no charge before its time', async () => {
  const till = await openOwnShop(service, 'early host')
  const { order_id } = (await charge(service, till, { reference: 'K-1' })).json()
  const { expiration_minutes } = await orderRow(service, order_id)
  setWallClock(hasHosts() ? (expiration_minutes + 2) * minuteMs : 0)
  await service.database.db
    .updateTable('orders')
    .set({ next_check_at: new Date(0) })
    .where('id', '=', order_id)
    .execute()
  await duplicate.sweeper.sweepOnce()
  expect(await orderRow(service, order_id)).toMatchObject({ status: 'created', checks: 1 })
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'created' }])
})

test('a lease of a process ten minutes ahead ends no later than any other when the process crashes', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'crashed ahead')
  await setFaults(service, { ...creation, kind: 'latency', delay_ms: 300, count: 1 })
  await forgetRequests(service)
  setWallClock(hasHosts() ? 10 * minuteMs : 0)
  const charging = charge(service, till, { reference: 'K-2' })
  await expect.poll(async () => (await providerRequests(service, creation)).length).not.toBe(0)
  const [row] = await service.database.db
    .selectFrom('orders')
    .select(['sender_until', 'next_check_at', 'expires_at'])
    .where('client', '=', till.client as never)
    .execute()
  expect(await aheadOfDatabaseMs(row?.sender_until ?? null)).toBeLessThan(30_000)
  expect(await aheadOfDatabaseMs(row?.next_check_at ?? null)).toBeLessThan(30_000)
  expect((await charging).statusCode).toBe(201)
})

test('orders are checked as before after the wall clock is set back by an hour', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'set back')
  const { order_id } = (await charge(service, till, { reference: 'K-3' })).json()
  await act(service, order_id, payByCard)
  setWallClock(-hourMs)
  const settled = async () => {
    await service.sweeper.sweepOnce()
    return (await orderRow(service, order_id)).status
  }
  await expect.poll(settled, { interval: 100, timeout: 6_000 }).toBe('processed')
})

test('checks planned before the database clock was set back are due', async () => {
  const till = await openOwnShop(service, 'planned far')
  const ahead = new Date((await service.database.clockMs()) + hourMs)
  const { db } = service.database

  const { order_id } = (await charge(service, till, { reference: 'K-4' })).json()
  await act(service, order_id, payByCard)
  const planned = { next_check_at: ahead, sender: order_id, sender_until: ahead }
  await db.updateTable('orders').set(planned).where('id', '=', order_id).execute()
  await service.sweeper.sweepOnce()
  expect(await orderRow(service, order_id)).toMatchObject({ status: 'processed' })

  await setFaults(service, { ...refunding, kind: 'drop_before' })
  expect((await refund(service, till, order_id)).statusCode).toBe(504)
  await clearFaults(service)
  await db
    .updateTable('order_operations')
    .set({ next_attempt_at: ahead, sender: order_id, sender_until: ahead })
    .where('order_id', '=', order_id)
    .execute()
  await duplicate.sweeper.sweepOnce()
  expect(await operationsOf(service, order_id)).toMatchObject([{ state: 'done' }])
})

test('a webhook whose next attempt was planned before the clock was set back is processed', async () => {
  const ahead = new Date((await service.database.clockMs()) + hourMs)
  await deliver(service, { dataId: 'ORD00000000000000000000000000' })
  const { db } = service.database
  const { id } = await db
    .updateTable('webhook_log')
    .set({ status: 'received', next_attempt_at: ahead })
    .returning('id')
    .executeTakeFirstOrThrow()
  await service.sweeper.sweepOnce()
  const after = await db
    .selectFrom('webhook_log')
    .select('next_attempt_at')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  expect(after.next_attempt_at).toBeNull()
})

test('a clock that is set back during a request does not extend its deadline', async () => {
  const till = await openOwnShop(service, 'set back meanwhile')
  const agoMs = 23_500
  const actor = {
    ipAddress: null,
    startedAt: new Date(service.deps.now().getTime() - agoMs),
  }
  const context = requestContext(actor, service.deps.stopwatch() - agoMs)
  const deps = { ...service.deps, now: () => new Date(service.deps.now().getTime() - hourMs) }
  const request = {
    cajaId: 'CAJA-1',
    externalReference: 'K-5',
    amountCents: 10_00,
    description: null,
    ticketNumber: null,
    printTicket: false,
    paymentMethod: 'all' as const,
    expirationMinutes: 15,
  }
  await expect(
    createOrder(deps, asClientName(till.client), request, undefined, context),
  ).rejects.toMatchObject({ code: 'PROVIDER_TIMEOUT', extra: { outcome: 'not_charged' } })
  expect(ordersAtProvider(service, till)).toEqual([])
})

test('a lease from before the clock was set back can be taken, also after it was released', async () => {
  const before = new Date((await service.database.clockMs()) + hourMs)
  const take = (name: string, owner: string, now: Date) =>
    takeLease(service.database, { name, owner, now })
  for (const isGivenBack of [false, true]) {
    const name = `set back ${isGivenBack}`
    const first = (await take(name, 'one', before)) as LeaseToken
    if (isGivenBack) await releaseLease(service.database.db, first)
    const second = await take(name, 'two', service.deps.now())
    expect(second?.token).toBe(first.token + 1)
  }
  const now = service.deps.now()
  await take('taken', 'one', now)
  expect(await take('taken', 'two', now)).toBeUndefined()
  const almostOver = new Date(now.getTime() + leaseMs - 1)
  expect(await take('taken', 'two', almostOver)).toBeUndefined()
  expect(await take('taken', 'two', new Date(now.getTime() + leaseMs))).toMatchObject({ token: 2 })
})

test('no status check is planned so far ahead that it looks like one from before the clock was set back', () => {
  const createdAt = new Date('2026-11-22T12:00:00Z')
  const expiresAt = new Date(createdAt.getTime() + 180 * minuteMs)
  const order = {
    status: 'created' as const,
    created_at: createdAt,
    last_updated_at: createdAt,
    expires_at: expiresAt,
    cancel_requested_at: null,
    creation: 'confirmed' as const,
    unanswered_at: createdAt,
    refunds: [],
    refunded_cents: 0,
  }
  const pending = {
    id: 'REF1',
    transactionId: null,
    referenceId: null,
    amountCents: 100,
    status: 'processing',
  }
  const planned = [
    order,
    { ...order, status: 'failed' as const, creation: 'refused' as const },
    { ...order, status: 'refunded' as const, refunds: [pending], refunded_cents: 100 },
  ]
  let furthest = 0
  for (let ageMs = 0; ageMs < 30 * hourMs; ageMs += 20_000) {
    const now = new Date(createdAt.getTime() + ageMs)
    for (const answered of [true, false]) {
      for (const row of planned) {
        const next = nextCheck(row, now, answered)
        if (next) furthest = Math.max(furthest, next.getTime() - now.getTime())
      }
    }
  }
  expect(furthest).toBeGreaterThan(0)
  expect(furthest).toBeLessThan(furthestMs.statusCheck)
})

test('of two processes whose hosts are 15 s apart one renews a connection, and neither loses it', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'renewed apart')
  const renewing = { path: '/oauth/token', method: 'POST' }
  await forgetRequests(service)
  await setFaults(service, { ...renewing, kind: 'latency_after', delay_ms: 400, count: 1 })
  const refresh = (process: TestService) =>
    call(process, { method: 'POST', url: '/oauth/refresh', token: till.key })
  const first = refresh(service)
  await expect.poll(async () => (await providerRequests(service, renewing)).length).toBe(1)
  setWallClock(hasHosts() ? 15_000 : 0)
  // Sleeps take no time here, so it may have stopped waiting.
  expect([200, 503]).toContain((await refresh(duplicate)).statusCode)
  expect((await first).statusCode).toBe(200)
  expect(await providerRequests(service, renewing)).toHaveLength(1)
  expect((await refresh(duplicate)).statusCode).toBe(200)
})

test('the memory of paused accounts and foreign orders expires in time, also after the clock was set back', () => {
  const before = service.deps.now()
  const limited = new ProviderError({
    kind: 'rate_limited',
    effect: 'none',
    status: 429,
    failure: null,
    providerCode: null,
    codes: [],
    providerMessage: null,
    retryAfterSeconds: 30,
    requestId: null,
    attempts: 1,
  })
  const pauses = createAccountPauses()
  pauses.note(1, limited, before)
  const foreign = createForeignOrders()
  foreign.add('ORD1', null, before, minuteMs)
  expect([pauses.pausedUntil(1, before), foreign.has('ORD1', null, before)]).toEqual([
    new Date(before.getTime() + 30_000),
    true,
  ])
  const after = new Date(before.getTime() - hourMs)
  expect([pauses.pausedUntil(1, after), foreign.has('ORD1', null, after)]).toEqual([
    undefined,
    false,
  ])
  pauses.note(1, limited, after)
  expect(pauses.pausedUntil(1, after)).toEqual(new Date(after.getTime() + 30_000))
})
