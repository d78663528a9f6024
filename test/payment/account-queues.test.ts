import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { insertDueRows } from '../support/due.ts'
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
  service = await startTestService()
})
afterAll(() => service.stop())
afterEach(async () => {
  await retireShops(service)
  await endFaults()
  const { db } = service.database
  // The next test has no due work but its own.
  await db.updateTable('orders').set({ next_check_at: null }).execute()
  await db.updateTable('order_operations').set({ next_attempt_at: null }).execute()
  await db.updateTable('webhook_log').set({ next_attempt_at: null }).execute()
  // Longer than any pause of an account.
  service.clock.advance(150_000)
})

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'W-1' })).json()
  const mpOrderId = ordersAtProvider(service, till)[0]?.id ?? ''
  return { till, orderId: order_id as string, mpOrderId }
}

const hanging = (till: Pick<Till, 'mpUserId'>) => ({
  path: '^/v1/orders',
  user_id: till.mpUserId,
  kind: 'hang_before',
})

/** Removes the faults and ends the calls that hang. */
async function endFaults(): Promise<void> {
  await clearFaults(service)
  service.sandbox.endHangs()
}

async function reads(till: Pick<Till, 'mpUserId'>): Promise<number> {
  const all = await providerRequests(service, reading)
  return all.filter((request) => request.user_id === till.mpUserId).length
}

async function readsOf(till: Till, work: () => Promise<unknown>): Promise<number> {
  await forgetRequests(service)
  await work()
  return reads(till)
}

const statusOf = async (orderId: string) => (await orderRow(service, orderId)).status

async function webhookStates(mpOrderIds: readonly string[]): Promise<string[]> {
  const rows = await service.database.db
    .selectFrom('webhook_log')
    .select('status')
    .where('resource_id', 'in', [...mpOrderIds])
    .orderBy('received_at')
    .execute()
  return rows.map(({ status }) => status)
}

/** `done` ends before any hanging call does. */
async function whileOthersHang(work: () => Promise<unknown>, done: () => Promise<void>) {
  const working = work()
  await done()
  await clearFaults(service)
  expect(service.sandbox.endHangs()).toBeGreaterThan(0)
  await working
}

test.each(['confirmed', 'unknown'] as const)(
  'shops whose calls hang delay no other shop: orders that are %s',
  { tags: ['long'] },
  async (state) => {
    const neighbours = [await openOrder(`hangs ${state}`), await openOrder(`hangs too ${state}`)]
    for (const neighbour of neighbours) {
      await (await insertDueRows(service, neighbour.orderId)).orders(20, state)
    }
    const { till, orderId } = await openOrder(`beside ${state}`)
    await (await insertDueRows(service, orderId)).orders(19)
    await act(service, orderId, payByCard)
    await setFaults(service, ...neighbours.map((neighbour) => hanging(neighbour.till)))
    await forgetRequests(service)
    await whileOthersHang(
      () => sweepAfter(service, 2_100),
      async () => {
        await expect.poll(() => statusOf(orderId)).toBe('processed')
        await expect.poll(() => reads(till)).toBe(20)
      },
    )
  },
)

test('a shop whose refunds hang delays no refund of another shop', { tags: ['long'] }, async () => {
  const neighbour = await openOrder('hanging refunds')
  const { till, orderId } = await openOrder('beside hanging refunds')
  await act(service, orderId, payByCard)
  await readOrder(service, till, orderId)
  await setFaults(service, { ...refunding, kind: 'drop_after' })
  expect((await refund(service, till, orderId, '1,00')).statusCode).toBe(504)
  await (await insertDueRows(service, neighbour.orderId)).refunds(40)
  await service.database.db.updateTable('orders').set({ next_check_at: null }).execute()
  await setFaults(service, hanging(neighbour.till))
  await whileOthersHang(
    () => sweepAfter(service, 6_100),
    () =>
      expect
        .poll(async () => (await operationsOf(service, orderId)).map(({ state }) => state))
        .toEqual(['done']),
  )
})

test('a running sweeper continues with a shop while calls of another one hang', {
  tags: ['long'],
}, async () => {
  const own = await startTestService({ twinOf: service, env: { SWEEP_INTERVAL_MS: '100' } })
  const neighbour = await openOrder('hangs on')
  const { till, orderId } = await openOrder('goes on')
  await setFaults(service, hanging(neighbour.till))
  await forgetRequests(service)
  service.clock.advance(2_100)
  try {
    await whileOthersHang(
      async () => own.sweeper.start(),
      async () => {
        await expect
          .poll(async () => [await reads(neighbour.till), await reads(till)])
          .toEqual([1, 1])
        await act(service, orderId, payByCard)
        service.clock.advance(2_100)
        await expect.poll(() => statusOf(orderId)).toBe('processed')
      },
    )
  } finally {
    await own.stop()
  }
})

test('one pass does all due work, however much one account has', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await openOrder('big')
  const other = await openOrder('small')
  await (await insertDueRows(service, orderId)).orders(149)
  await forgetRequests(service)
  await sweepAfter(service, 2_100)
  expect([await reads(till), await reads(other.till)]).toEqual([150, 1])
})

test('another process takes over the orders of a crashed process within 6 seconds', async () => {
  const crashing = await startTestService({ twinOf: service })
  try {
    const { till, orderId } = await openOrder('taken')
    await act(service, orderId, payByCard)
    await setFaults(service, { ...hanging(till), count: 1 })
    await forgetRequests(service)
    service.clock.advance(2_100)
    const sweeping = crashing.sweeper.sweepOnce()
    await expect.poll(() => reads(till)).toBe(1)
    await sweepAfter(service, 4_000)
    expect([await reads(till), await statusOf(orderId)]).toEqual([1, 'created'])
    await sweepAfter(service, 2_000)
    expect(await statusOf(orderId)).toBe('processed')
    await endFaults()
    await sweeping
  } finally {
    await crashing.stop()
  }
})

test('a successful call beside one that got a 429 does not end the pause of the account', {
  tags: ['long'],
}, async () => {
  const { till, orderId, mpOrderId } = await openOrder('answered beside')
  const [refused = ''] = await (await insertDueRows(service, orderId)).orders(1)
  await setFaults(
    service,
    { path: `/v1/orders/${refused}`, method: 'GET', kind: '429', retry_after: 30 },
    { path: `/v1/orders/${mpOrderId}`, method: 'GET', kind: 'latency', delay_ms: 300 },
  )
  expect(await readsOf(till, () => sweepAfter(service, 2_100))).toBe(2)
  expect(await readsOf(till, () => sweepAfter(service, 25_000))).toBe(0)
  await clearFaults(service)
  expect(await readsOf(till, () => sweepAfter(service, 6_000))).toBe(2)
})

test('an account that fails is tried with one call at a time, and with all once it answers', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await openOrder('in trouble')
  await (await insertDueRows(service, orderId)).orders(40)
  await setFaults(service, { ...reading, kind: '503' })
  // The calls already running, and those that the first two failures left room for.
  expect(await readsOf(till, () => sweepAfter(service, 2_100))).toBeLessThanOrEqual(18)
  expect(await readsOf(till, () => sweepAfter(service, 5_000))).toBe(1)
  await clearFaults(service)
  expect(await readsOf(till, () => sweepAfter(service, 6_000))).toBe(41)
})

test('one pass works off a backlog of webhooks', { tags: ['long'] }, async () => {
  const { orderId } = await openOrder('backlog')
  const due = await insertDueRows(service, orderId)
  const ids = await due.orders(100)
  await due.webhooks(ids)
  expect(await service.inbox.workDue()).toBe(100)
  expect(await webhookStates(ids)).toEqual(Array(100).fill('processed'))
})

test('a shop whose calls hang delays no webhook of another shop', { tags: ['long'] }, async () => {
  const neighbour = await openOrder('webhooks hang')
  const { orderId, mpOrderId } = await openOrder('beside webhooks')
  const due = await insertDueRows(service, neighbour.orderId)
  await due.webhooks(await due.orders(40))
  await act(service, orderId, payByCard)
  // The read for a webhook is repeated at once.
  await setFaults(service, { ...hanging(neighbour.till), count: 16 })
  await whileOthersHang(
    async () => {
      const working = service.inbox.workDue()
      await expect.poll(() => reads(neighbour.till)).toBeGreaterThan(0)
      await Promise.all([working, deliver(service, { dataId: mpOrderId })])
    },
    () => expect.poll(() => statusOf(orderId)).toBe('processed'),
  )
})

test('webhooks for one order that wait together cause one read, and each gets its own state', async () => {
  const { till, orderId, mpOrderId } = await openOrder('together')
  await act(service, orderId, payByCard)
  const due = await insertDueRows(service, orderId)
  await due.webhooks(Array(40).fill(mpOrderId))
  expect(await readsOf(till, () => service.inbox.workDue())).toBe(1)
  expect(await webhookStates([mpOrderId])).toEqual(['processed', ...Array(39).fill('duplicate')])
  expect(await statusOf(orderId)).toBe('processed')
})

test('webhooks that failed for hours are processed within 10 seconds after the provider answers again', async () => {
  const { till, orderId, mpOrderId } = await openOrder('hours')
  await act(service, orderId, payByCard)
  await setFaults(service, { ...reading, kind: '503' })
  await deliver(service, { dataId: mpOrderId })
  for (let quarter = 0; quarter < 12; quarter += 1) {
    service.clock.advance(15 * 60_000)
    await service.inbox.workDue()
  }
  expect(await webhookStates([mpOrderId])).toEqual(['failed'])
  await clearFaults(service)
  service.clock.advance(9_000)
  expect(await readsOf(till, () => service.inbox.workDue())).toBe(1)
  expect(await webhookStates([mpOrderId])).toEqual(['processed'])
})

test('webhooks of an account that got a 429 wait for its Retry-After; those of other accounts do not', async () => {
  const limited = await openOrder('webhooks rest')
  const other = await openOrder('webhooks go on')
  const due = await insertDueRows(service, limited.orderId)
  await due.webhooks([limited.mpOrderId])
  await setFaults(service, {
    ...reading,
    user_id: limited.till.mpUserId,
    kind: '429',
    retry_after: 30,
    count: 1,
  })
  await service.inbox.workDue()
  service.clock.advance(20_000)
  await due.webhooks([limited.mpOrderId, other.mpOrderId])
  expect(await readsOf(limited.till, () => service.inbox.workDue())).toBe(0)
  expect(await webhookStates([other.mpOrderId])).toEqual(['processed'])
  service.clock.advance(11_000)
  await service.inbox.workDue()
  expect(await webhookStates([limited.mpOrderId])).not.toContain('failed')
})

test('another process takes over the webhooks of a crashed process within 6 seconds', async () => {
  const crashing = await startTestService({ twinOf: service })
  try {
    const { till, orderId, mpOrderId } = await openOrder('webhook taken')
    await act(service, orderId, payByCard)
    await (await insertDueRows(service, orderId)).webhooks([mpOrderId])
    await setFaults(service, { ...hanging(till), count: 1 })
    await forgetRequests(service)
    const working = crashing.inbox.workDue()
    await expect.poll(() => reads(till)).toBe(1)
    service.clock.advance(6_000)
    await service.inbox.workDue()
    expect(await webhookStates([mpOrderId])).toEqual(['processed'])
    await endFaults()
    await working
  } finally {
    await crashing.stop()
  }
})

test('webhooks for unknown orders that read at a hanging shop delay no webhook for a known order', {
  tags: ['long'],
}, async () => {
  const neighbour = await openOwnShop(service, 'creation hangs')
  const { orderId, mpOrderId } = await openOrder('known')
  await setFaults(service, {
    ...creation,
    user_id: neighbour.mpUserId,
    kind: 'drop_after',
  })
  await charge(service, neighbour, { reference: 'W-2' })
  const foreign = Array.from(
    { length: 40 },
    (_, at) => `ORDTST01FREMD${String(at).padStart(19, '0')}`,
  )
  await (await insertDueRows(service, orderId)).webhooks(foreign)
  await act(service, orderId, payByCard)
  await setFaults(service, { ...hanging(neighbour), count: 16 })
  await whileOthersHang(
    async () => {
      const working = service.inbox.workDue()
      await expect.poll(() => reads(neighbour)).toBeGreaterThan(0)
      await Promise.all([working, deliver(service, { dataId: mpOrderId })])
    },
    () => expect.poll(() => statusOf(orderId)).toBe('processed'),
  )
  expect(await webhookStates(foreign)).toEqual(Array(40).fill('ignored'))
})
