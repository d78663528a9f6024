import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { cancelAtProvider } from '../../src/payments/orders/send-cancel.ts'
import { serviceContext } from '../../src/payments/request-context.ts'
import {
  auditOf,
  cancel,
  canceling,
  clearFaults,
  type FaultRule,
  forgetRequests,
  openOwnShop,
  operationsOf,
  orderRow,
  ordersAtProvider,
  providerRequests,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { rounds } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, connect, payByCard, readOrder } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '500' }, hangsAreShort: true })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'C-1' })).json()
  return { till, orderId: order_id as string }
}

const audited = async (client: string) =>
  (await auditOf(service, client, 'order.canceled')).map((entry) => entry.status)

test('a waiting order is canceled, and a repeated cancel answers the same', async () => {
  const { till, orderId } = await openOrder('plain')
  const first = await cancel(service, till, orderId)
  expect(first.statusCode).toBe(200)
  expect(first.json()).toEqual({
    message: expect.any(String),
    order_id: orderId,
    status: 'canceled',
    status_detail: 'canceled',
    outcome: 'not_charged',
    retry_safe: true,
  })
  await forgetRequests(service)
  const again = await cancel(service, till, orderId)
  expect([again.statusCode, again.json()]).toEqual([200, first.json()])
  expect(await providerRequests(service)).toEqual([])
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
  expect(await audited(till.client)).toEqual(['success'])
})

test('the provider’s id of the order cancels it too, and the answer has our id', async () => {
  const { till, orderId } = await openOrder('by provider id')
  const response = await cancel(service, till, ordersAtProvider(service, till)[0]?.id ?? '')
  expect([response.statusCode, response.json().order_id]).toEqual([200, orderId])
})

test.each([
  ['at_terminal', { do: 'fetch' }],
  ['action_required', { do: 'hold' }],
])(
  'on a device that takes no cancel, an order in %s must be canceled from the terminal',
  async (status, action) => {
    const { till, orderId } = await openOrder(`shown ${status}`)
    await act(service, orderId, action)
    const refusal = { kind: 'status', status: 409, code: 'cannot_cancel_order' }
    await setFaults(service, { ...canceling, ...refusal })
    const response = await cancel(service, till, orderId)
    expect(response.statusCode).toBe(409)
    expect(response.json()).toMatchObject({
      code: 'ORDER_AT_TERMINAL',
      error: expect.stringContaining('canceled from the terminal'),
      outcome: 'unknown',
      retry_safe: false,
      order_id: orderId,
      status,
    })
    expect(ordersAtProvider(service, till)).toMatchObject([{ status }])
  },
)

test.each([
  ['processed', payByCard, 'charged'],
  ['failed', { do: 'decline' }, 'not_charged'],
  ['expired', { do: 'expire' }, 'not_charged'],
])('an order that is %s is not cancelable', async (status, action, outcome) => {
  const { till, orderId } = await openOrder(`ended ${status}`)
  await act(service, orderId, action)
  const response = await cancel(service, till, orderId)
  expect(response.statusCode).toBe(409)
  expect(response.json()).toMatchObject({
    code: 'ORDER_NOT_CANCELABLE',
    outcome,
    retry_safe: false,
    order_id: orderId,
    status,
  })
  expect(await audited(till.client)).toEqual(['failed'])
})

test('an order that was canceled at the terminal counts as canceled', async () => {
  const { till, orderId } = await openOrder('at the device')
  await act(service, orderId, { do: 'cancel' })
  const response = await cancel(service, till, orderId)
  expect([response.statusCode, response.json().status]).toEqual([200, 'canceled'])
})

test('T28: concurrent cancels make one call to the provider and one audit entry', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'racing')
  const races = rounds(25)
  for (let round = 0; round < races; round += 1) {
    const { order_id } = (await charge(service, till, { reference: `C-${round}` })).json()
    await forgetRequests(service)
    const answers = await Promise.all([1, 2, 3].map(() => cancel(service, till, order_id)))
    expect(answers.map((answer) => answer.statusCode)).toEqual([200, 200, 200])
    expect(await providerRequests(service, canceling)).toHaveLength(1)
  }
  // Read from the table, because a page of the log has at most 200 entries.
  const entries = await service.database.db
    .selectFrom('activity_log')
    .select('status')
    .where('client_name', '=', till.client)
    .where('action', '=', 'order.canceled')
    .execute()
  expect(entries.map(({ status }) => status)).toEqual(Array(races).fill('success'))
})

test('a cancel right after another one finds the order canceled and makes no call', async () => {
  const { till, orderId } = await openOrder('close behind')
  // Read before the other cancel succeeded, as by a concurrent request.
  const asRead = await orderRow(service, orderId)
  expect((await cancel(service, till, orderId)).statusCode).toBe(200)
  await forgetRequests(service)
  const again = await cancelAtProvider(service.deps, asRead, serviceContext(service.deps, 'api'))
  expect(again.status).toBe('canceled')
  expect(await providerRequests(service)).toEqual([])
  expect(await operationsOf(service, orderId)).toHaveLength(1)
})

const lost: [string, Omit<FaultRule, 'path'>][] = [
  ['drop_before', { kind: 'drop_before' }],
  ['drop_after', { kind: 'drop_after' }],
  ['torn_body', { kind: 'torn_body' }],
  ['500', { kind: '500' }],
]

test.each(lost)(
  'a cancel that fails once by %s is repeated under the same key',
  async (_name, fault) => {
    const { till, orderId } = await openOrder(`once ${fault.kind}`)
    await setFaults(service, { ...canceling, ...fault, count: 1 })
    await forgetRequests(service)
    expect((await cancel(service, till, orderId)).statusCode).toBe(200)
    const keys = (await providerRequests(service, canceling)).map(
      (request) => request.headers['x-idempotency-key'],
    )
    expect(keys).toHaveLength(2)
    expect(new Set(keys).size).toBe(1)
  },
)

test.each(lost)(
  'a cancel that keeps failing by %s is found done, or finished by the sweeper',
  async (_name, fault) => {
    const { till, orderId } = await openOrder(`lost ${fault.kind}`)
    await setFaults(service, { ...canceling, ...fault })
    const response = await cancel(service, till, orderId)
    const isDone = ordersAtProvider(service, till)[0]?.status === 'canceled'
    // A read shows that it succeeded although its answer was lost.
    expect(response.statusCode).toBe(isDone ? 200 : 504)
    if (!isDone) {
      expect(response.json()).toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        outcome: 'unknown',
        retry_safe: true,
        order_id: orderId,
        status: 'created',
      })
      await clearFaults(service)
      await sweepAfter(service, 60_000)
    }
    expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
    expect((await readOrder(service, till, orderId)).json().status).toBe('canceled')
    expect((await operationsOf(service, orderId)).at(-1)?.state).toBe('done')
    expect((await audited(till.client)).filter((status) => status === 'success')).toHaveLength(1)
  },
)

test('a lost cancel that comes too late leaves the payment unchanged', async () => {
  const { till, orderId } = await openOrder('too late')
  await setFaults(service, { ...canceling, kind: 'drop_before' })
  expect((await cancel(service, till, orderId)).statusCode).toBe(504)
  await act(service, orderId, payByCard)
  await clearFaults(service)
  await sweepAfter(service, 60_000)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
  })
  expect((await operationsOf(service, orderId)).map((row) => row.state)).toEqual(['refused'])
  expect(await audited(till.client)).toEqual(['failed'])
})

test.each([
  ['429', { kind: '429' }, 429, 'RATE_LIMITED'],
  ['an unknown code', { kind: 'status', status: 400, code: 'whatever' }, 504, 'PROVIDER_TIMEOUT'],
] as const)(
  'a cancel refused with %s does not report an order as not_charged that may still be paid',
  async (name, fault, status, code) => {
    const { till, orderId } = await openOrder(`refused ${name}`)
    await setFaults(service, { ...canceling, ...fault })
    const response = await cancel(service, till, orderId)
    expect(response.statusCode).toBe(status)
    expect(response.json()).toMatchObject({
      code,
      outcome: 'unknown',
      retry_safe: true,
      order_id: orderId,
      status: 'created',
    })
    await clearFaults(service)
    expect((await cancel(service, till, orderId)).statusCode).toBe(200)
  },
)

test('without a connection nothing is canceled, now or later', async () => {
  const { till, orderId } = await openOrder('unplugged')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  const response = await cancel(service, till, orderId)
  expect([response.statusCode, response.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
  expect(response.json()).toMatchObject({ outcome: 'unknown', order_id: orderId })
  await connect(service, 'unplugged', String(till.mpUserId))
  await sweepAfter(service, 60_000)
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'created' }])
})
