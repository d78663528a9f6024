import { afterEach, beforeEach, describe, expect, it } from 'vitest'
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
let sandbox: Sandbox
let shop: Shop

beforeEach(async () => {
  clock = createClock()
  sandbox = await startTestSandbox({ now: clock.now })
  shop = await openShop(sandbox)
})
afterEach(() => sandbox.close())

const part = (id: string, amount: string) => ({ transactions: [{ id, amount }] })

it('refunds the whole amount without a body', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '100.00')
  const answer = await refund(sandbox, shop, id)
  expect(answer.status).toBe(201)
  expect(answer.body).toMatchObject({ id, status: 'refunded', status_detail: 'refunded' })
  expect(answer.body.transactions.refunds).toEqual([
    {
      id: expect.stringMatching(/^REF.{26}$/),
      transaction_id: paymentId,
      reference_id: expect.any(String),
      amount: '100.00',
      status: 'processed',
    },
  ])
  const read = await getOrder(sandbox, shop, id)
  expect(read.body.transactions.payments[0]).toMatchObject({
    status: 'refunded',
    status_detail: 'refunded',
    refunded_amount: '100.00',
  })
  expect((await refund(sandbox, shop, id)).body.errors[0].code).toBe('order_already_refunded')
})

it('refunds in parts up to the paid amount; reaching it ends in refunded', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '100.00')
  const first = await refund(sandbox, shop, id, { body: part(paymentId, '33.34') })
  expect(first.body).toMatchObject({ status: 'processed', status_detail: 'partially_refunded' })
  const exceeding = await refund(sandbox, shop, id, { body: part(paymentId, '66.67') })
  expect(exceeding).toMatchObject({
    status: 400,
    body: { errors: [{ code: 'refund_amount_exceeds' }] },
  })
  const second = await refund(sandbox, shop, id, { body: part(paymentId, '66.66') })
  expect(second.body).toMatchObject({ status: 'refunded', status_detail: 'refunded' })
  const read = await getOrder(sandbox, shop, id)
  expect(read.body.transactions.refunds.map((each: { amount: string }) => each.amount)).toEqual([
    '33.34',
    '66.66',
  ])
})

it('refunds the rest when a total refund follows parts', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '10.00')
  await refund(sandbox, shop, id, { body: part(paymentId, '0.01') })
  const rest = await refund(sandbox, shop, id, { body: {} })
  expect(rest.body.transactions.refunds.map((each: { amount: string }) => each.amount)).toEqual([
    '9.99',
  ])
  expect(sandbox.ledger()).toMatchObject({ refunds: 2, refunded_total: '10.00' })
})

it('never refunds more than was paid, also for many requests at once', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '100.00')
  const answers = await Promise.all([
    ...Array.from({ length: 5 }, () =>
      refund(sandbox, shop, id, { body: part(paymentId, '30.00') }),
    ),
    refund(sandbox, shop, id),
    refund(sandbox, shop, id),
  ])
  expect(answers.filter(({ status }) => status === 201).length).toBeGreaterThan(0)
  const [order] = sandbox.ledger().orders
  expect(order).toMatchObject({ status: 'refunded', refunded_amount: '100.00' })
  const given = order?.refunds.reduce((sum, each) => sum + Number(each.amount), 0)
  expect(given).toBe(100)
})

it('refunds once for one key, and refuses another body with it', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '100.00')
  const body = part(paymentId, '10.00')
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => refund(sandbox, shop, id, { body, key: 'same' })),
  )
  const ids = answers.map((answer) => answer.body.transactions.refunds[0].id)
  expect(new Set(ids).size).toBe(1)
  const other = await refund(sandbox, shop, id, { body: part(paymentId, '20.00'), key: 'same' })
  expect(other.body.errors[0].code).toBe('idempotency_key_already_used')
  expect(sandbox.ledger().refunded_total).toBe('10.00')
})

it.each([
  ['credit_card', 201],
  ['debit_card', 201],
  ['qr', 201],
  ['digital_wallet', 201],
  ['voucher_card', 400],
  ['bank_transfer', 400],
])('answers a partial refund of %s with %i', async (payment_method_type, status) => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '10.00', { payment_method_type })
  const answer = await refund(sandbox, shop, id, { body: part(paymentId, '4.00') })
  expect(answer.status).toBe(status)
  if (status === 400) {
    expect(answer.body.errors[0].code).toBe('unsupported_partially_refunds')
    expect(sandbox.ledger().refunds).toBe(0)
  }
  expect((await refund(sandbox, shop, id)).status).toBe(201)
})

it('takes no partial refund of an order with a tip, but a total one', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '10.00', { tip_amount: '1.00' })
  const answer = await refund(sandbox, shop, id, { body: part(paymentId, '4.00') })
  expect(answer).toMatchObject({
    status: 403,
    body: { errors: [{ code: 'partial_refund_forbidden_with_tips' }] },
  })
  const total = await refund(sandbox, shop, id)
  expect(total.body.transactions.refunds[0].amount).toBe('11.00')
})

it('refunds for 90 days', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop)
  clock.advance(90 * 86_400_000)
  expect((await refund(sandbox, shop, id, { body: part(paymentId, '1.00') })).status).toBe(201)
  clock.advance(1)
  const late = await refund(sandbox, shop, id)
  expect(late).toMatchObject({
    status: 409,
    body: { errors: [{ code: 'refund_period_exceeded' }] },
  })
})

it('refuses orders that are not paid, unknown payments, other sellers and odd bodies', async () => {
  const open = await createOrder(sandbox, shop)
  const code = async (id: string, body?: unknown) => {
    return (await refund(sandbox, shop, id, { body })).body.errors[0].code
  }
  expect(await code(open.body.id)).toBe('cannot_refund_order')
  const other = await openShop(sandbox, 5001)
  const { id, paymentId } = await paidOrder(sandbox, other)
  expect((await refund(sandbox, shop, id)).status).toBe(401)
  const mine = { ...shop, token: other.token }
  const asOwner = async (body: unknown) =>
    (await refund(sandbox, mine, id, { body })).body.errors[0].code
  expect(await asOwner(part(paymentId.replace(/.$/, '!'), '1.00'))).toBe('transaction_not_found')
  expect(await asOwner({ amount: '1.00' })).toBe('unsupported_properties')
  expect(await asOwner({ transactions: [] })).toBe('minimum_items')
  expect(await asOwner({ transactions: [{ id: paymentId }] })).toBe('required_properties')
  expect(await asOwner({ transactions: [{ id: paymentId, amount: '-1' }] })).toBe('property_value')
  expect(sandbox.ledger().refunds).toBe(0)
})

describe('a refund that is processing first', () => {
  const setRules = (rule: object) =>
    call(sandbox, 'PUT', '/_sandbox/faults', {
      body: [{ path: '/refund$', kind: 'refund_processing', ...rule }],
    })

  it.each([
    ['processed', 'refunded', '100.00'],
    ['failed', 'processed', undefined],
  ])('ends as %s after its time, and the order is %s', async (ends, status, refunded) => {
    const { id } = await paidOrder(sandbox, shop, '100.00')
    await setRules({ delay_ms: 60_000, ends })
    const answer = await refund(sandbox, shop, id)
    expect(answer).toMatchObject({ status: 201, body: { status: 'refunded' } })
    expect(answer.body.transactions.refunds[0].status).toBe('processing')
    const receiver = await startReceiver()
    try {
      await call(sandbox, 'PUT', '/_sandbox/webhooks', { body: { url: receiver.url } })
      clock.advance(59_999)
      expect((await getOrder(sandbox, shop, id)).body.status).toBe('refunded')
      clock.advance(1)
      const { body } = await getOrder(sandbox, shop, id)
      expect(body.status).toBe(status)
      expect(body.transactions.refunds[0].status).toBe(ends)
      expect(body.transactions.payments[0].refunded_amount).toBe(refunded)
      expect(body.transactions.payments[0].status).toBe(status)
      const [notified] = await receiver.until(1)
      expect(notified?.body.data).toMatchObject({ id, status })
      expect(receiver.received).toHaveLength(1)
    } finally {
      await receiver.close()
    }
  })

  it('takes back only its own amount when it fails', async () => {
    const { id, paymentId } = await paidOrder(sandbox, shop, '100.00')
    await refund(sandbox, shop, id, { body: part(paymentId, '30.00') })
    await setRules({ count: 1 })
    await refund(sandbox, shop, id)
    await act(sandbox, id, { do: 'end_refund', as: 'failed' })
    expect(sandbox.ledger().orders[0]).toMatchObject({
      status: 'processed',
      status_detail: 'partially_refunded',
      refunded_amount: '30.00',
      refunds: [
        { amount: '30.00', status: 'processed' },
        { amount: '70.00', status: 'failed' },
      ],
    })
    const again = await refund(sandbox, shop, id)
    expect(again.body.transactions.refunds[0]).toMatchObject({
      amount: '70.00',
      status: 'processed',
    })
  })

  it('ends once, by an act', async () => {
    const { id } = await paidOrder(sandbox, shop, '100.00')
    await setRules({})
    const { body } = await refund(sandbox, shop, id)
    const end = { do: 'end_refund', refund_id: body.transactions.refunds[0].id, as: 'processed' }
    clock.advance(86_400_000)
    expect((await getOrder(sandbox, shop, id)).body.transactions.refunds[0].status).toBe(
      'processing',
    )
    expect((await act(sandbox, id, end)).status).toBe(200)
    expect((await act(sandbox, id, end)).status).toBe(409)
  })
})

it('the panel refunds and cancels without a caller', async () => {
  const { id } = await paidOrder(sandbox, shop, '100.00')
  await act(sandbox, id, { do: 'refund', amount: '30.00' })
  expect((await act(sandbox, id, { do: 'refund', amount: '70.01' })).status).toBe(409)
  expect((await act(sandbox, id, { do: 'refund', amount: 'all' })).status).toBe(400)
  const { body } = await act(sandbox, id, { do: 'refund' })
  expect(body.transactions.refunds.map((each: { amount: string }) => each.amount)).toEqual([
    '30.00',
    '70.00',
  ])
  const open = await createOrder(sandbox, shop)
  const canceled = await act(sandbox, open.body.id, { do: 'panel_cancel' })
  expect(canceled.body).toMatchObject({ status: 'canceled' })
  expect((await act(sandbox, open.body.id, { do: 'refund' })).status).toBe(409)
})

it('shows a refund of instalments with interest as the amount of the shop or of the buyer', async () => {
  const how = { installments: 6, interest_amount: '1.84' }
  const plain = await paidOrder(sandbox, shop, '10.00', how)
  const shown = await call(sandbox, 'GET', `/v1/orders/${plain.id}`, { token: shop.token })
  expect(shown.body.transactions.payments[0]).toMatchObject({
    amount: '10.00',
    paid_amount: '11.84',
  })
  const ofShop = await refund(sandbox, shop, plain.id)
  expect(ofShop.body).toMatchObject({
    status: 'refunded',
    transactions: { refunds: [{ amount: '10.00' }] },
  })
  const named = await paidOrder(sandbox, shop, '10.00', { ...how, interest_refunded: true })
  const ofBuyer = await refund(sandbox, shop, named.id)
  expect(ofBuyer.body.transactions.refunds[0].amount).toBe('11.84')
})

it('takes a payment of less than the order, and refunds no more than it', async () => {
  const { id, paymentId } = await paidOrder(sandbox, shop, '10.00', { paid_amount: '6.00' })
  const tooMuch = await refund(sandbox, shop, id, { body: part(paymentId, '7.00') })
  expect(tooMuch.body.errors[0].code).toBe('refund_amount_exceeds')
  expect((await refund(sandbox, shop, id)).body.transactions.refunds[0].amount).toBe('6.00')
})

it('takes a further payment of a paid order, which the order lists or hides', async () => {
  const { id } = await paidOrder(sandbox, shop, '10.00')
  const path = `/_sandbox/orders/${id}/act`
  const listed = await call(sandbox, 'POST', path, { body: { do: 'pay_again' } })
  expect(listed.body.transactions.payments).toHaveLength(2)
  const hidden = await call(sandbox, 'POST', path, { body: { do: 'pay_again', in_order: false } })
  expect(hidden.body.transactions.payments).toHaveLength(2)
  const search = `/v1/payments/search?external_reference=${hidden.body.external_reference}`
  const found = await call(sandbox, 'GET', search, { token: shop.token })
  expect(found.body.results).toHaveLength(3)
  const number = listed.body.transactions.payments[1].reference_id
  const made = await call(sandbox, 'POST', `/v1/payments/${number}/refunds`, {
    token: shop.token,
    key: 'further',
  })
  expect(made.body).toMatchObject({ payment_id: Number(number), amount: 10 })
  const after = await call(sandbox, 'GET', `/v1/orders/${id}`, { token: shop.token })
  expect(after.body).toMatchObject({
    status: 'processed',
    transactions: { payments: [{ status: 'processed' }, { status: 'refunded' }] },
  })
})
