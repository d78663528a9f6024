import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { encodeReference } from '../../src/domain/provider-names.ts'
import { backUp } from '../support/database.ts'
import {
  auditOf,
  cancel,
  clearFaults,
  creation,
  deliver,
  forgetRequests,
  newAccount,
  openOwnShop,
  ordersAtProvider,
  providerRequests,
  reading,
  refund,
  retireShops,
  sandboxRefund,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  connect,
  createStore,
  enrol,
  openShop,
  pairTerminal,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let service: TestService
let proxy: ProviderProxy
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '2000' },
    provider: { apiUrl: proxy.url },
  })
  proxy.target = service.sandbox.url
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})
afterEach(async () => {
  await retireShops(service)
  proxy.alter = undefined
  await clearFaults(service)
})

const keyed = (key: string) => ({ 'idempotency-key': key })

/** A sale that is made and paid after the backup; the restore forgets it. */
async function forgottenSale(
  client: string,
  sale: { reference: string; amount?: string; headers?: Record<string, string> },
  process = service,
) {
  const till = await openOwnShop(service, client)
  // The next read begins where this one ended, however late the restore is.
  await service.paymentWatch.watchOnce()
  const restore = await backUp(service.database)
  const { order_id } = (await charge(process, till, sale)).json()
  await act(service, order_id, payByCard)
  await restore()
  const mpOrderId = ordersAtProvider(service, till)[0]?.id as string
  return { till, forgottenId: order_id as string, mpOrderId }
}

/** A process that starts after the restore, and has read the payments made since the last read. */
async function startedWatch(): Promise<TestService> {
  const process = await startProcess()
  service.clock.advance(5 * 60_000)
  await process.paymentWatch.watchOnce()
  return process
}

async function startProcess(
  providerUrl = proxy.url,
  env: Record<string, string> = {},
): Promise<TestService> {
  const process = await startTestService({
    twinOf: service,
    env: { PROVIDER_TIMEOUT_MS: '2000', ...env },
    provider: { apiUrl: providerUrl },
  })
  onTestFinished(() => process.stop())
  return process
}

/** A webhook as the provider sends it: its body names the account. */
const deliverWebhook = (till: Till, dataId: string) =>
  deliver(service, { dataId, body: { user_id: String(till.mpUserId) } })

async function countOrders(till: Till): Promise<number> {
  return (await call(service, { url: '/orders?limit=1', token: till.key })).json().total
}

async function ordersOf(till: Till): Promise<Record<string, unknown>[]> {
  return (await call(service, { url: '/orders', token: till.key })).json().orders
}

test('the webhook of a charge that a restored backup forgot adopts the order', {
  tags: ['long'],
}, async () => {
  const { till, mpOrderId } = await forgottenSale('restored webhook', {
    reference: 'T-0001-00000042',
  })
  expect(await ordersOf(till)).toEqual([])
  await deliverWebhook(till, mpOrderId)
  const [order] = await ordersOf(till)
  expect(order).toMatchObject({
    mp_order_id: mpOrderId,
    external_reference: 'T-0001-00000042',
    caja_id: 'CAJA-1',
    sucursal_id: 'SUC-1',
    status: 'processed',
    outcome: 'charged',
  })
  const { logs } = (await asAdmin(service, { url: '/admin/webhooks/logs?limit=1' })).json()
  expect(logs).toMatchObject([
    { status: 'processed', client: till.client, order_id: order?.order_id },
  ])
  expect(await auditOf(service, till.client, 'order.adopted')).toMatchObject([
    { status: 'success', resource_id: order?.order_id },
  ])
  // A repeated webhook adopts nothing more.
  await deliverWebhook(till, mpOrderId)
  expect(await ordersOf(till)).toHaveLength(1)
})

test('the watch of payments adopts orders that were paid since the backup, and reads refunds since', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'restored watch')
  const known = (await charge(service, till, { reference: 'S-1' })).json().order_id
  await act(service, known, payByCard)
  await readOrder(service, till, known)
  const restore = await backUp(service.database)
  for (const reference of ['S-2', 'S 3']) {
    const { order_id } = (await charge(service, till, { reference })).json()
    await act(service, order_id, payByCard)
    await readOrder(service, till, order_id)
  }
  await sandboxRefund(service, ordersAtProvider(service, till)[0] as never, '34.50')
  await restore()
  await startedWatch()
  await sweepAfter(service, 5_000)
  const { orders } = (await call(service, { url: '/orders', token: till.key })).json()
  expect(orders).toMatchObject([
    { external_reference: encodeReference('S 3', 1), status: 'processed', amount: '1234.50' },
    { external_reference: 'S-2', status: 'processed', outcome: 'charged' },
    { external_reference: 'S-1', status: 'partially_refunded', refunded_amount: '34.50' },
  ])
  expect((await call(service, { url: '/orphans', token: till.key })).json().orphans).toEqual([])
})

test('a payment that does not name its order is followed by its reference', {
  tags: ['long'],
}, async () => {
  const { till, mpOrderId } = await forgottenSale('order not named', { reference: 'Q-1' })
  proxy.alter = ({ status, body }, { path }) => {
    if (!path.startsWith('/v1/payments/search') || !Array.isArray(body.results)) return undefined
    const results = body.results.map((payment) => ({ ...payment, order: null }))
    return { status, body: { ...body, results } }
  }
  await startedWatch()
  expect(await ordersOf(till)).toMatchObject([{ mp_order_id: mpOrderId, status: 'processed' }])
})

test('an order that is asked for by its provider id is adopted before the answer', {
  tags: ['long'],
}, async () => {
  const { till, forgottenId, mpOrderId } = await forgottenSale('restored read', {
    reference: 'R-1',
  })
  const other = await openOwnShop(service, 'restored read, another client')
  expect((await readOrder(service, till, forgottenId)).statusCode).toBe(404)
  expect((await readOrder(service, other, mpOrderId)).statusCode).toBe(404)
  await setFaults(service, { ...reading, kind: '500' })
  const unread = await readOrder(service, till, mpOrderId)
  expect([unread.statusCode, unread.json().code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  await clearFaults(service)
  const read = await readOrder(service, till, mpOrderId)
  expect([read.statusCode, read.json()]).toMatchObject([
    200,
    { mp_order_id: mpOrderId, status: 'processed', external_reference: 'R-1' },
  ])
  expect((await readOrder(service, other, mpOrderId)).statusCode).toBe(404)
  // An id that exists nowhere is read once.
  await forgetRequests(service)
  for (let time = 0; time < 3; time += 1) {
    const unknown = `${mpOrderId.slice(0, -4)}0000`
    expect((await readOrder(service, till, unknown)).statusCode).toBe(404)
  }
  expect((await providerRequests(service, reading)).length).toBe(1)
})

test('a refund of a forgotten order, named by its provider id, is made', async () => {
  const { till, mpOrderId } = await forgottenSale('restored refund', { reference: 'R-2' })
  const response = await refund(service, till, mpOrderId, '34,50')
  expect([response.statusCode, response.json()]).toMatchObject([
    200,
    { status: 'partially_refunded' },
  ])
  expect(ordersAtProvider(service, till)).toMatchObject([{ refunded_amount: '34.50' }])
})

/** Alters what the provider answers, as if `application` had made the orders. */
function madeBy(application: string | undefined) {
  proxy.alter = ({ status, body }, { path }) => {
    if (!path.startsWith('/v1/orders')) return undefined
    const integration = { integration_data: application && { application_id: application } }
    const data = Array.isArray(body.data)
      ? { data: body.data.map((order) => ({ ...order, ...integration })) }
      : integration
    return { status, body: { ...body, ...data } }
  }
}

test('the order of another application on the same account and terminal is never adopted, and is read rarely', {
  tags: ['long'],
}, async () => {
  const { till, mpOrderId } = await forgottenSale('another system', { reference: 'X-1' })
  madeBy('1234567890123456')
  await forgetRequests(service)
  for (let time = 0; time < 5; time += 1) {
    await deliverWebhook(till, mpOrderId)
    expect((await readOrder(service, till, mpOrderId)).statusCode).toBe(404)
  }
  expect((await providerRequests(service, reading)).length).toBe(1)
  await startedWatch()
  expect((await providerRequests(service, reading)).length).toBe(2)
  expect(await ordersOf(till)).toEqual([])
  const { logs } = (await asAdmin(service, { url: '/admin/webhooks/logs?limit=1' })).json()
  expect(logs).toMatchObject([{ status: 'ignored', resource_id: mpOrderId }])
  service.clock.advance(11 * 60_000)
  await deliverWebhook(till, mpOrderId)
  expect((await providerRequests(service, reading)).length).toBe(3)
})

test('without the application in the provider’s answer only a reference of our own form is adopted', {
  tags: ['long'],
}, async () => {
  const plain = await forgottenSale('application not named', { reference: 'P-1' })
  const ours = await forgottenSale('application not named, encoded', { reference: 'P 1' })
  madeBy(undefined)
  await startedWatch()
  expect(await ordersOf(plain.till)).toEqual([])
  expect(await ordersOf(ours.till)).toMatchObject([{ mp_order_id: ours.mpOrderId }])
})

test('clients that share an account get the orders of their own boxes', {
  tags: ['long'],
}, async () => {
  const account = newAccount()
  const one = await openShop(service, 'shares one', account)
  const two = await enrol(service, 'shares two', account)
  await createStore(service, two, { id: 'SUC-9', boxes: ['CAJA-9'] })
  await pairTerminal(service, two, 'CAJA-9')
  const restore = await backUp(service.database)
  const { order_id } = (await charge(service, two, { reference: 'SH-1', box: 'CAJA-9' })).json()
  await act(service, order_id, payByCard)
  await restore()
  await startedWatch()
  expect(await ordersOf(one)).toEqual([])
  expect(await ordersOf(two)).toMatchObject([{ external_reference: 'SH-1', status: 'processed' }])
})

test('a forgotten order whose box is unknown is not adopted, and the log names it', async () => {
  const till = await openOwnShop(service, 'restored too far')
  const restore = await backUp(service.database)
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  await pairTerminal(service, till, 'CAJA-2')
  expect((await charge(service, till, { reference: 'N-1', box: 'CAJA-2' })).statusCode).toBe(201)
  await restore()
  const [providerOrder] = ordersAtProvider(service, till)
  await deliverWebhook(till, providerOrder?.id as string)
  expect(await ordersOf(till)).toEqual([])
  expect(providerOrder?.status).toBe('created')
  const logged = service.logLines.filter((line) => line.includes('that matches no box'))
  expect(JSON.parse(logged.at(-1) ?? '{}')).toMatchObject({
    mpOrderId: providerOrder?.id,
    level: 'warn',
  })
})

test('a forgotten order that no till asks for is canceled when its time has passed', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'restored and left')
  const restore = await backUp(service.database)
  await charge(service, till, { reference: 'L-1' })
  await restore()
  const [providerOrder] = ordersAtProvider(service, till)
  await deliverWebhook(till, providerOrder?.id as string)
  expect(await ordersOf(till)).toMatchObject([{ status: 'created' }])
  // As at a provider that does not expire it.
  await service.database.db
    .updateTable('orders')
    .set({ expires_at: new Date(service.clock.now().getTime() - 120_000) })
    .where('mp_order_id', '=', providerOrder?.id as string)
    .execute()
  await sweepAfter(service, 5_000)
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
})

test('a forgotten sale that is repeated without a key is answered as already paid', {
  tags: ['long'],
}, async () => {
  const { till, mpOrderId } = await forgottenSale('repeated bare', { reference: 'B-1' })
  await startedWatch()
  const repeated = await charge(service, till, { reference: 'B-1' })
  expect([repeated.statusCode, repeated.json()]).toMatchObject([
    409,
    { code: 'ORDER_ALREADY_PAID', outcome: 'charged', status: 'processed' },
  ])
  expect(ordersAtProvider(service, till)).toMatchObject([{ id: mpOrderId }])
})

test('a forgotten sale is not charged again when only its second attempt reached the provider, whatever its reference', {
  tags: ['long'],
}, async () => {
  for (const [name, reference] of [
    ['later attempt', 'B-2'],
    ['later attempt, encoded', 'B 2'],
  ] as const) {
    const till = await openOwnShop(service, name)
    const restore = await backUp(service.database)
    await setFaults(service, {
      ...creation,
      kind: 'status',
      status: 400,
      code: 'property_value',
      count: 1,
    })
    expect((await charge(service, till, { reference })).statusCode).toBe(502)
    const { order_id } = (await charge(service, till, { reference })).json()
    await act(service, order_id, payByCard)
    await restore()
    await startedWatch()
    expect(ordersAtProvider(service, till)).toMatchObject([
      { external_reference: encodeReference(reference, 2) },
    ])
    const repeated = await charge(service, till, { reference })
    expect([name, repeated.json().code]).toEqual([name, 'ORDER_ALREADY_PAID'])
    expect(ordersAtProvider(service, till)).toHaveLength(1)
  }
})

test('a forgotten sale that is repeated under its key gets the order that was found', {
  tags: ['long'],
}, async () => {
  const sale = { reference: 'K-1', headers: keyed('key-1') }
  const { till, mpOrderId } = await forgottenSale('repeated keyed', sale)
  await startedWatch()
  const [found] = await ordersOf(till)
  for (let time = 0; time < 2; time += 1) {
    const repeated = await charge(service, till, sale)
    expect([repeated.statusCode, repeated.headers['idempotent-replayed']]).toEqual([200, 'true'])
    expect(repeated.json()).toMatchObject({ order_id: found?.order_id, outcome: 'charged' })
  }
  const other = await charge(service, till, { ...sale, amount: '5,00' })
  expect(other.json().code).toBe('IDEMPOTENCY_CONFLICT')
  // The order answers one key: another key is another sale.
  const second = await charge(service, till, { ...sale, headers: keyed('key-2') })
  expect(second.statusCode).toBe(201)
  expect(ordersAtProvider(service, till)).toMatchObject([{ id: mpOrderId }, { status: 'created' }])
})

test.each([
  ['without a key', {}],
  ['under its key', keyed('key-1')],
])(
  'a forgotten sale that is repeated 25 hours later %s is not charged again',
  { tags: ['long'] },
  async (how, headers) => {
    const sale = { reference: 'B-3', headers }
    const { till, mpOrderId } = await forgottenSale(`a day later ${how}`, sale)
    service.clock.advance(25 * 3600_000)
    await startedWatch()
    const repeated = await charge(service, till, sale)
    expect(repeated.json()).toMatchObject({ outcome: 'charged', status: 'processed' })
    expect(ordersAtProvider(service, till)).toMatchObject([{ id: mpOrderId }])
  },
)

test('a key that comes a day after an equal sale was found is another sale', {
  tags: ['long'],
}, async () => {
  const sale = { reference: 'K-2', headers: keyed('key-1') }
  const { till } = await forgottenSale('keyed late', sale)
  await startedWatch()
  service.clock.advance(25 * 3600_000)
  const late = await charge(service, till, { ...sale, headers: keyed('key-2') })
  expect(late.statusCode).toBe(201)
  expect(ordersAtProvider(service, till)).toHaveLength(2)
})

test('a forgotten order that ended without a payment is not the answer to a new sale', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'repeated canceled')
  const restore = await backUp(service.database)
  const sale = { reference: 'E-1', headers: keyed('key-1') }
  await cancel(service, till, (await charge(service, till, sale)).json().order_id)
  await restore()
  await deliverWebhook(till, ordersAtProvider(service, till)[0]?.id as string)
  for (const headers of [keyed('key-2'), {}]) {
    const again = await charge(service, till, { ...sale, headers })
    expect(again.statusCode).toBe(201)
    await cancel(service, till, again.json().order_id)
  }
  expect(ordersAtProvider(service, till).map(({ status }) => status)).toEqual(
    Array(3).fill('canceled'),
  )
})

test('a forgotten order that was canceled answers its own key, and no other order is made', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'canceled under its key')
  const restore = await backUp(service.database)
  const sale = { reference: 'E-2', headers: keyed('key-1') }
  await cancel(service, till, (await charge(service, till, sale)).json().order_id)
  await restore()
  await deliverWebhook(till, ordersAtProvider(service, till)[0]?.id as string)
  for (let time = 0; time < 2; time += 1) {
    const repeated = await charge(service, till, sale)
    expect(repeated.json()).toMatchObject({ status: 'canceled', outcome: 'not_charged' })
  }
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
})

test('a sale that is repeated before it was found is the same order at the provider', {
  tags: ['long'],
}, async () => {
  for (const [name, headers] of [
    ['repeated early, bare', {}],
    ['repeated early, keyed', keyed('key-1')],
  ] as const) {
    const sale = { reference: 'Y-1', headers }
    const { till, forgottenId, mpOrderId } = await forgottenSale(name, sale)
    const repeated = await charge(service, till, sale)
    expect([name, repeated.json().order_id]).toEqual([name, forgottenId])
    await startedWatch()
    expect(ordersAtProvider(service, till)).toMatchObject([{ id: mpOrderId, status: 'processed' }])
    expect(await ordersOf(till)).toMatchObject([{ mp_order_id: mpOrderId }])
    expect((await readOrder(service, till, forgottenId)).json()).toMatchObject({
      status: 'processed',
      outcome: 'charged',
    })
  }
})

test('a found sale without a key has the id that the first answer gave', {
  tags: ['long'],
}, async () => {
  const { till, forgottenId } = await forgottenSale('same id', { reference: 'I-1' })
  await startedWatch()
  expect((await readOrder(service, till, forgottenId)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
  })
})

test.each([
  ['total, keyed', undefined, 'R1'],
  ['partial, keyed', '10,00', 'R2'],
  ['total, without a key', undefined, undefined],
  ['partial, without a key', '10,00', undefined],
])(
  'a forgotten refund (%s) that is repeated is paid out once',
  { tags: ['long'] },
  async (name, amount, key) => {
    for (const isSaleForgotten of [false, true]) {
      const till = await openOwnShop(service, `refund ${name} ${isSaleForgotten}`)
      let restore = await backUp(service.database)
      const { order_id } = (await charge(service, till, { reference: 'F-1' })).json()
      await act(service, order_id, payByCard)
      await readOrder(service, till, order_id)
      if (!isSaleForgotten) restore = await backUp(service.database)
      const first = await refund(service, till, order_id, amount, key)
      expect(first.statusCode).toBe(200)
      await restore()
      await startedWatch()
      const [providerOrder] = ordersAtProvider(service, till)
      const repeated = await refund(service, till, providerOrder?.id as string, amount, key)
      const after = ordersAtProvider(service, till)[0]
      expect(after?.refunded_amount).toBe(amount === undefined ? '1234.50' : '10.00')
      expect(after?.refunds).toHaveLength(1)
      const isAnswered =
        repeated.statusCode === 200 || repeated.json().code === 'ORDER_ALREADY_REFUNDED'
      expect([isAnswered, repeated.body]).toEqual([true, repeated.body])
    }
  },
)

test.each(['webhook', 'payment'])(
  'the order of a row that counted as never made reopens the row, by %s',
  async (by) => {
    const till = await openOwnShop(service, `opened by ${by}`)
    const { order_id } = (await charge(service, till, { reference: 'O-1' })).json()
    const [providerOrder] = ordersAtProvider(service, till)
    // As after a refusal that an earlier attempt overtook.
    await service.database.db
      .updateTable('orders')
      .set({
        creation: 'refused',
        status: 'failed',
        status_detail: 'not_created',
        mp_order_id: null,
        next_check_at: null,
        version: 9,
      })
      .where('id', '=', order_id)
      .execute()
    await sandboxCall(service, 'POST', `/_sandbox/orders/${providerOrder?.id}/act`, payByCard)
    if (by === 'payment') await startedWatch()
    else await deliverWebhook(till, providerOrder?.id as string)
    expect((await readOrder(service, till, order_id)).json()).toMatchObject({
      mp_order_id: providerOrder?.id,
      paid_after_close: true,
      outcome: 'charged',
    })
    expect(await countOrders(till)).toBe(1)
  },
)

test('without the duplicate guard a forgotten sale does not answer a new equal one', async () => {
  const process = await startProcess(proxy.url, { DUPLICATE_ORDER_GUARD: 'off' })
  const { till } = await forgottenSale('guard off', { reference: 'G-1' }, process)
  const next = await charge(process, till, { reference: 'G-1' })
  expect([next.statusCode, next.json().status]).toEqual([201, 'created'])
  expect(ordersAtProvider(service, till).map(({ status }) => status)).toEqual([
    'processed',
    'created',
  ])
})

test('a webhook of a forgotten order that comes when the connection is lost waits for the next one', {
  tags: ['long'],
}, async () => {
  const { till, mpOrderId } = await forgottenSale('restored, then lost', { reference: 'L-1' })
  await sandboxCall(service, 'POST', `/_sandbox/users/${till.mpUserId}/revoke`)
  await deliverWebhook(till, mpOrderId)
  const { logs } = (await asAdmin(service, { url: '/admin/webhooks/logs?limit=1' })).json()
  expect(logs).toMatchObject([
    { status: 'failed', error_message: expect.stringMatching(/^CONNECTION_LOST/) },
  ])
  expect((await readOrder(service, till, mpOrderId)).statusCode).toBe(404)
  await connect(service, till.client, String(till.mpUserId))
  service.clock.advance(60_000)
  await service.inbox.workDue()
  expect(await ordersOf(till)).toMatchObject([{ mp_order_id: mpOrderId, status: 'processed' }])
})
