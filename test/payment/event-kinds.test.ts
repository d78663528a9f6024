/** @module-tag long */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type EventType, eventTypes } from '../../src/domain/event-types.ts'
import { close, sell, typeCharge, watchAfter } from '../closings/shop-day.ts'
import { endpointsPath, makeEndpoint } from '../support/endpoints.ts'
import {
  cancel,
  clearFaults,
  creation,
  deliver,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  reading,
  refund,
  refunding,
  setFaults,
  simulate,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  call,
  charge,
  connect,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

/** Each type of event is provoked by what people and the provider do, and read in the feed of the client. */
vi.setConfig({ testTimeout: 120_000 })

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

type Read = {
  type: EventType
  sucursal_id: string | null
  resource: { type: string; id: string; url: string }
  changes: Record<string, { from: unknown; to: unknown }>
  data: Record<string, unknown> | null
}

/** What each client of a test provokes. */
const provoked: Record<string, readonly EventType[]> = {
  orders: [
    'order.created',
    'order.paid',
    'order.canceled',
    'order.failed',
    'order.expired',
    'order.in_doubt',
    'order.refunded',
    'refund.done',
    'refund.failed',
  ],
  'lost answers': ['order.settled', 'order.needs_decision'],
  payments: ['payment.unclaimed', 'payment.matched', 'payment.dismissed'],
  disputes: ['chargeback.opened', 'chargeback.closed'],
  closings: ['closing.ready', 'closing.signed', 'settlement.recorded'],
  connections: ['connection.lost', 'connection.restored'],
  terminals: ['terminal.state_changed'],
  endpoints: ['endpoint.stopped'],
}

/** The events of a till, as the reference says: the resource of each, and the fields of its example among the changes of its type. */
async function eventsOf(till: Till): Promise<Read[]> {
  const answer = await call(service, { url: '/events/feed?limit=500', token: till.key })
  expect(answer.statusCode, answer.body).toBe(200)
  const { events } = answer.json() as { events: Read[] }
  for (const { type, resource, changes } of events) {
    expect([type, resource.type]).toEqual([type, eventTypes[type].resource])
    for (const [field, { from, to }] of Object.entries(changes)) {
      const isMoney = field.endsWith('_cents')
      for (const value of [from, to]) {
        if (isMoney && value !== null) expect(value, `${type} ${field}`).toBeTypeOf('number')
      }
    }
  }
  for (const type of provoked[till.client] ?? []) {
    const ofType = events.filter((event) => event.type === type)
    const fields = ofType.flatMap(({ changes }) => Object.keys(changes))
    const { example } = eventTypes[type]
    expect([type, ...fields]).toEqual(expect.arrayContaining([type, ...Object.keys(example)]))
    expect([type, ofType.length > 0]).toEqual([type, true])
  }
  return events
}

const typesOf = async (till: Till) => (await eventsOf(till)).map(({ type }) => type)
const lastOf = async (till: Till, type: EventType) =>
  (await eventsOf(till)).findLast((event) => event.type === type)

async function order(till: Till, reference: string): Promise<string> {
  const answer = await charge(service, till, { reference, amount: '100,00' })
  expect(answer.statusCode, answer.body).toBe(201)
  return answer.json().order_id
}

async function simulated(till: Till, reference: string, status: string): Promise<string> {
  const id = await order(till, reference)
  expect((await simulate(service, id, { status })).statusCode).toBe(200)
  await readOrder(service, till, id)
  return id
}

test('orders: created, paid, refunded, canceled, failed, expired, in doubt', async () => {
  const till = await openOwnShop(service, 'orders')
  const paid = await sell(service, till, 'O-1')
  await setFaults(service, {
    ...refunding,
    kind: 'status',
    status: 400,
    code: 'in_store_payment_refund_order',
  })
  await refund(service, till, paid, '1,00')
  await clearFaults(service)
  expect((await refund(service, till, paid)).statusCode).toBe(200)
  await cancel(service, till, await order(till, 'O-2'))
  await simulated(till, 'O-3', 'failed')
  await simulated(till, 'O-4', 'expired')
  await simulated(till, 'O-5', 'action_required')
  const types = await typesOf(till)
  expect(types.filter((type) => type !== 'order.created')).toEqual([
    'order.paid',
    'refund.failed',
    expect.stringMatching(/^(order.refunded|refund.done)$/),
    expect.stringMatching(/^(order.refunded|refund.done)$/),
    'order.canceled',
    'order.failed',
    'order.expired',
    'order.in_doubt',
  ])
  expect((await lastOf(till, 'order.in_doubt'))?.data).toMatchObject({ standing: 'in_doubt' })
})

test('an order whose answer is lost is in doubt, is settled by a person, and needs a decision when it is paid after all', async () => {
  const till = await openOwnShop(service, 'lost answers')
  await setFaults(service, { ...creation, kind: 'drop_after' }, { ...reading, kind: '503' })
  const { order_id: id } = (await charge(service, till, { reference: 'D-1' })).json()
  service.clock.advance(60_000)
  const body = { as: 'not_paid', reason: 'the terminal shows no sale' }
  const settled = await call(service, { url: `/orders/${id}/settle`, token: till.key, body })
  expect(settled.statusCode, settled.body).toBe(200)
  await clearFaults(service)
  const mpOrderId = String(ordersAtProvider(service, till)[0]?.id)
  const path = `/_sandbox/orders/${mpOrderId}/act`
  await sandboxCall(service, 'POST', path, { ...payByCard, force: true })
  await deliver(service, { dataId: mpOrderId })
  await service.sweeper.sweepOnce()
  const types = await typesOf(till)
  expect(types.slice(0, 2)).toEqual(['order.in_doubt', 'order.settled'])
  expect(types).toEqual(expect.arrayContaining(['order.paid', 'order.needs_decision']))
  expect((await lastOf(till, 'order.needs_decision'))?.changes).toMatchObject({
    needs_decision: { from: null, to: 'paid_late' },
  })
})

test('payments without an order: unclaimed, matched, dismissed', async () => {
  const till = await openOwnShop(service, 'payments')
  await sell(service, till, 'P-1')
  await typeCharge(service, till)
  await typeCharge(service, till, { amount: '50.00' })
  await watchAfter(service, 5 * 60_000)
  const { orphans } = (await call(service, { url: '/orphans', token: till.key })).json()
  const reason = { reason: 'sold by hand' }
  for (const [place, how] of ['adopt', 'dismiss'].entries()) {
    const url = `/orphans/${orphans[place].id}/${how}`
    const answer = await call(service, { url, token: till.key, body: reason })
    expect(answer.statusCode, answer.body).toBe(200)
  }
  const types = await typesOf(till)
  const ofPayments = types.filter((type) => type.startsWith('payment.'))
  expect(ofPayments).toEqual([
    'payment.unclaimed',
    'payment.unclaimed',
    'payment.matched',
    'payment.dismissed',
  ])
  const matched = await lastOf(till, 'payment.matched')
  expect(matched).toMatchObject({
    changes: { state: { from: 'open', to: 'adopted' } },
    data: { id: orphans[0].id, amount: orphans[0].amount, order_id: expect.any(String) },
  })
  const read = await call(service, { url: matched?.resource.url ?? '', token: till.key })
  expect(read.statusCode).toBe(200)
})

test('charge-backs: opened, closed', async () => {
  const till = await openOwnShop(service, 'disputes')
  const id = await sell(service, till, 'C-1')
  await service.paymentWatch.watchOnce()
  const { mp_order_id: mpOrderId } = await orderRow(service, id)
  const { id: caseId } = (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    order_id: mpOrderId,
  })) as { id: string }
  const deliverCase = () =>
    deliver(service, {
      dataId: caseId,
      type: 'topic_chargebacks_wh',
      body: { type: 'topic_chargebacks_wh', data: { id: Number(caseId) }, user_id: till.mpUserId },
    })
  await deliverCase()
  await sandboxCall(service, 'POST', `/_sandbox/chargebacks/${caseId}/act`, { do: 'lose' })
  await deliverCase()
  const types = (await typesOf(till)).filter((type) => type.startsWith('chargeback.'))
  expect(types).toEqual(['chargeback.opened', 'chargeback.closed'])
  const closed = await lastOf(till, 'chargeback.closed')
  expect(closed?.changes).toMatchObject({ state: { from: 'open', to: 'lost' } })
  const read = await call(service, { url: closed?.resource.url ?? '', token: till.key })
  expect(read.json()).toMatchObject(closed?.data ?? { never: true })
})

test('closings and reports are thin: ready, signed, recorded', async () => {
  const till = await openOwnShop(service, 'closings')
  await sell(service, till, 'Z-1')
  const { id } = await close(service, till)
  for (let minute = 0; minute < 30; minute += 10) await watchAfter(service, 10 * 60_000)
  const signed = await call(service, {
    method: 'POST',
    url: `/closings/${id}/sign`,
    token: till.key,
  })
  expect(signed.statusCode, signed.body).toBe(200)
  const content =
    'SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_DATE,TRANSACTION_AMOUNT,FEE_AMOUNT,TAXES_AMOUNT,SETTLEMENT_NET_AMOUNT\n1,SETTLEMENT,2026-11-21,1000.00,-43.90,-16.00,940.10\n'
  for (let times = 0; times < 2; times += 1) {
    const answer = await call(service, {
      url: '/settlements/files',
      token: till.key,
      body: { content },
    })
    expect(answer.statusCode, answer.body).toBe(200)
  }
  const events = (await eventsOf(till)).filter(({ resource }) => resource.type !== 'order')
  expect(events.map(({ type, data }) => [type, data])).toEqual([
    ['closing.ready', null],
    ['closing.signed', null],
    ['settlement.recorded', null],
  ])
  expect(events[2]?.changes).toEqual({
    rows: { from: null, to: 1 },
    net_cents: { from: null, to: 94010 },
  })
  for (const { resource } of events) {
    expect((await call(service, { url: resource.url, token: till.key })).statusCode).toBe(200)
  }
})

test('the connection: lost, restored', async () => {
  const till = await openOwnShop(service, 'connections')
  await sandboxCall(service, 'POST', `/_sandbox/users/${till.mpUserId}/revoke`)
  await call(service, { method: 'POST', url: '/oauth/refresh', token: till.key })
  await connect(service, till.client, String(till.mpUserId))
  const events = await eventsOf(till)
  expect(events.map(({ type, sucursal_id }) => [type, sucursal_id])).toEqual([
    ['connection.lost', null],
    ['connection.restored', null],
  ])
})

test('a terminal: its state changes', async () => {
  const till = await openOwnShop(service, 'terminals')
  await service.deps.fleet.tick()
  await sell(service, till, 'T-1')
  await service.deps.fleet.tick()
  const changed = await lastOf(till, 'terminal.state_changed')
  expect(changed).toMatchObject({
    sucursal_id: 'SUC-1',
    resource: { type: 'terminal', id: 'CAJA-1', url: '/terminals?caja_id=CAJA-1' },
    changes: { state: { to: 'ok' } },
    data: { caja_id: 'CAJA-1', state: 'ok', cause: null },
  })
})

test('an endpoint: it is stopped', async () => {
  const till = await openOwnShop(service, 'endpoints')
  const { id } = await makeEndpoint(service, till, 'https://erp.example/events')
  const url = `${endpointsPath}/${id}/stop`
  await call(service, { method: 'POST', url, token: till.key })
  expect(await lastOf(till, 'endpoint.stopped')).toMatchObject({
    sucursal_id: null,
    resource: { type: 'endpoint', id, url: `${endpointsPath}/${id}` },
    changes: { stop_reason: { from: null, to: 'person' } },
  })
})

test('every type of the reference is provoked by a test of this file', () => {
  expect(Object.values(provoked).flat().toSorted()).toEqual(Object.keys(eventTypes).toSorted())
})
