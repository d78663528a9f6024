import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { orderStatuses } from '../../src/domain/order.ts'
import { type ErrorCode, errorCatalogue } from '../../src/errors/app-error.ts'
import {
  type MoneyState,
  moneyOutcome,
  orderMoneyOutcome,
  outcomeOf,
  retryOf,
  type Situation,
  situations,
} from '../../src/errors/money-outcome.ts'

const plain: MoneyState = {
  creation: 'confirmed',
  status: 'created',
  conflict: null,
  paid_after_close: false,
  paid_cents: 0,
  refunded_cents: 0,
  refund_open: false,
  refunds: [],
}

const outcomes = { c: 'charged', n: 'not_charged', u: 'unknown' } as const

/** Per status, whether the customer is charged: without a doubt, and with an open creation, conflict or refund. */
const states: Record<(typeof orderStatuses)[number], `${'c' | 'n' | 'u'}${'c' | 'n' | 'u'}`> = {
  created: 'uu',
  at_terminal: 'uu',
  action_required: 'uu',
  processed: 'cu',
  partially_refunded: 'cu',
  refunded: 'nu',
  canceled: 'nu',
  failed: 'nu',
  expired: 'nu',
}

test.each(Object.entries(states))(
  'the money outcome of an order that is %s',
  (status, [settled, doubtful]) => {
    const order = { ...plain, status: status as keyof typeof states }
    expect(outcomeOf(order)).toBe(outcomes[settled as keyof typeof outcomes])
    const doubts: Partial<MoneyState>[] = [
      { creation: 'intent' },
      { creation: 'unknown' },
      { conflict: 'the amount at the provider differs' },
      { refund_open: true },
      { refunds: [{ status: 'processing' }] },
    ]
    for (const doubt of doubts) {
      const expected = outcomes[doubtful as keyof typeof outcomes]
      expect(outcomeOf({ ...order, ...doubt }), JSON.stringify(doubt)).toBe(expected)
    }
    // A new charge is safe only where no payment of this order can appear.
    expect(orderMoneyOutcome(order).retrySafe).toBe(settled === 'n')
  },
)

test('a payment after the end counts as charged until it is refunded', () => {
  const late = { ...plain, status: 'canceled' as const, paid_after_close: true, paid_cents: 100 }
  expect(orderMoneyOutcome(late)).toEqual({ outcome: 'charged', retrySafe: false })
  expect(outcomeOf({ ...late, refunded_cents: 40 })).toBe('charged')
  expect(outcomeOf({ ...late, refunded_cents: 100 })).toBe('not_charged')
})

/** The outcome of each situation, written a second time: of a paid order with an open refund, and of a canceled one. */
const expectedOutcomes: Record<Situation, [paid: string, canceled: string]> = {
  notBegun: ['unknown, again', 'unknown, again'],
  chargeNotMade: ['not_charged, again', 'not_charged, again'],
  chargeImpossible: ['not_charged', 'not_charged'],
  salePaidBefore: ['charged', 'charged'],
  chargeUndecided: ['unknown, again', 'unknown, again'],
  chargeUndecidedOnce: ['unknown', 'unknown'],
  cancelUndecided: ['unknown', 'unknown'],
  cancelLate: ['unknown, again', 'unknown, again'],
  cancelImpossible: ['unknown', 'not_charged'],
  cancelRefused: ['unknown, again', 'not_charged, again'],
  refundNotMade: ['unknown', 'not_charged'],
  refundPutOff: ['unknown, again', 'not_charged, again'],
  refundUndecided: ['unknown, again', 'unknown, again'],
  refundElsewhere: ['unknown', 'unknown'],
  refundRefused: ['charged', 'not_charged'],
  refundRefusedForNow: ['charged, again', 'not_charged, again'],
  callUnanswered: ['unknown', 'unknown'],
  callWithoutEffect: ['unknown, again', 'unknown, again'],
  callOnCanceled: ['not_charged, again', 'not_charged, again'],
}

test.each(Object.keys(situations) as Situation[])(
  'the outcome of the situation %s',
  (situation) => {
    const paid: MoneyState = { ...plain, status: 'processed', paid_cents: 100, refund_open: true }
    const orders = [paid, { ...plain, status: 'canceled' as const }]
    const outcomes = orders.map((order) => {
      const { outcome, retrySafe } = moneyOutcome(situation, order)
      return retrySafe ? `${outcome}, again` : outcome
    })
    expect(outcomes).toEqual(expectedOutcomes[situation])
  },
)

test('only a request that can never charge or refund twice is sent again as it is', () => {
  for (const [code, { retry }] of Object.entries(errorCatalogue)) {
    expect(retryOf(code as ErrorCode, true), code).toBe(retry)
    expect(retryOf(code as ErrorCode, false), code).not.toBe('same_request')
  }
})

const root = fileURLToPath(new URL('../../', import.meta.url))
const sources = globSync('src/{http,payments,provider,routes}/**/*.ts', { cwd: root }).map(
  (path) => ({ path, text: readFileSync(`${root}${path}`, 'utf8') }),
)

test('only the table of situations decides outcome and retry_safe', () => {
  const decides = /\bretrySafe: (true|false)|\boutcome: '(charged|not_charged|unknown)'/
  const authors = sources.filter(({ text }) => decides.test(text)).map(({ path }) => path)
  // Examples of the interface's description.
  expect(authors.sort()).toEqual([
    'src/routes/orders/order-schemas.ts',
    'src/routes/unclaimed-payments/unclaimed-schemas.ts',
  ])
})

test('every situation is used in the code', () => {
  const text = sources.map((source) => source.text).join('\n')
  const unused = Object.keys(situations).filter((situation) => !text.includes(`'${situation}'`))
  expect(unused).toEqual([])
})
