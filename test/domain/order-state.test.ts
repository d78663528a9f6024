import { expect, test } from 'vitest'
import { type OrderStatus, orderStatuses } from '../../src/domain/order.ts'
import { canMove, isClosedUnpaid, isFinal, isOpen, isPaid } from '../../src/domain/order-state.ts'

/** The specified transitions, with the refunded states added wherever an order may have been paid without our knowledge. */
const moves: Record<OrderStatus, OrderStatus[]> = {
  created: [
    'at_terminal',
    'processed',
    'canceled',
    'failed',
    'expired',
    'action_required',
    'refunded',
    'partially_refunded',
  ],
  at_terminal: [
    'processed',
    'canceled',
    'failed',
    'expired',
    'action_required',
    'refunded',
    'partially_refunded',
  ],
  action_required: ['processed', 'failed', 'canceled', 'expired', 'refunded', 'partially_refunded'],
  processed: ['partially_refunded', 'refunded'],
  partially_refunded: ['refunded'],
  refunded: [],
  canceled: [],
  failed: [],
  expired: [],
}

const pairs = orderStatuses.flatMap((from) => orderStatuses.map((to) => [from, to] as const))

test.each(pairs)(
  'the transition from %s to %s is allowed or forbidden as specified',
  (from, to) => {
    expect(canMove(from, to)).toBe(moves[from].includes(to))
  },
)

test('no path of transitions returns to an earlier state', () => {
  const reach = (from: OrderStatus, seen = new Set<OrderStatus>()): Set<OrderStatus> => {
    for (const to of orderStatuses) {
      if (!canMove(from, to) || seen.has(to)) continue
      seen.add(to)
      reach(to, seen)
    }
    return seen
  }
  for (const status of orderStatuses) expect(reach(status)).not.toContain(status)
})

test('each state is exactly one of open, paid or ended', () => {
  const kinds = (status: OrderStatus) => [isOpen(status), isPaid(status), isFinal(status)]
  for (const status of orderStatuses) {
    expect(kinds(status).filter(Boolean), status).toHaveLength(1)
  }
  expect(orderStatuses.filter(isOpen)).toEqual(['created', 'at_terminal', 'action_required'])
  expect(orderStatuses.filter(isPaid)).toEqual(['processed', 'partially_refunded'])
  expect(orderStatuses.filter(isClosedUnpaid)).toEqual(['canceled', 'failed', 'expired'])
})
