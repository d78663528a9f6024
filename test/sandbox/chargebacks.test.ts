import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  act,
  call,
  createClock,
  createOrder,
  getOrder,
  openShop,
  paidOrder,
  refund,
  type Shop,
  startReceiver,
  startTestSandbox,
} from './support.ts'

let clock: ReturnType<typeof createClock>
let receiver: Awaited<ReturnType<typeof startReceiver>>
let sandbox: Sandbox
let shop: Shop

beforeEach(async () => {
  clock = createClock()
  receiver = await startReceiver()
  sandbox = await startTestSandbox({ now: clock.now, webhookUrl: receiver.url })
  shop = await openShop(sandbox)
})
afterEach(async () => {
  await sandbox.close()
  await receiver.close()
})

const get = (path: string, caller = String(shop.userId)) =>
  call(sandbox, 'GET', path, { token: shop.token, headers: { 'x-caller-id': caller } })
const open = (body: object) => call(sandbox, 'POST', '/_sandbox/chargebacks', { body })
const end = (id: string, body: object) =>
  call(sandbox, 'POST', `/_sandbox/chargebacks/${id}/act`, { body })

test('a charge-back of an order has a case, both webhooks, and refuses refunds', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '1234.50')
  await receiver.until(1)
  const { body: made } = await open({ order_id: id, reason: 'fraud' })
  const [, ofOrder, ofCase] = await receiver.until(3)
  expect(ofOrder?.body).toMatchObject({
    action: 'order.charged_back',
    type: 'order',
    data: {
      id,
      status: 'charged_back',
      transactions: {
        chargebacks: [{ transaction_id: paymentId, case_id: made.id, status: 'in_process' }],
      },
    },
  })
  expect(ofOrder?.body.data.transactions).not.toHaveProperty('payments')
  expect(ofCase?.url.href).toBe(
    `http://receiver/webhooks?data.id=${made.id}&type=topic_chargebacks_wh`,
  )
  expect(ofCase?.body).toMatchObject({
    actions: ['changed_case_status'],
    data: { id: Number(made.id) },
  })
  const order = await getOrder(sandbox, shop, id)
  expect(order.body).toMatchObject({ status: 'charged_back', status_detail: 'in_process' })
  const number = order.body.transactions.payments[0].reference_id
  expect((await get(`/v1/payments/${number}`)).body).toMatchObject({
    status: 'charged_back',
    status_detail: 'in_process',
  })
  expect((await refund(sandbox, shop, id)).body.errors[0].code).toBe('cannot_refund_order')

  const read = await get(`/v1/chargebacks/${made.id}`)
  expect(read.body).toMatchObject({
    id: made.id,
    payments: [Number(number)],
    currency: 'ARS',
    amount: 1234.5,
    reason: 'fraud',
    coverage_elegible: true,
    coverage_applied: null,
    documentation_status: 'pending',
  })
  expect((await get(`/v1/chargebacks/${made.id}`, '1')).status).toBe(400)
  expect((await get('/v1/chargebacks/1')).status).toBe(404)
  const found = await get(`/v1/chargebacks/search?payment_id=${number}`)
  expect(found.body.results.map((one: { id: string }) => one.id)).toEqual([made.id])
})

test.each([
  ['win', true, 'reimbursed'],
  ['lose', false, 'settled'],
])('a case that ends with %s decides by coverage_applied', async (outcome, covered, detail) => {
  const { id } = await paidOrder(sandbox, shop, '100.00')
  const { body: made } = await open({ order_id: id, webhooks: 'none' })
  clock.advance(30 * 86_400_000)
  await end(made.id, { do: outcome, webhooks: 'case', form: 'action' })
  const [, notified] = await receiver.until(2)
  expect(notified?.body).toMatchObject({
    action: 'chargebacks.updated',
    data: { id: Number(made.id) },
  })
  expect(typeof notified?.body.payment_id).toBe('number')
  expect((await get(`/v1/chargebacks/${made.id}`)).body.coverage_applied).toBe(covered)
  expect((await getOrder(sandbox, shop, id)).body).toMatchObject({
    status: 'charged_back',
    status_detail: detail,
  })
})

test('documents are due until their deadline, which may also be absent', async () => {
  const { id } = await paidOrder(sandbox, shop, '100.00')
  const deadline = new Date(clock.now().getTime() + 3_600_000).toISOString()
  const { body: made } = await open({ order_id: id, deadline })
  expect(Date.parse(made.date_documentation_deadline)).toBe(Date.parse(deadline))
  clock.advance(3_700_000)
  expect((await get(`/v1/chargebacks/${made.id}`)).body.documentation_status).toBe('not_supplied')
  const { body: sent } = await end(made.id, { do: 'documentation' })
  expect(sent.documentation_status).toBe('review_pending')
  const { body: none } = await end(made.id, { do: 'deadline', deadline: null })
  expect(none).toMatchObject({
    date_documentation_deadline: null,
    documentation_status: 'not_applicable',
  })
})

test('a payment without an order is charged back by its number', async () => {
  const { body } = await call(sandbox, 'POST', '/_sandbox/payments', {
    body: { user_id: shop.userId, pos_id: shop.posId, amount: '77.50' },
  })
  const [{ id }] = body.payments
  const { body: made } = await open({ payment_id: id, amount: '50.00' })
  expect(made).toMatchObject({ payments: [id], amount: 50 })
  expect((await get(`/v1/payments/${id}`)).body.status).toBe('charged_back')
  const back = await call(sandbox, 'POST', `/v1/payments/${id}/refunds`, {
    token: shop.token,
    key: 'k-1',
  })
  expect(back.status).toBe(400)
  expect((await open({ payment_id: 1 })).status).toBe(404)
})

test.each([
  ['processing', 'processed'],
  ['in_process', 'failed'],
])('an order that the provider works on reads %s until it ends %s', async (as, then) => {
  const { body: order } = await createOrder(sandbox, shop, '100.00')
  const during = await act(sandbox, order.id, { do: 'process', as, then, after_ms: 5_000 })
  expect(during.body.status).toBe(as)
  expect((await createOrder(sandbox, shop, '5.00')).body.errors[0].code).toBe(
    'already_queued_order_on_terminal',
  )
  const cancel = await call(sandbox, 'POST', `/v1/orders/${order.id}/cancel`, {
    token: shop.token,
    key: `cancel-${as}`,
    headers: { 'x-allow-cancelable-status': 'at_terminal' },
  })
  expect(cancel.body.errors[0].code).toBe('cannot_cancel_order')
  const number = during.body.transactions.payments[0].reference_id
  expect((await get(`/v1/payments/${number}`)).body.status).toBe('in_process')
  clock.advance(4_000)
  expect((await getOrder(sandbox, shop, order.id)).body.status).toBe(as)
  clock.advance(2_000)
  const after = await getOrder(sandbox, shop, order.id)
  expect(after.body).toMatchObject({ status: then })
  expect(after.body.transactions.payments[0].reference_id).toBe(number)
})

test('an order in processing without a set end ends by an act only, never by time', async () => {
  const { body: order } = await createOrder(sandbox, shop, '100.00')
  await act(sandbox, order.id, { do: 'process' })
  clock.advance(24 * 3_600_000)
  expect((await getOrder(sandbox, shop, order.id)).body.status).toBe('processing')
  expect((await act(sandbox, order.id, { do: 'cancel' })).status).toBe(409)
  expect((await act(sandbox, order.id, { do: 'pay' })).body.status).toBe('processed')
})

test('of two payments of an order only the disputed one is charged back', async () => {
  const { id } = await paidOrder(sandbox, shop, '100.00')
  await act(sandbox, id, { do: 'pay_again' })
  const { body: before } = await getOrder(sandbox, shop, id)
  const [first, second] = before.transactions.payments
  const { body: made } = await open({ payment_id: Number(second.reference_id) })
  const { body: after } = await getOrder(sandbox, shop, id)
  expect(after.transactions.payments.map(({ status }: { status: string }) => status)).toEqual([
    'processed',
    'charged_back',
  ])
  expect(after.transactions.chargebacks).toMatchObject([
    { transaction_id: second.id, case_id: made.id },
  ])
  expect((await get(`/v1/payments/${first.reference_id}`)).body.status).toBe('approved')
})
