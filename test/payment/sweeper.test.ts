import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { insertDueRows } from '../support/due.ts'
import {
  cancel,
  canceling,
  clearFaults,
  creation,
  forgetRequests,
  openOwnShop,
  operationsOf,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  refund,
  refunding,
  retireShops,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '2000' } })
})
afterAll(() => service.stop())
afterEach(async () => {
  await retireShops(service)
  await clearFaults(service)
  // The next test sweeps its own orders only.
  await service.database.db.updateTable('orders').set({ next_check_at: null }).execute()
  // Longer than any pause of an account.
  service.clock.advance(150_000)
})

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'W-1' })).json()
  return { till, orderId: order_id as string }
}

async function reads(till: Till): Promise<number> {
  const all = await providerRequests(service, reading)
  return all.filter((request) => request.user_id === till.mpUserId).length
}

async function readsOfSweep(till: Till, ms: number): Promise<number> {
  await forgetRequests(service)
  await sweepAfter(service, ms)
  return reads(till)
}

test('an order that waits is checked every 2 seconds at first, then every 5, then every 15', async () => {
  const { till } = await openOrder('intervals')
  expect(await readsOfSweep(till, 2_100)).toBe(1)
  expect(await readsOfSweep(till, 1_000)).toBe(0)
  expect(await readsOfSweep(till, 1_100)).toBe(1)
  expect(await readsOfSweep(till, 150_000)).toBe(1)
  expect(await readsOfSweep(till, 4_000)).toBe(0)
  expect(await readsOfSweep(till, 1_100)).toBe(1)
  expect(await readsOfSweep(till, 500_000)).toBe(1)
  expect(await readsOfSweep(till, 14_000)).toBe(0)
  expect(await readsOfSweep(till, 1_100)).toBe(1)
})

test('a payment without a webhook, and an expiry, are found; then the order is not checked any more', {
  tags: ['long'],
}, async () => {
  const paid = await openOrder('no webhook')
  const expired = await openOrder('expires')
  await act(service, paid.orderId, payByCard)
  await sweepAfter(service, 2_100)
  expect((await orderRow(service, paid.orderId)).status).toBe('processed')
  await sweepAfter(service, 17 * 60_000)
  expect(await orderRow(service, expired.orderId)).toMatchObject({
    status: 'expired',
    next_check_at: null,
  })
  expect(await readsOfSweep(paid.till, 3600_000)).toBe(0)
  expect(await reads(expired.till)).toBe(0)
})

test('an order that ended during its status check is not checked again', async () => {
  const { orderId } = await openOrder('ended meanwhile')
  await act(service, orderId, { do: 'cancel' })
  await sweepAfter(service, 2_100)
  await service.database.db
    .updateTable('orders')
    .set({ next_check_at: service.clock.now() })
    .where('id', '=', orderId)
    .execute()
  await sweepAfter(service, 0)
  expect(await orderRow(service, orderId)).toMatchObject({
    status: 'canceled',
    next_check_at: null,
  })
})

test('an account that got a 429 is not called until its Retry-After has passed; others are', async () => {
  const limited = await openOrder('limited')
  const other = await openOrder('unlimited')
  await (await insertDueRows(service, limited.orderId)).orders(18)
  const path = ordersAtProvider(service, other.till)[0]?.id ?? ''
  await setFaults(service, {
    path: `^/v1/orders/ORD(?!${path.slice(3)})`,
    method: 'GET',
    kind: '429',
    retry_after: 30,
  })
  await forgetRequests(service)
  await sweepAfter(service, 2_100)
  // The calls that were running at the first 429, once each.
  const asked = await reads(limited.till)
  expect(asked).toBeGreaterThanOrEqual(1)
  expect(asked).toBeLessThanOrEqual(16)
  expect(await reads(other.till)).toBe(1)
  expect(await readsOfSweep(limited.till, 25_000)).toBe(0)
  expect(await reads(other.till)).toBe(1)
  await clearFaults(service)
  expect(await readsOfSweep(limited.till, 6_000)).toBe(19)
})

test('a failing provider gets few calls, and all orders are settled within 10 seconds after it answers again', {
  tags: ['long'],
}, async () => {
  const shops = await Promise.all(
    ['one', 'two', 'three'].map((name) => openOwnShop(service, `outage ${name}`)),
  )
  const [first, second, third] = shops as unknown as [Till, Till, Till]
  const paid = (await charge(service, second, { reference: 'O-2' })).json().order_id
  await act(service, paid, payByCard)
  await readOrder(service, second, paid)
  const waiting = (await charge(service, third, { reference: 'O-3' })).json().order_id
  await setFaults(
    service,
    { ...creation, kind: 'drop_after' },
    { ...refunding, kind: 'drop_after' },
    { ...canceling, kind: 'drop_before' },
    { ...reading, kind: '503' },
  )
  const unknown = (await charge(service, first, { reference: 'O-1' })).json().order_id
  expect((await refund(service, second, paid, '1,00')).statusCode).toBe(504)
  await act(service, waiting, payByCard)
  await (await insertDueRows(service, waiting)).orders(40)
  await forgetRequests(service)
  for (let round = 0; round < 8; round += 1) await sweepAfter(service, 5_000)
  // 41 orders are due at each round; after the first ones that fail, one is tried each time.
  expect(await reads(third)).toBeLessThanOrEqual(18 + 7)
  await clearFaults(service)
  for (let round = 0; round < 5; round += 1) await sweepAfter(service, 2_000)
  expect(await orderRow(service, unknown)).toMatchObject({ creation: 'confirmed' })
  expect((await operationsOf(service, paid)).map((operation) => operation.state)).toEqual(['done'])
  expect(await orderRow(service, paid)).toMatchObject({ refunded_cents: 100 })
  expect(await orderRow(service, waiting)).toMatchObject({ status: 'processed' })
  expect(ordersAtProvider(service, second)).toMatchObject([{ refunds: [{ amount: '1.00' }] }])
})

test('an old canceled charge ends at the first sweep at which no attempt can arrive any more', {
  tags: ['long'],
}, async () => {
  const own = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '1500' } })
  try {
    const till = await openOwnShop(own, 'canceled while unknown')
    await setFaults(own, { ...creation, kind: '500' })
    const { order_id } = (await charge(own, till, { reference: 'N-1' })).json()
    // So old that it is checked every 5 s only.
    await sweepAfter(own, 130_000)
    expect((await cancel(own, till, order_id)).statusCode).toBe(504)
    const { unanswered_at } = await orderRow(own, order_id)
    const endsAt = Number(unanswered_at) + 6 * 1500
    await clearFaults(own)
    const isOver = () => own.clock.now().getTime() >= endsAt
    for (let mustEnd = false; !mustEnd; ) {
      own.clock.advance(2_000)
      mustEnd = isOver()
      await own.sweeper.sweepOnce()
      const { creation } = await orderRow(own, order_id)
      if (mustEnd || !isOver()) expect(creation).toBe(mustEnd ? 'refused' : 'unknown')
    }
    expect(await orderRow(own, order_id)).toMatchObject({ status_detail: 'not_created' })
  } finally {
    await own.stop()
  }
})

test('two processes share the work: each order is read by one of them', async () => {
  const { orderId } = await openOrder('shared work')
  await (await insertDueRows(service, orderId)).orders(25)
  const duplicate = await startTestService({ twinOf: service })
  try {
    service.clock.advance(2_100)
    await forgetRequests(service)
    for (let round = 0; round < 2; round += 1) {
      await Promise.all([service.sweeper.sweepOnce(), duplicate.sweeper.sweepOnce()])
    }
    const paths = (await providerRequests(service, reading)).map((request) => request.path)
    expect(paths).toHaveLength(26)
    expect(new Set(paths).size).toBe(26)
  } finally {
    await duplicate.stop()
  }
})

test('a started sweeper runs until it is stopped, and continues after a failed round', {
  tags: ['long'],
}, async () => {
  const own = await startTestService({ env: { SWEEP_INTERVAL_MS: '100' } })
  try {
    const till = await openOwnShop(own, 'running')
    const { order_id } = (await charge(own, till, { reference: 'L-1' })).json()
    await act(own, order_id, payByCard)
    own.clock.advance(5_000)
    await own.database.db.schema.alterTable('webhook_log').renameTo('webhook_log_away').execute()
    own.sweeper.start()
    await expect.poll(() => own.logLines.join(), { timeout: 10_000 }).toContain('"job":"sweeper"')
    await own.database.db.schema.alterTable('webhook_log_away').renameTo('webhook_log').execute()
    await expect
      .poll(async () => (await orderRow(own, order_id)).status, { timeout: 10_000 })
      .toBe('processed')
    await own.sweeper.stop()
  } finally {
    await own.stop()
  }
})
