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
 * A client disconnects from a process that is suspended, asks another process, and gets its answer. When the first process
 * resumes, it finds the request and that its client has disconnected. This file makes both happen at once.
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

async function disconnectAfter(path: string, body: object): Promise<void> {
  for (const how of ['end', 'destroy'] as const) {
    await requestAndDisconnect(
      service.app.server,
      { line: `POST ${path}`, headers: { 'x-api-token': till.key }, body },
      how,
    )
  }
}

/** The order after as many status checks as the request of the disconnected client would make. */
async function checked(orderId: string): Promise<Record<string, unknown>> {
  for (let check = 0; check < 10; check += 1) await readOrder(service, till, orderId)
  return (await readOrder(service, till, orderId)).json()
}

test('a partial refund of a disconnected client is not repeated after an equal one was answered', async () => {
  const charged = await charge(service, till, { reference: 'H-1', amount: '100,00' })
  const { order_id } = charged.json()
  await act(service, order_id, payByCard)
  await checked(order_id)
  await forgetRequests(service)
  const body = { order_id, amount: '30,00' }
  const answered = await refund(service, till, order_id, '30,00')
  expect(answered.statusCode, answered.body).toBe(200)
  await disconnectAfter('/orders/refund', body)
  await checked(order_id)
  expect(await providerRequests(service, refunding)).toHaveLength(1)
  expect(await orderRow(service, order_id)).toMatchObject({ refunded_cents: 3_000 })
})

test('a charge of a disconnected client does not charge a canceled sale again', async () => {
  const charged = await charge(service, till, { reference: 'H-2', amount: '5,00' })
  const { order_id } = charged.json()
  const canceled = await cancel(service, till, order_id)
  expect(canceled.statusCode, canceled.body).toBe(200)
  await forgetRequests(service)
  await disconnectAfter('/orders', { caja_id: 'CAJA-1', external_reference: 'H-2', amount: '5,00' })
  await checked(order_id)
  expect(await providerRequests(service, creation)).toEqual([])
})

test('a cancel of a disconnected client does not cancel an order that is in use', async () => {
  const charged = await charge(service, till, { reference: 'H-3', amount: '5,00' })
  const { order_id } = charged.json()
  await disconnectAfter('/orders/cancel', { order_id })
  expect(await checked(order_id)).toMatchObject({ status: 'created' })
  await cancel(service, till, order_id)
})

/** A client asks, and disconnects while the service makes the call `first`, which is slow this once. */
async function disconnectDuring(
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

test('a partial refund whose client disconnected before it began is not made after the equal one', {
  tags: ['long'],
}, async () => {
  const charged = await charge(service, till, { reference: 'H-5', amount: '100,00' })
  const { order_id } = charged.json()
  await act(service, order_id, payByCard)
  await checked(order_id)
  const before = refused()
  await disconnectDuring(reading, '/orders/refund', { order_id, amount: '30,00' })
  const answered = await refund(duplicate, till, order_id, '30,00')
  expect(answered.statusCode, answered.body).toBe(200)
  await expect.poll(refused).toBe(before + 1)
  expect(await providerRequests(service, refunding)).toHaveLength(1)
  expect(await orderRow(service, order_id)).toMatchObject({ refunded_cents: 3_000 })
})

test('a charge whose client disconnected before it began is not made after the equal one was canceled', {
  tags: ['long'],
}, async () => {
  const before = refused()
  const body = { caja_id: 'CAJA-1', external_reference: 'H-6', amount: '5,00' }
  await disconnectDuring(listing, '/orders', body)
  const charged = await charge(duplicate, till, { reference: 'H-6', amount: '5,00' })
  expect(charged.statusCode, charged.body).toBe(201)
  expect((await cancel(duplicate, till, charged.json().order_id)).statusCode).toBe(200)
  await expect.poll(refused).toBe(before + 1)
  expect(await providerRequests(service, creation)).toHaveLength(1)
  // No client got the answer that it was not charged, so no other charge of the box waits for it.
  expect(await boxDenials()).toBe(0)
})

test('a webhook is processed although the provider has disconnected, because it only names the order to read', async () => {
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
