import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, openShop, payByCard, readOrder } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

test('a till charges a card, reads it as approved, and refunds a part and then the rest', async () => {
  const till = await openShop(service, 'acme')
  const created = await charge(service, till, { reference: 'T 1/1', amount: '1234,5' })
  expect(created.statusCode).toBe(201)
  expect(created.json()).toMatchObject({ external_reference: 'T 1/1', status: 'created' })
  const { order_id } = created.json()

  await act(service, order_id, payByCard)
  const paid = (await readOrder(service, till, order_id)).json()
  expect(paid).toMatchObject({ status: 'processed', amount: '1234.50', outcome: 'charged' })
  expect(paid.payments).toMatchObject([
    { status: 'approved', paid_amount: '1234.50', payment_method: { type: 'credit_card' } },
  ])

  const refund = (amount?: string) =>
    call(service, {
      url: '/orders/refund',
      token: till.key,
      body: { order_id, ...(amount && { amount }) },
    })
  expect((await refund('234,50')).json()).toMatchObject({
    type: 'partial',
    amount: '234.50',
    status: 'partially_refunded',
  })
  expect((await refund()).json()).toMatchObject({
    type: 'total',
    amount: '1000.00',
    status: 'refunded',
  })
  const ledger = service.sandbox.ledger().orders
  expect(ledger).toMatchObject([{ status: 'refunded', refunded_amount: '1234.50' }])
})
