import { expect, test } from 'vitest'
import { evidenceFrom, MpOrder } from '../../src/provider/order-payloads.ts'
import { orderId, paymentId } from './provider-setup.ts'

const payment = {
  id: paymentId,
  amount: '1234.50',
  paid_amount: '1234.50',
  reference_id: '115019989861',
  status: 'processed',
  status_detail: 'accredited',
  payment_method: { type: 'credit_card', installments: 1, id: 'visa' },
  card: { first_digits: '450995', last_digits: '3704' },
}

const order = {
  id: orderId,
  user_id: '2025701502',
  type: 'point',
  external_reference: 'TCK-0001-00004711',
  processing_mode: 'automatic',
  country_code: 'ARG',
  currency: 'ARS',
  status: 'processed',
  status_detail: 'accredited',
  created_date: '2026-11-20T14:26:42.109320977Z',
  last_updated_date: '2026-11-20T15:02:10.551209114Z',
  config: { point: { terminal_id: 'NEWLAND_N950__SBX0000001', print_on_terminal: 'no_ticket' } },
  transactions: { payments: [payment] },
}

function read(body: unknown) {
  return evidenceFrom(MpOrder.parse(body))
}

function refunded(amount: string, status = 'processed', transaction: string | null = paymentId) {
  return { id: 'REF1', transaction_id: transaction, amount, status }
}

function withPayment(change: object, rest: object = {}) {
  return { ...order, ...rest, transactions: { payments: [{ ...payment, ...change }] } }
}

test('a paid order gives this evidence, without card data', () => {
  expect(read(order)).toEqual({
    mpOrderId: orderId,
    mpUserId: '2025701502',
    externalReference: 'TCK-0001-00004711',
    terminalId: 'NEWLAND_N950__SBX0000001',
    currency: 'ARS',
    status: 'processed',
    providerStatus: 'processed',
    statusDetail: 'accredited',
    amountCents: 123_450,
    paidCents: 123_450,
    refundedCents: 0,
    payments: [
      {
        id: paymentId,
        amountCents: 123_450,
        paidCents: 123_450,
        refundedCents: 0,
        status: 'approved',
        statusDetail: 'accredited',
        methodType: 'credit_card',
        methodId: 'visa',
        installments: 1,
        referenceId: '115019989861',
      },
    ],
    refunds: [],
    updatedAt: '2026-11-20T15:02:10.551209114Z',
  })
  expect(JSON.stringify(read(order))).not.toMatch(/450995|3704/)
})

test('numbers and strings, two letters or three, and the webhook form give the same evidence', () => {
  const variant = {
    ...order,
    user_id: 2025701502,
    country_code: 'AR',
    integration_data: { application_id: 1 },
    transactions: {
      payments: [
        {
          ...payment,
          amount: 1234.5,
          paid_amount: '1234.5',
          reference_id: undefined,
          reference: { id: 115019989861 },
          payment_method: { ...payment.payment_method, installments: '1' },
        },
      ],
      refunds: null,
    },
  }
  expect(read(variant)).toEqual(read(order))
})

test.each([
  ['created', 'created', 'created'],
  ['at_terminal', 'at_terminal', 'at_terminal'],
  ['processed', 'processed', 'processed'],
  ['processed', 'accredited', 'processed'],
  ['processed', 'partially_refunded', 'partially_refunded'],
  ['canceled', 'canceled', 'canceled'],
  ['failed', 'failed', 'failed'],
  ['expired', 'expired', 'expired'],
  ['action_required', 'action_required', 'action_required'],
  ['action_required', 'check_on_terminal', 'action_required'],
  ['refunded', 'refunded', 'refunded'],
  ['refunded', 'partially_refunded', 'refunded'],
  ['partially_refunded', 'x', null],
  ['approved', 'x', null],
  ['PROCESSED', 'x', null],
  ['constructor', 'x', null],
  ['', 'x', null],
])('provider status %s with detail %s is %s', (status, detail, ours) => {
  const evidence = read({ ...order, status, status_detail: detail })
  expect(evidence).toMatchObject({ status: ours, providerStatus: status, statusDetail: detail })
})

test.each([
  ['refunded_amount below paid', { refunded_amount: '234.50' }, [], 'partially_refunded', 23_450],
  ['refunded_amount of zero', { refunded_amount: '0.00' }, [], 'processed', 0],
  ['refunded_amount of all', { refunded_amount: '1234.50' }, [], 'processed', 123_450],
  ['one refund', {}, [refunded('234.50')], 'partially_refunded', 23_450],
  ['a refund in progress', {}, [refunded('34.50', 'processing')], 'partially_refunded', 3_450],
  ['two refunds', {}, [refunded('200'), refunded('34.5')], 'partially_refunded', 23_450],
  ['a failed refund', {}, [refunded('234.50', 'failed')], 'processed', 0],
  [
    'a refund without its payment',
    {},
    [refunded('1.00', 'processed', null)],
    'partially_refunded',
    100,
  ],
  ['a refund of a payment not listed', {}, [refunded('1.00', 'processed', 'PAYX')], 'processed', 0],
  ['both of them', { refunded_amount: '2.00' }, [refunded('2.00')], 'partially_refunded', 200],
])('an order with %s has its refunded amount', (_name, change, refunds, status, refundedCents) => {
  const body = { ...order, transactions: { payments: [{ ...payment, ...change }], refunds } }
  expect(read(body)).toMatchObject({ status, refundedCents, paidCents: 123_450 })
})

test('a full refund without amounts is the whole paid sum', () => {
  const body = withPayment({ status: 'refunded' }, { status: 'refunded' })
  expect(read(body)).toMatchObject({
    status: 'refunded',
    paidCents: 123_450,
    refundedCents: 123_450,
  })
})

/** An order with two approved payments of these amounts. */
function paidTwice(first: string, second: string, rest: object = {}) {
  const of = (id: string, amount: string) => ({ ...payment, id, amount, paid_amount: amount })
  const payments = [of(paymentId, first), of('PAY2', second)]
  return read({ ...order, ...rest, transactions: { payments, refunds: [] } })
}

test.each([
  ['the whole amount again', '1234.50', '1234.50', { total_amount: '1234.50' }, 123_450, true],
  ['parts of the amount', '1000.00', '234.50', { total_amount: '1234.50' }, 123_450, false],
  ['a second one of an order without an amount', '1000.00', '234.50', {}, 100_000, true],
])('two payments: %s', (_, first, second, rest, paidCents, isSurplus) => {
  const evidence = paidTwice(first, second, rest)
  expect(evidence.paidCents).toBe(paidCents)
  expect(evidence.payments.map((one) => one.isSurplus === true)).toEqual([false, isSurplus])
})

test('the refund of a further payment does not count as a refund of the order', () => {
  const payments = [payment, { ...payment, id: 'PAY2', status: 'refunded' }]
  const refunds = [refunded('1234.50', 'processed', 'PAY2')]
  const body = {
    ...order,
    status_detail: 'partially_refunded',
    transactions: { payments, refunds },
  }
  expect(read(body)).toMatchObject({ status: 'processed', refundedCents: 0, refunds: [] })
})

test.each([
  ['with interest', { installments: 6, paid: '1400.00', tip: undefined }, 123_450],
  ['with interest and a tip', { installments: 6, paid: '1400.00', tip: '10.00' }, 124_450],
  ['without instalments', { installments: 1, paid: '1400.00', tip: undefined }, 140_000],
  ['paid less', { installments: 6, paid: '1000.00', tip: undefined }, 100_000],
])(
  'the amount that the shop receives of a payment %s',
  (_, { installments, paid, tip }, receivedCents) => {
    const payment_method = { type: 'credit_card', installments, id: 'visa' }
    const body = withPayment({ paid_amount: paid, tip_amount: tip, payment_method })
    expect(read(body).paidCents).toBe(receivedCents)
  },
)

test('a tip counts as paid', () => {
  expect(read(withPayment({ paid_amount: '1300.00', tip_amount: '65.50' }))).toMatchObject({
    amountCents: 123_450,
    paidCents: 130_000,
  })
})

test.each([
  ['created', 'created', 0],
  ['at_terminal', 'at_terminal', 0],
  ['action_required', 'action_required', 0],
  ['canceled', 'canceled', 0],
  ['failed', 'rejected', 0],
  ['processed', 'approved', 123_450],
  ['refunded', 'refunded', 123_450],
])('a payment that is %s is read as %s and counts %i as paid', (status, ours, paidCents) => {
  const evidence = read(withPayment({ status, paid_amount: undefined }))
  expect(evidence.payments[0]).toMatchObject({ status: ours, paidCents: null })
  expect(evidence.paidCents).toBe(paidCents)
})

test('a payment on a closed order is in its evidence', () => {
  expect(read({ ...order, status: 'canceled' })).toMatchObject({
    status: 'canceled',
    paidCents: 123_450,
  })
})

test('the body of a create gives the same evidence as a read at that time', () => {
  const fresh = { id: paymentId, amount: '1234.50', status: 'created' }
  const created = { ...order, status: 'created', status_detail: 'created' }
  expect(read({ ...created, transactions: { payments: [fresh] } })).toEqual(
    read({
      ...created,
      transactions: { payments: [{ ...fresh, status_detail: null }], refunds: [] },
    }),
  )
})

test('the short form of a cancel leaves unknown fields null', () => {
  const body = {
    id: orderId,
    status: 'at_terminal',
    status_detail: 'at_terminal',
    transactions: {
      payments: [{ id: paymentId, status: 'at_terminal', status_detail: 'cancellation_requested' }],
    },
  }
  expect(read(body)).toEqual({
    mpOrderId: orderId,
    mpUserId: null,
    externalReference: null,
    terminalId: null,
    currency: null,
    status: 'at_terminal',
    providerStatus: 'at_terminal',
    statusDetail: 'cancellation_requested',
    amountCents: null,
    paidCents: 0,
    refundedCents: 0,
    payments: [],
    refunds: [],
    updatedAt: null,
  })
})

test('totals replace payments that are missing', () => {
  const { transactions, ...rest } = order
  expect(read({ ...rest, total_amount: '10', total_paid_amount: '10.00' })).toMatchObject({
    amountCents: 1_000,
    paidCents: 1_000,
    payments: [],
  })
})

const unreadable = ['1,234.50', '-1.00', '1.234', '1e3', '', 'NaN', 'abc', true, {}, [], -5, 1.001]

test.each<[string, object]>([
  ['no id', { id: undefined }],
  ['an id that is a number', { id: 5 }],
  ['no status', { status: undefined }],
  ['a status that is not a text', { status: { code: 'processed' } }],
  ['payments that are not a list', { transactions: { payments: {} } }],
  ['a payment without status', { transactions: { payments: [{ ...payment, status: undefined }] } }],
  ...unreadable.flatMap((amount): [string, object][] => [
    [`a total paid of ${JSON.stringify(amount)}`, { total_paid_amount: amount }],
    [
      `an amount of ${JSON.stringify(amount)}`,
      { transactions: { payments: [{ ...payment, amount }] } },
    ],
    [
      `a refund of ${JSON.stringify(amount)}`,
      { transactions: { refunds: [{ id: 'REF1', amount, status: 'processed' }] } },
    ],
  ]),
])('%s makes the answer invalid', (_name, change) => {
  expect(MpOrder.safeParse({ ...order, ...change }).success).toBe(false)
})

test('descriptive fields of a payment are null when they cannot be parsed', () => {
  const odd = withPayment({ payment_method: 'visa', reference_id: {}, status_detail: 7 })
  expect(read(odd).payments[0]).toMatchObject({
    methodType: null,
    referenceId: null,
    statusDetail: '7',
  })
  const installments = withPayment({
    payment_method: { type: 'credit_card', installments: 'many' },
  })
  expect(read(installments).payments[0]).toMatchObject({
    methodType: 'credit_card',
    installments: null,
  })
})

test.each<[string, object, true | undefined]>([
  [
    'only a payment that failed',
    { transactions: { payments: [{ ...payment, status: 'failed' }] } },
    true,
  ],
  ['an empty list of payments', { transactions: { payments: [] } }, true],
  [
    'a failed payment and one that went through',
    { transactions: { payments: [{ ...payment, status: 'failed' }, payment] } },
    undefined,
  ],
  [
    'an empty list beside a paid sum',
    { total_paid_amount: '10.00', transactions: { payments: [] } },
    undefined,
  ],
  ['no list of payments', { transactions: { refunds: [] } }, undefined],
  ['no transactions', { transactions: undefined }, undefined],
  [
    'a payment in an unknown state',
    { transactions: { payments: [{ ...payment, status: 'under_review' }] } },
    undefined,
  ],
])('hasNoPayment of a processed order with %s', (_name, change, hasNoPayment) => {
  expect(read({ ...order, ...change }).hasNoPayment).toBe(hasNoPayment)
})
