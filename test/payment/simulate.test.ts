import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  auditOf,
  cancel,
  clearFaults,
  forgetRequests,
  openOwnShop,
  providerRequests,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  asAdmin,
  call,
  charge,
  openShop,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await openOwnShop(service, 'acme')
})
beforeEach(() => forgetRequests(service))
afterEach(() => clearFaults(service))
afterAll(() => service.stop())

let reference = 0
/** A new order that waits for the terminal; its test ends it before the next. */
async function waitingOrder(who: Till = till): Promise<string> {
  reference += 1
  const created = await charge(service, who, { reference: `SIM-${reference}` })
  expect(created.statusCode, created.body).toBe(201)
  return created.json().order_id
}

const events = { path: '/events$', method: 'POST' }
const simulateAt = (url: string, body: unknown = { status: 'processed' }) =>
  asAdmin(service, { url, body })

test.each<[form: string, url: (id: string) => string]>([
  ['/admin/orders/:idempotencyKey/simulate', (id) => `/admin/orders/${id}/simulate`],
  ['/admin/orders/simulate/:idempotencyKey', (id) => `/admin/orders/simulate/${id}`],
])('%s simulates the event, by our id and by the provider’s', async (_form, url) => {
  for (const named of ['order_id', 'mp_order_id']) {
    const orderId = await waitingOrder()
    const id = (await readOrder(service, till, orderId)).json()[named]
    const answer = await simulateAt(url(id), {
      status: 'failed',
      payment_method_type: 'debit_card',
    })
    expect(answer.statusCode, answer.body).toBe(200)
    expect(answer.json()).toEqual({
      message: expect.any(String),
      order_id: orderId,
      status: 'created',
      expected_within_seconds: 10,
    })
    expect((await readOrder(service, till, orderId)).json().status).toBe('failed')
  }
})

test('the event reaches the provider as requested, and the order shows it', async () => {
  const orderId = await waitingOrder()
  const event = {
    status: 'processed',
    payment_method_type: 'credit_card',
    installments: 3,
    payment_method_id: 'master',
    status_detail: 'accredited',
  }
  await simulateAt(`/admin/orders/${orderId}/simulate`, event)
  expect(await providerRequests(service, events)).toMatchObject([{ body: event }])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    payments: [
      {
        status: 'approved',
        payment_method: { type: 'credit_card', installments: 3, id: 'master' },
      },
    ],
  })
  expect(await auditOf(service, 'acme', 'order.simulated')).toContainEqual(
    expect.objectContaining({
      resource_type: 'order',
      resource_id: orderId,
      status: 'success',
      metadata: expect.objectContaining({ status: 'processed' }),
    }),
  )
})

test('action_required may take 40 seconds', async () => {
  // Only the buyer ends it, so the terminal stays busy.
  const orderId = await waitingOrder(await openOwnShop(service, 'slow'))
  const answer = await simulateAt(`/admin/orders/${orderId}/simulate`, {
    status: 'action_required',
  })
  expect(answer.json().expected_within_seconds).toBe(40)
})

test('the query client is optional and must be the client of the order', async () => {
  const other = await openOwnShop(service, 'other')
  const orderId = await waitingOrder(other)
  for (const client of ['acme', 'nobody', 'OTHER']) {
    const answer = await simulateAt(`/admin/orders/${orderId}/simulate?client=${client}`)
    expect([answer.statusCode, answer.json().code], client).toEqual([404, 'NOT_FOUND'])
  }
  expect(await providerRequests(service, events)).toEqual([])
  expect((await simulateAt(`/admin/orders/${orderId}/simulate?client=other`)).statusCode).toBe(200)
})

test('T46: simulating an order of live credentials is NOT_SANDBOX under both paths, without a call to the provider', async () => {
  await sandboxCall(service, 'POST', '/_sandbox/users', { id: 1701, live_mode: true })
  const live = await openShop(service, 'live', '1701')
  const orderId = await waitingOrder(live)
  for (const url of [`/admin/orders/${orderId}/simulate`, `/admin/orders/simulate/${orderId}`]) {
    const answer = await simulateAt(url)
    expect([answer.statusCode, answer.json().code]).toEqual([409, 'NOT_SANDBOX'])
  }
  expect(await providerRequests(service, events)).toEqual([])
  expect((await readOrder(service, live, orderId)).json().status).toBe('created')
  expect(await auditOf(service, 'live', 'order.simulated')).toMatchObject([
    { status: 'failed', error_message: expect.stringMatching(/^NOT_SANDBOX/) },
    { status: 'failed' },
  ])
})

const wrong: [body: unknown, path: string][] = [
  [{}, 'status'],
  [{ status: null }, 'status'],
  [{ status: 'created' }, 'status'],
  [{ status: 'at_terminal' }, 'status'],
  [{ status: 'partially_refunded' }, 'status'],
  [{ status: 'PROCESSED' }, 'status'],
  [{ status: 'processed', payment_method_type: 'cash' }, 'payment_method_type'],
  [{ status: 'processed', payment_method_type: 'all' }, 'payment_method_type'],
  [{ status: 'processed', payment_method_id: 'diners' }, 'payment_method_id'],
  [{ status: 'processed', installments: 1 }, 'installments'],
  [{ status: 'processed', installments: 1, payment_method_type: 'debit_card' }, 'installments'],
  [{ status: 'processed', installments: 1, payment_method_type: 'qr' }, 'installments'],
  [{ status: 'processed', installments: 0, payment_method_type: 'credit_card' }, 'installments'],
  [{ status: 'processed', installments: 1.5, payment_method_type: 'credit_card' }, 'installments'],
  [{ status: 'processed', installments: '3', payment_method_type: 'credit_card' }, 'installments'],
  [{ status: 'processed', status_detail: 'insufficient_amount' }, 'status_detail'],
  [{ status: 'failed', status_detail: 'accredited' }, 'status_detail'],
  [{ status: 'canceled', status_detail: 'accredited' }, 'status_detail'],
  [{ status: 'expired', payment_method_type: 'qr' }, 'payment_method_type'],
  [{ status: 'refunded', payment_method_id: 'visa' }, 'payment_method_id'],
  [{ status: 'processed', amount: '1,00' }, 'amount'],
  [[{ status: 'processed' }], 'body'],
]

test('an invalid body is 422 on its field under both paths', async () => {
  const orderId = await waitingOrder()
  for (const [body, path] of wrong) {
    for (const url of [`/admin/orders/${orderId}/simulate`, `/admin/orders/simulate/${orderId}`]) {
      const answer = await simulateAt(url, body)
      expect([answer.statusCode, answer.json().code], JSON.stringify(body)).toEqual([
        422,
        'VALIDATION_ERROR',
      ])
      expect(answer.json().details[0].path, JSON.stringify(body)).toBe(path)
    }
  }
  expect(await providerRequests(service, events)).toEqual([])
  await cancel(service, till, orderId)
})

test('a failure of the provider is answered by its kind, and the order stays unchanged', async () => {
  const orderId = await waitingOrder()
  for (const [rule, status, code] of [
    [{ kind: '500', count: 20 }, 502, 'PROVIDER_ERROR'],
    [{ kind: 'drop_before', count: 20 }, 504, 'PROVIDER_TIMEOUT'],
    [{ kind: 'status', status: 400, code: 'bad_request' }, 502, 'PROVIDER_REJECTED'],
  ] as const) {
    await setFaults(service, { ...events, ...rule })
    const answer = await simulateAt(`/admin/orders/${orderId}/simulate`)
    expect([answer.statusCode, answer.json().code]).toEqual([status, code])
  }
  await clearFaults(service)
  expect((await readOrder(service, till, orderId)).json().status).toBe('created')
  await cancel(service, till, orderId)
})

test('without a connection nothing can be simulated', async () => {
  const parted = await openOwnShop(service, 'parted')
  const orderId = await waitingOrder(parted)
  await call(service, { method: 'POST', url: '/oauth/logout', token: parted.key })
  const answer = await simulateAt(`/admin/orders/${orderId}/simulate`)
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
})

test('a path without a valid order id is 404 or 422', async () => {
  for (const [url, status] of [
    ['/admin/orders/simulate/simulate', 404],
    ['/admin/orders/simulate', 404],
    ['/admin/orders//simulate', 422],
    ['/admin/orders/simulate/', 422],
    [`/admin/orders/${'x'.repeat(101)}/simulate`, 422],
    ['/admin/orders/a%00b/simulate', 422],
  ] as const) {
    const answer = await simulateAt(url)
    expect(answer.statusCode, url).toBe(status)
    expect(answer.json().code, url).toBe(status === 404 ? 'NOT_FOUND' : 'VALIDATION_ERROR')
  }
})
