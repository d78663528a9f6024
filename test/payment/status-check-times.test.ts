import { expect, test } from 'vitest'
import type { ProviderRefund } from '../../src/domain/order.ts'
import type { PaymentDeps } from '../../src/payments/deps.ts'
import {
  canBeReplaced,
  canNotArrive,
  hasUnsettledRefund,
  isForgotten,
  isKeyRemembered,
  nextCheck,
  nextCreationCheck,
  nextUnknownCheck,
  type Planned,
  planCheckAt,
} from '../../src/payments/orders/check-and-retry-times.ts'

const start = Date.parse('2026-11-20T12:00:00Z')
const at = (seconds: number) => new Date(start + seconds * 1000)
const hour = 3600

const waiting: Planned = {
  status: 'created',
  creation: 'confirmed',
  created_at: at(0),
  last_updated_at: at(0),
  expires_at: at(960),
  cancel_requested_at: null,
  unanswered_at: null,
  refunds: [],
  refunded_cents: 0,
}
const refundOf = (amountCents: number | null, status: string): ProviderRefund => ({
  id: `R-${amountCents}-${status}`,
  transactionId: null,
  referenceId: null,
  amountCents,
  status,
})

/** Seconds from then to the next status check; null for none. */
function waitAt(order: Planned, seconds: number, answered = true): number | null {
  const next = nextCheck(order, at(seconds), answered)
  return next === null ? null : (next.getTime() - at(seconds).getTime()) / 1000
}

test.each([
  [0, 2],
  [119, 2],
  [121, 5],
  [599, 5],
  [601, 15],
  [959, 15],
  [961, 300],
  [960 + 24 * hour, 300],
  [961 + 24 * hour, null],
])('an order that waits is checked at %i s after its creation again after %s s', (age, wait) => {
  // At the terminal: an order that no device shows would be canceled after its time.
  expect(waitAt({ ...waiting, status: 'at_terminal' }, age)).toBe(wait)
})

test('a status check without an answer is repeated within 5 s, without end', () => {
  const order: Planned = { ...waiting, status: 'at_terminal' }
  expect([60, 300, 700, 2000].map((age) => waitAt(order, age, false))).toEqual([2, 5, 5, 5])
  expect(waitAt(order, 961 + 24 * hour, false)).toBe(5)
  const refunding: Planned = {
    ...waiting,
    status: 'processed',
    refunds: [refundOf(100, 'processing')],
  }
  expect(waitAt(refunding, hour, false)).toBe(5)
})

test('while webhooks arrive, an order that waits is checked every 15 s, and other checks stay as they are', () => {
  const whileWebhooksArrive = (order: Planned, age: number, answered = true) => {
    const next = planCheckAt(order, at(age), answered)
    expect(next.at).toEqual(nextCheck(order, at(age), answered))
    return (
      next.whileWebhooksArrive && (next.whileWebhooksArrive.getTime() - at(age).getTime()) / 1000
    )
  }
  expect([0, 121, 599].map((age) => whileWebhooksArrive(waiting, age))).toEqual([15, 15, 15])
  // Here it is checked as rarely anyway.
  expect([601, 1000].map((age) => whileWebhooksArrive(waiting, age))).toEqual([null, null])
  expect(whileWebhooksArrive(waiting, 10, false)).toBeNull()
  expect(whileWebhooksArrive({ ...waiting, cancel_requested_at: at(1) }, 10)).toBeNull()
  expect(whileWebhooksArrive({ ...waiting, creation: 'unknown' }, 10)).toBeNull()
  expect(whileWebhooksArrive({ ...waiting, status: 'processed' }, 10)).toBeNull()
})

test('an order counts as forgotten after a cancel request or a minute after its expiry, unless a device shows it', () => {
  expect([0, 1019, 1020, 1021].map((age) => isForgotten(waiting, at(age)))).toEqual([
    false,
    false,
    false,
    true,
  ])
  const givenUp = { ...waiting, cancel_requested_at: at(1) }
  expect(isForgotten(givenUp, at(2))).toBe(true)
  for (const status of ['at_terminal', 'processed', 'canceled'] as const) {
    expect(isForgotten({ ...givenUp, status }, at(2000)), status).toBe(false)
  }
})

test('a new charge replaces an order as soon as it has expired, unless a device shows it', () => {
  expect([0, 959, 961].map((age) => canBeReplaced(waiting, at(age)))).toEqual([false, false, true])
  expect(canBeReplaced({ ...waiting, cancel_requested_at: at(1) }, at(2))).toBe(true)
  expect(canBeReplaced({ ...waiting, status: 'at_terminal' }, at(2000))).toBe(false)
})

test('a forgotten order that appears late is checked as often as a new one', () => {
  const turnedUp = { ...waiting, cancel_requested_at: at(10), last_updated_at: at(3 * hour) }
  expect(waitAt(turnedUp, 3 * hour + 1)).toBe(2)
  expect(waitAt({ ...turnedUp, status: 'at_terminal' }, 3 * hour + 1)).toBe(300)
})

test('a refused order is searched for during an hour, while an attempt may still arrive', () => {
  const refused: Planned = { ...waiting, creation: 'refused', status: 'failed' }
  expect(waitAt(refused, 10)).toBeNull()
  const doubtful = { ...refused, unanswered_at: at(0) }
  expect([10, hour, hour + 1].map((age) => waitAt(doubtful, age))).toEqual([300, 300, null])
})

test('a refund is unsettled while it is pending, or while the completed ones do not add up to the sum', () => {
  const of = (refunded_cents: number, ...refunds: ProviderRefund[]) =>
    hasUnsettledRefund({ refunded_cents, refunds })
  expect(of(0)).toBe(false)
  expect(of(100, refundOf(100, 'processed'))).toBe(false)
  expect(of(100, refundOf(60, 'processed'), refundOf(40, 'processed'))).toBe(false)
  expect(of(0, refundOf(100, 'processing'))).toBe(true)
  expect(of(100, refundOf(60, 'processed'))).toBe(true)
  // A failed refund returned nothing.
  expect(of(100, refundOf(60, 'processed'), refundOf(40, 'failed'))).toBe(true)
  // Without an amount nothing can be added up.
  expect(of(100, refundOf(60, 'processed'), refundOf(null, 'processed'))).toBe(false)
})

test('a pending refund is checked until it ends, a sum that does not add up for a day', () => {
  const pending: Planned = {
    ...waiting,
    status: 'processed',
    refunds: [refundOf(100, 'processing')],
  }
  expect([10, 119, 121, 1799, 1801, 40 * hour].map((age) => waitAt(pending, age))).toEqual([
    5, 5, 30, 30, 300, 300,
  ])
  const short: Planned = { ...pending, refunds: [refundOf(60, 'processed')], refunded_cents: 100 }
  expect([10, 24 * hour, 24 * hour + 1].map((age) => waitAt(short, age))).toEqual([5, 300, null])
  const settled: Planned = { ...short, refunded_cents: 60 }
  expect(waitAt(settled, 10)).toBeNull()
})

const lateArrivalMs = 9_000
/** The dependencies at one moment. */
const depsAt = (seconds: number) => ({
  now: () => at(seconds),
  settings: { lateArrivalMs } as PaymentDeps['settings'],
})

test('a key is remembered for 23 hours', () => {
  const remembered = [0, 23 * hour - 1, 23 * hour].map((age) => isKeyRemembered(at(0), at(age)))
  expect(remembered).toEqual([true, true, false])
})

test('an attempt may arrive until its time has passed; what was not sent cannot arrive', () => {
  const deps = depsAt(0)
  expect(canNotArrive(deps, null)).toBe(true)
  const arrives = [0, 8.999, 9].map((later) => canNotArrive(deps, at(0), at(later)))
  expect(arrives).toEqual([false, false, true])
})

test.each([
  ['often while its client may wait', 10, null, 2],
  ['less often when it is old', 130, null, 5],
  ['no later than its latest attempt can arrive', 130, 125, 4],
  ['as usual while that time is far', 130, 130, 5],
  ['as usual when that time has passed', 130, 121, 5],
] as const)('an order of unknown outcome is checked %s', (_name, age, attemptedAt, wait) => {
  const next = nextUnknownCheck(depsAt(age), at(0), attemptedAt === null ? null : at(attemptedAt))
  expect((next.getTime() - at(age).getTime()) / 1000).toBe(wait)
})

test('a creation whose key has expired is checked as any order, and when its attempt can no longer arrive', () => {
  const age = 24 * hour
  const order: Planned = { ...waiting, creation: 'unknown', status: 'created' }
  const waitFor = (doubtfulAt: Date | null, answered: boolean) => {
    const { at: next } = nextCreationCheck(depsAt(age), order, { answered, doubtfulAt })
    return next && (next.getTime() - at(age).getTime()) / 1000
  }
  expect([waitFor(null, true), waitFor(null, false)]).toEqual([300, 5])
  expect(waitFor(at(age - 8), true)).toBe(1)
})
