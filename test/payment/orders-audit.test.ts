import { afterAll, beforeAll, expect, test } from 'vitest'
import { auditOf, cancel, openOwnShop, refund, simulate } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

test('every action on an order writes one entry with caller, time, duration, outcome and reason', async () => {
  const till = await openOwnShop(service, 'audited')
  const startedAt = service.clock.now().getTime()
  const address = '192.0.2.7'
  const send = (url: string, body: object) =>
    service.app.inject({
      method: 'POST',
      url,
      headers: { 'x-api-token': till.key },
      remoteAddress: address,
      payload: body,
    })
  const order = { caja_id: 'CAJA-1', external_reference: 'AUD-1', amount: '100,00' }
  const { order_id } = (await send('/orders', order)).json()
  await send('/orders', { ...order, external_reference: 'AUD-2' })
  await send('/orders/refund', { order_id })
  await act(service, order_id, payByCard)
  await send('/orders/cancel', { order_id })
  await send('/orders/refund', { order_id, amount: '40,00' })
  await send('/orders/refund', { order_id, amount: '999,00' })
  const second = (await send('/orders', { ...order, external_reference: 'AUD-3' })).json().order_id
  await send('/orders/cancel', { order_id: second })
  await simulate(service, second, { status: 'processed' })

  const entries = await auditOf(service, till.client)
  const ofOrders = entries.filter((entry) => String(entry.action).startsWith('order.'))
  expect(ofOrders.map(({ action, status, resource_id }) => [action, status, resource_id])).toEqual([
    ['order.created', 'success', order_id],
    ['order.created', 'failed', null],
    ['order.refunded', 'failed', order_id],
    ['order.canceled', 'failed', order_id],
    ['order.refunded', 'success', order_id],
    ['order.refunded', 'failed', order_id],
    ['order.created', 'success', second],
    ['order.canceled', 'success', second],
    ['order.simulated', 'failed', second],
  ])
  expect(ofOrders.filter((entry) => entry.status === 'failed').map((e) => e.error_message)).toEqual(
    [
      expect.stringMatching(/^TERMINAL_BUSY: /),
      expect.stringMatching(/^ORDER_NOT_REFUNDABLE: /),
      expect.stringMatching(/^ORDER_NOT_CANCELABLE: /),
      expect.stringMatching(/^REFUND_AMOUNT_EXCEEDS: /),
      expect.stringMatching(/^CONFLICT: /),
    ],
  )
  for (const entry of ofOrders.slice(0, -1)) {
    expect(entry).toMatchObject({ client_name: till.client, ip_address: address })
    expect(entry.duration_ms).toBeGreaterThanOrEqual(0)
    expect(Date.parse(String(entry.created_at))).toBeGreaterThanOrEqual(startedAt)
  }
  expect(ofOrders[0]?.metadata).toEqual({
    mp_order_id: expect.stringMatching(/^ORD/),
    amount: '100.00',
    caja_id: 'CAJA-1',
    key_id: expect.any(String),
  })
  expect(ofOrders[4]?.metadata).toMatchObject({ type: 'partial', amount: '40.00' })
  const check = await asAdmin(service, { url: '/admin/activity/verify' })
  expect(check.json()).toMatchObject({ valid: true })
})

test('reads, replays, invalid bodies and refused keys write no entry', async () => {
  const till = await openOwnShop(service, 'no action')
  const { order_id } = (await charge(service, till, { reference: 'AUD-4' })).json()
  const before = (await auditOf(service, till.client)).length
  await charge(service, till, { reference: 'AUD-4' })
  await call(service, { url: `/orders/${order_id}`, token: till.key })
  await charge(service, till, { reference: 'AUD-5', amount: '1.5' })
  await cancel(service, { key: `mk_${'0'.repeat(64)}` }, order_id)
  await cancel(service, till, order_id)
  await cancel(service, till, order_id)
  expect((await auditOf(service, till.client)).length).toBe(before + 1)
})

test('failed actions of a client without a connection are audited', async () => {
  const till = await openOwnShop(service, 'unplugged')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  await charge(service, till, { reference: 'AUD-6' })
  await refund(service, till, '00000000-0000-4000-8000-000000000000')
  expect(
    (await auditOf(service, till.client)).slice(-2).map(({ action, status }) => [action, status]),
  ).toEqual([
    ['order.created', 'failed'],
    ['order.refunded', 'failed'],
  ])
})
