import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
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
  refund,
  refunding,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder, sandboxCall } from '../support/till.ts'

/** Two processes on one database, as behind a load balancer. */
let service: TestService
let duplicate: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '3000' } })
  duplicate = await startTestService({ twinOf: service, env: { PROVIDER_TIMEOUT_MS: '3000' } })
})
afterAll(async () => {
  await duplicate.stop()
  await service.stop()
})
afterEach(() => clearFaults(service))

const reached = (rule: { path: string; method?: string }) =>
  expect
    .poll(async () => (await providerRequests(service, rule)).length, {
      interval: 5,
      timeout: 10_000,
    })
    .toBeGreaterThan(0)

const keyed = { headers: { 'idempotency-key': 'one-key' } }

test('equal charges in two processes are sent once, and both get the order', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'both charge')
  await forgetRequests(service)
  await setFaults(service, { ...creation, kind: 'latency_after', delay_ms: 300, count: 1 })
  const first = charge(service, till, { reference: 'P-1' })
  await reached(creation)
  const second = await charge(duplicate, till, { reference: 'P-1' })
  expect([(await first).statusCode, second.statusCode]).toEqual([201, 200])
  expect(second.json().order_id).toBe((await first).json().order_id)
  expect(await providerRequests(service, creation)).toHaveLength(1)
})

test('a refused charge is not_charged for an equal one in another process too, and nothing was charged', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'both refused')
  await forgetRequests(service)
  await setFaults(
    service,
    { ...creation, kind: 'latency', delay_ms: 200, count: 1 },
    { ...creation, kind: '429', count: 3 },
  )
  const first = charge(service, till, { reference: 'P-2', ...keyed })
  await reached(creation)
  const second = await charge(duplicate, till, { reference: 'P-2', ...keyed })
  expect([(await first).statusCode, second.statusCode]).toEqual([429, 502])
  for (const answer of [(await first).json(), second.json()]) {
    expect(answer).toMatchObject({ outcome: 'not_charged', retry_safe: true })
  }
  await sweepAfter(service, 60_000)
  expect(ordersAtProvider(service, till)).toEqual([])
  expect((await charge(duplicate, till, { reference: 'P-2', ...keyed })).statusCode).toBe(201)
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('a refused refund ends equal ones in another process too, and its key makes one refund later', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'both refund')
  const { order_id } = (await charge(service, till, { reference: 'P-3', amount: '100,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  await forgetRequests(service)
  await setFaults(
    service,
    { ...refunding, kind: 'latency', delay_ms: 200, count: 1 },
    { ...refunding, kind: '429', count: 3 },
  )
  const first = refund(service, till, order_id, '30,00', 'refund-key')
  await reached(refunding)
  const second = await refund(duplicate, till, order_id, '30,00', 'refund-key')
  expect([(await first).statusCode, second.statusCode]).toEqual([429, 502])
  expect(second.json()).toMatchObject({ outcome: 'charged', retry_safe: true, order_id })
  await sweepAfter(service, 60_000)
  expect(ordersAtProvider(service, till)[0]?.refunds).toEqual([])
  expect((await refund(duplicate, till, order_id, '30,00', 'refund-key')).statusCode).toBe(200)
  expect(ordersAtProvider(service, till)[0]?.refunds).toHaveLength(1)
  expect((await operationsOf(service, order_id)).map((row) => row.state)).toEqual([
    'refused',
    'done',
  ])
})

test('a refund without a connection is unknown, not refused, when another process has taken it over', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'taken over')
  const { order_id } = (await charge(service, till, { reference: 'P-6', amount: '100,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  await forgetRequests(service)
  const renewal = { path: '/oauth/token', method: 'POST' }
  await setFaults(
    service,
    { ...refunding, kind: 'status', status: 401, code: 'unauthorized' },
    { ...renewal, kind: 'latency', delay_ms: 500, count: 1 },
  )
  const answer = refund(service, till, order_id, '30,00', 'refund-key')
  await reached(renewal)
  await sandboxCall(service, 'POST', `/_sandbox/users/${till.mpUserId}/revoke`)
  // Its lease has expired, as after a suspension, and another process sends.
  await service.database.db
    .updateTable('order_operations')
    .set({ sender: order_id })
    .where('order_id', '=', order_id)
    .execute()
  expect([(await answer).statusCode, (await answer).json()]).toMatchObject([
    409,
    { code: 'CONNECTION_LOST', outcome: 'unknown', retry_safe: true },
  ])
  expect((await operationsOf(service, order_id)).map((row) => row.state)).toEqual(['intent'])
})

test('equal cancels in two processes are sent once, and both answer that the order is canceled', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'both cancel')
  const { order_id } = (await charge(service, till, { reference: 'P-7' })).json()
  await forgetRequests(service)
  await setFaults(service, { ...canceling, kind: 'latency', delay_ms: 300, count: 1 })
  const first = cancel(service, till, order_id)
  await reached(canceling)
  const second = await cancel(duplicate, till, order_id)
  expect([(await first).statusCode, second.statusCode]).toEqual([200, 200])
  expect(second.json().status).toBe('canceled')
  expect(await providerRequests(service, canceling)).toHaveLength(1)
  expect(await operationsOf(service, order_id)).toMatchObject([{ state: 'done', sender: null }])
})

test('a refused cancel ends equal ones in another process too, and a later one succeeds', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'both cancels refused')
  const { order_id } = (await charge(service, till, { reference: 'P-8' })).json()
  await forgetRequests(service)
  await setFaults(
    service,
    { ...canceling, kind: 'latency', delay_ms: 200, count: 1 },
    { ...canceling, kind: '429', count: 3 },
  )
  const first = cancel(service, till, order_id)
  await reached(canceling)
  const second = await cancel(duplicate, till, order_id)
  expect([(await first).statusCode, second.statusCode]).toEqual([429, 502])
  for (const answer of [(await first).json(), second.json()]) {
    expect(answer).toMatchObject({ outcome: 'unknown', retry_safe: true, order_id })
  }
  expect((await cancel(duplicate, till, order_id)).statusCode).toBe(200)
  expect((await operationsOf(service, order_id)).map((row) => row.state)).toEqual([
    'refused',
    'done',
  ])
})

test('a cancel that a crashed process was sending is continued after a few seconds', async () => {
  const till = await openOwnShop(service, 'crashed cancel')
  const { order_id } = (await charge(service, till, { reference: 'P-9' })).json()
  await setFaults(service, { ...canceling, kind: 'drop_before' })
  expect((await cancel(service, till, order_id)).json().outcome).toBe('unknown')
  await clearFaults(service)
  await service.database.db
    .updateTable('order_operations')
    .set({ sender: order_id, sender_until: new Date(service.clock.now().getTime() + 5_000) })
    .where('order_id', '=', order_id)
    .execute()
  await forgetRequests(service)
  await sweepAfter(duplicate, 2_100)
  expect(await providerRequests(service, canceling)).toEqual([])
  await sweepAfter(duplicate, 5_000)
  expect(await orderRow(service, order_id)).toMatchObject({ status: 'canceled' })
  expect(await operationsOf(service, order_id)).toMatchObject([{ state: 'done', sender: null }])
})

test('a key under which a crashed process was sending is free after a few seconds', async () => {
  const till = await openOwnShop(service, 'crashed charge')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'P-4' })).json()
  await clearFaults(service)
  const inFlight = new Date(service.clock.now().getTime() + 5_000)
  await service.database.db
    .updateTable('orders')
    .set({ sender: order_id, sender_until: inFlight })
    .where('id', '=', order_id)
    .execute()
  await sweepAfter(duplicate, 2_100)
  expect(await orderRow(service, order_id)).toMatchObject({ creation: 'unknown' })
  await sweepAfter(duplicate, 5_000)
  expect(await orderRow(service, order_id)).toMatchObject({ creation: 'confirmed', sender: null })
})

test('the database refuses to change the status of an ended order', async () => {
  const till = await openOwnShop(service, 'no way back')
  const { order_id } = (await charge(service, till, { reference: 'P-5' })).json()
  const move = (status: 'canceled' | 'created' | 'processed', version: number) =>
    service.database.db
      .updateTable('orders')
      .set({ status, version })
      .where('id', '=', order_id)
      .execute()
  await expect(move('canceled', 2)).rejects.toThrow('without a new version')
  await move('canceled', 3)
  await expect(move('created', 4)).rejects.toThrow('has ended as canceled')
  await expect(move('processed', 4)).rejects.toThrow('has ended as canceled')
})
