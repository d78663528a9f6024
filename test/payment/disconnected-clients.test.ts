import { afterAll, beforeAll, expect, test } from 'vitest'
import { requestAndDisconnect, requestOverSocket } from '../support/disconnecting-client.ts'
import {
  cancel,
  creation,
  type FaultRule,
  forgetRequests,
  openOwnShop,
  orderRow,
  providerRequests,
  reading,
  refund,
  refunding,
  setFaults,
  signature,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/**
 * A till gives up on a request that lies with a process that stands still, asks another process, and has its answer. When the first
 * wakes it finds the request, and that its till has hung up: here both are there at once.
 */
let service: TestService
/** The other process. */
let duplicate: TestService
let till: Till

beforeAll(async () => {
  service = await startTestService()
  duplicate = await startTestService({ twinOf: service })
  till = await openOwnShop(service, 'patient')
  await service.app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  await duplicate.stop()
  await service.stop()
})

const listing = { path: '^/terminals/v1/list', method: 'GET' }

const boxDenials = async () =>
  (
    await service.database.db
      .selectFrom('pos')
      .select('denied_charges')
      .where('external_id', '=', 'CAJA-1')
      .executeTakeFirstOrThrow()
  ).denied_charges

async function giveUp(path: string, body: object): Promise<void> {
  for (const how of ['end', 'destroy'] as const) {
    await requestAndDisconnect(
      service.app.server,
      { line: `POST ${path}`, headers: { 'x-api-token': till.key }, body },
      how,
    )
  }
}

/** What an order has come to, after as many looks as what was given up would take. */
async function told(orderId: string): Promise<Record<string, unknown>> {
  for (let look = 0; look < 10; look += 1) await readOrder(service, till, orderId)
  return (await readOrder(service, till, orderId)).json()
}

test('a refund in part is not made a second time behind the equal one that was answered', async () => {
  const charged = await charge(service, till, { reference: 'H-1', amount: '100,00' })
  const { order_id } = charged.json()
  await act(service, order_id, payByCard)
  await told(order_id)
  await forgetRequests(service)
  const body = { order_id, amount: '30,00' }
  const answered = await refund(service, till, order_id, '30,00')
  expect(answered.statusCode, answered.body).toBe(200)
  await giveUp('/orders/refund', body)
  await told(order_id)
  expect(await providerRequests(service, refunding)).toHaveLength(1)
  expect(await orderRow(service, order_id)).toMatchObject({ refunded_cents: 3_000 })
})

test('a sale that was canceled is not charged anew', async () => {
  const charged = await charge(service, till, { reference: 'H-2', amount: '5,00' })
  const { order_id } = charged.json()
  const canceled = await cancel(service, till, order_id)
  expect(canceled.statusCode, canceled.body).toBe(200)
  await forgetRequests(service)
  await giveUp('/orders', { caja_id: 'CAJA-1', external_reference: 'H-2', amount: '5,00' })
  await told(order_id)
  expect(await providerRequests(service, creation)).toEqual([])
})

test('an order that its cashier went on with is not canceled', async () => {
  const charged = await charge(service, till, { reference: 'H-3', amount: '5,00' })
  const { order_id } = charged.json()
  await giveUp('/orders/cancel', { order_id })
  expect(await told(order_id)).toMatchObject({ status: 'created' })
  await cancel(service, till, order_id)
})

/** A till asks, and gives up while the service asks the provider `first`, slowly this once. */
async function giveUpDuring(
  first: Pick<FaultRule, 'path' | 'method'>,
  path: string,
  body: object,
): Promise<void> {
  await forgetRequests(service)
  await setFaults(service, { ...first, kind: 'latency', delay_ms: 400, count: 1 })
  const { client } = await requestOverSocket(service.app.server, {
    ...{ line: `POST ${path}`, headers: { 'x-api-token': till.key }, body },
  })
  await expect.poll(async () => (await providerRequests(service, first)).length).toBe(1)
  client.destroy()
}

const refused = () =>
  service.logLines.filter((line) => line.includes('CALLER_GONE') && line.includes('refused')).length

test('a refund in part that was given up before it was begun is not made behind the equal one', async () => {
  const charged = await charge(service, till, { reference: 'H-5', amount: '100,00' })
  const { order_id } = charged.json()
  await act(service, order_id, payByCard)
  await told(order_id)
  const before = refused()
  await giveUpDuring(reading, '/orders/refund', { order_id, amount: '30,00' })
  const answered = await refund(duplicate, till, order_id, '30,00')
  expect(answered.statusCode, answered.body).toBe(200)
  await expect.poll(refused).toBe(before + 1)
  expect(await providerRequests(service, refunding)).toHaveLength(1)
  expect(await orderRow(service, order_id)).toMatchObject({ refunded_cents: 3_000 })
})

test('a charge that was given up before it was begun is not made behind the cancel of the equal one', async () => {
  const before = refused()
  const body = { caja_id: 'CAJA-1', external_reference: 'H-6', amount: '5,00' }
  await giveUpDuring(listing, '/orders', body)
  const charged = await charge(duplicate, till, { reference: 'H-6', amount: '5,00' })
  expect(charged.statusCode, charged.body).toBe(201)
  expect((await cancel(duplicate, till, charged.json().order_id)).statusCode).toBe(200)
  await expect.poll(refused).toBe(before + 1)
  expect(await providerRequests(service, creation)).toHaveLength(1)
  // Nobody was told that it was not charged, so nobody else's charge is held up for it.
  expect(await boxDenials()).toBe(0)
})

test('a webhook is taken also when the provider has given it up: it only says where to look', async () => {
  const charged = await charge(service, till, { reference: 'H-4', amount: '5,00' })
  const { order_id } = charged.json()
  const { mp_order_id } = await orderRow(service, order_id)
  const dataId = String(mp_order_id)
  const ts = String(service.clock.now().getTime())
  const [secret = ''] = service.sandbox.info.webhook_secrets
  await forgetRequests(service)
  await requestAndDisconnect(service.app.server, {
    line: `POST /webhooks?data.id=${dataId}&type=order`,
    headers: {
      'x-signature': signature(secret, { dataId, requestId: 'late', ts }),
      'x-request-id': 'late',
    },
    body: { type: 'order', action: 'order.created', data: { id: dataId } },
  })
  await expect.poll(async () => (await providerRequests(service, reading)).length).toBe(1)
  await cancel(service, till, order_id)
})
