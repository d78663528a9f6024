import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  deliver,
  forgetRequests,
  openOwnShop,
  orderRow,
  providerRequests,
  reading,
  retireShops,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterEach(() => retireShops(service))
afterAll(() => service.stop())

const second = 1_000
/** How long the buyer takes at the terminal. */
const atTerminalMs = 30 * second
const sweepEveryMs = 2 * second

type Sweeping = Pick<TestService, 'sweeper'>

/** Status checks of a charge that is paid after 30 s, with a sweep every 2 s, until the service has read it as paid. */
async function readsOfCharge(
  till: Till,
  reference: string,
  { isWebhookSent = true, by = service }: { isWebhookSent?: boolean; by?: Sweeping } = {},
): Promise<number> {
  const { order_id } = (await charge(service, till, { reference })).json()
  await forgetRequests(service)
  const start = service.clock.now().getTime()
  const sweepUntil = async (ms: number, isDone: () => Promise<boolean>) => {
    while (service.clock.now().getTime() < start + ms && !(await isDone())) {
      service.clock.advance(sweepEveryMs)
      await by.sweeper.sweepOnce()
    }
  }
  await sweepUntil(atTerminalMs, async () => false)
  await act(service, order_id, payByCard)
  const { mp_order_id } = await orderRow(service, order_id)
  if (isWebhookSent) await deliver(service, { dataId: String(mp_order_id) })
  const isPaid = async () => (await orderRow(service, order_id)).status === 'processed'
  await sweepUntil(2 * atTerminalMs, isPaid)
  expect(await isPaid()).toBe(true)
  return (await providerRequests(service, reading)).length
}

/** A shop whose webhooks have arrived so far. */
async function openShopWithWebhooks(name: string): Promise<Till> {
  const till = await openOwnShop(service, name)
  for (const reference of ['first', 'second', 'third']) await readsOfCharge(till, reference)
  return till
}

test('while webhooks arrive, a charge of 30 s costs at most three status checks, that of the webhook included', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'with webhooks')
  const reads: number[] = []
  for (const reference of ['1', '2', '3', '4', '5', '6']) {
    reads.push(await readsOfCharge(till, reference))
  }
  // The service reads less after three webhooks came in time.
  expect(Math.min(...reads.slice(0, 3))).toBeGreaterThanOrEqual(8)
  expect(Math.max(...reads.slice(3))).toBeLessThanOrEqual(3)
})

test('without webhooks a charge is checked every two seconds', { tags: ['long'] }, async () => {
  const till = await openOwnShop(service, 'no webhooks')
  for (const reference of ['1', '2', '3', '4', '5']) {
    expect(await readsOfCharge(till, reference, { isWebhookSent: false })).toBeGreaterThanOrEqual(8)
  }
})

test('one missed webhook brings checks every two seconds back, until three webhooks have come in time again', {
  tags: ['long'],
}, async () => {
  const till = await openShopWithWebhooks('one missed')
  expect(await readsOfCharge(till, 'missed', { isWebhookSent: false })).toBeLessThanOrEqual(4)
  expect(await readsOfCharge(till, 'after', { isWebhookSent: false })).toBeGreaterThanOrEqual(8)
  for (const reference of ['in time 1', 'in time 2', 'in time 3']) {
    service.clock.advance(11 * second)
    expect(await readsOfCharge(till, reference)).toBeGreaterThanOrEqual(8)
  }
  expect(await readsOfCharge(till, 'in time 4')).toBeLessThanOrEqual(3)
})

test('a webhook a second after a status check is not missed; one that is 11 seconds late is', {
  tags: ['long'],
}, async () => {
  const till = await openShopWithWebhooks('raced')
  const race = async (reference: string, laterMs: number) => {
    const { order_id } = (await charge(service, till, { reference })).json()
    await act(service, order_id, payByCard)
    const read = await call(service, { url: `/orders/${order_id}`, token: till.key })
    expect(read.json().status).toBe('processed')
    service.clock.advance(laterMs)
    const { mp_order_id } = await orderRow(service, order_id)
    await deliver(service, { dataId: String(mp_order_id) })
  }
  await race('by a little', second)
  expect(await readsOfCharge(till, 'then')).toBeLessThanOrEqual(3)
  await race('by much', 11 * second)
  expect(await readsOfCharge(till, 'now')).toBeGreaterThanOrEqual(8)
})

test('a process that has just started plans fewer status checks once one webhook has come', {
  tags: ['long'],
}, async () => {
  const till = await openShopWithWebhooks('restarted')
  service.clock.advance(second)
  const duplicate = await startTestService({ twinOf: service })
  try {
    const { order_id } = (await charge(duplicate, till, { reference: 'R-1' })).json()
    const waitMs = ({ next_check_at }: { next_check_at: Date | null }) =>
      Number(next_check_at) - service.clock.now().getTime()
    expect(waitMs(await orderRow(service, order_id))).toBeLessThanOrEqual(2 * second)
    await act(service, order_id, { do: 'cancel' })
    await deliver(duplicate, { dataId: String((await orderRow(service, order_id)).mp_order_id) })
    const next = (await charge(duplicate, till, { reference: 'R-2' })).json().order_id
    expect(waitMs(await orderRow(service, next))).toBeGreaterThan(10 * second)
  } finally {
    await duplicate.stop()
  }
})

test('an account whose last webhook came over an hour ago is checked every two seconds', {
  tags: ['long'],
}, async () => {
  const till = await openShopWithWebhooks('quiet')
  service.clock.advance(3_601 * second)
  expect(await readsOfCharge(till, 'after an hour')).toBeGreaterThanOrEqual(8)
  expect(await readsOfCharge(till, 'then')).toBeLessThanOrEqual(3)
})

test('a waiting client has the payment within ten seconds although its webhook is missed', {
  tags: ['long'],
}, async () => {
  const till = await openShopWithWebhooks('waits')
  const { order_id } = (await charge(service, till, { reference: 'W' })).json()
  const waiting = call(service, { url: `/orders/${order_id}?wait=30`, token: till.key })
  const planned = async () => Number((await orderRow(service, order_id)).next_check_at)
  await expect
    .poll(async () => (await planned()) - service.clock.now().getTime(), { timeout: 20_000 })
    .toBeLessThanOrEqual(5 * second)
  await act(service, order_id, payByCard)
  service.clock.advance(5 * second)
  await service.sweeper.sweepOnce()
  expect((await waiting).json().status).toBe('processed')
})
