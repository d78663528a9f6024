import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  auditOf,
  clearFaults,
  forgetRequests,
  newAccount,
  openOwnShop,
  ordersAtProvider,
  providerRequests,
  setFaults,
  simulate,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  openShop,
  payByCard,
  readOrder,
  sandboxCall,
} from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '800' }, hangsAreShort: true })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

const events = { path: '/events$', method: 'POST' }

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'S-1' })).json()
  return { till, orderId: order_id as string }
}

test.each([
  ['/admin/orders/ID/simulate', 'processed', {}, 10],
  ['/admin/orders/simulate/ID', 'processed', { payment_method_type: 'debit_card' }, 10],
  ['/admin/orders/ID/simulate', 'failed', { status_detail: 'insufficient_amount' }, 10],
  ['/admin/orders/ID/simulate', 'canceled', {}, 10],
  ['/admin/orders/ID/simulate', 'expired', {}, 10],
  ['/admin/orders/simulate/ID', 'action_required', {}, 40],
])('%s simulates %s, and the order moves', async (path, status, more, seconds) => {
  const { till, orderId } = await openOrder(`simulates ${status} ${path}`)
  const url = `${path.replace('ID', orderId)}?client=${encodeURIComponent(till.client)}`
  const response = await asAdmin(service, { url, body: { status, ...more } })
  expect([response.statusCode, response.json()]).toEqual([
    200,
    {
      message: expect.any(String),
      order_id: orderId,
      status: 'created',
      expected_within_seconds: seconds,
    },
  ])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status,
    ...('status_detail' in more && { payments: [more] }),
  })
  expect(await auditOf(service, till.client, 'order.simulated')).toMatchObject([
    {
      status: 'success',
      resource_type: 'order',
      resource_id: orderId,
      metadata: { status, mp_order_id: ordersAtProvider(service, till)[0]?.id },
    },
  ])
})

test('a simulated refund is found without a webhook', async () => {
  const { till, orderId } = await openOrder('refund event')
  await simulate(service, orderId, { status: 'processed' })
  // The payment has not been read yet: the provider's state decides, not the stored one.
  expect((await simulate(service, orderId, { status: 'refunded' })).statusCode).toBe(200)
  await sweepAfter(service, 2_000)
  const { orders } = (await call(service, { url: '/orders', token: till.key })).json()
  expect(orders).toMatchObject([{ status: 'refunded', outcome: 'not_charged' }])
})

test.each([
  ['refunded', undefined, 'ORDER_NOT_REFUNDABLE'],
  ['refunded', { do: 'fetch' }, 'ORDER_NOT_REFUNDABLE'],
  ['refunded', { do: 'cancel' }, 'ORDER_NOT_REFUNDABLE'],
  ['processed', { do: 'cancel' }, 'CONFLICT'],
  ['canceled', { do: 'decline' }, 'CONFLICT'],
  ['failed', { do: 'expire' }, 'CONFLICT'],
])('%s is refused after %j without a call to the provider', async (status, action, code) => {
  const { till, orderId } = await openOrder(`refused ${status} ${action?.do}`)
  if (action) await act(service, orderId, action)
  await forgetRequests(service)
  const response = await simulate(service, orderId, { status })
  expect([response.statusCode, response.json().code]).toEqual([409, code])
  expect(await providerRequests(service, events)).toEqual([])
  expect(await auditOf(service, till.client, 'order.simulated')).toMatchObject([
    { status: 'failed', resource_id: orderId, error_message: expect.stringContaining(code) },
  ])
})

test('an order of a live account cannot be simulated', async () => {
  const account = newAccount()
  await sandboxCall(service, 'POST', '/_sandbox/users', { id: Number(account), live_mode: true })
  const till = await openShop(service, 'live', account)
  const { order_id } = (await charge(service, till, { reference: 'S-2' })).json()
  await forgetRequests(service)
  const response = await simulate(service, order_id, { status: 'processed' })
  expect([response.statusCode, response.json().code]).toEqual([409, 'NOT_SANDBOX'])
  expect(await providerRequests(service)).toEqual([])
})

test('a client that does not own the order, an unknown order and wrong fields are refused', async () => {
  const { till, orderId } = await openOrder('misfits')
  await openOwnShop(service, 'neighbour')
  for (const [url, body, status] of [
    [`/admin/orders/${orderId}/simulate?client=neighbour`, { status: 'processed' }, 404],
    ['/admin/orders/ORD01UNKNOWN/simulate', { status: 'processed' }, 404],
    [`/admin/orders/${orderId}/simulate`, {}, 422],
    [`/admin/orders/${orderId}/simulate`, { status: 'at_terminal' }, 422],
    [
      `/admin/orders/${orderId}/simulate`,
      { status: 'processed', payment_method_type: 'debit_card', installments: 3 },
      422,
    ],
    [
      `/admin/orders/${orderId}/simulate`,
      { status: 'processed', status_detail: 'card_disabled' },
      422,
    ],
  ] as const) {
    expect((await asAdmin(service, { url, body })).statusCode, JSON.stringify(body)).toBe(status)
  }
  expect((await readOrder(service, till, orderId)).json().status).toBe('created')
})

test('a failure of the provider is answered by its kind and audited', async () => {
  const { till, orderId } = await openOrder('away')
  for (const [fault, status] of [
    [{ kind: '500' }, 502],
    [{ kind: '429' }, 429],
    [{ kind: 'hang_before' }, 504],
  ] as const) {
    await setFaults(service, { ...events, ...fault })
    const response = await simulate(service, orderId, { status: 'processed' })
    expect(response.statusCode, fault.kind).toBe(status)
  }
  const entries = await auditOf(service, till.client, 'order.simulated')
  expect(entries.map((entry) => entry.status)).toEqual(['failed', 'failed', 'failed'])
  await act(service, orderId, payByCard)
  expect((await readOrder(service, till, orderId)).json().status).toBe('processed')
})
