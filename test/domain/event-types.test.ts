import { expect, test } from 'vitest'
import { changesBetween, eventTypesOfMove, type OrderFacts } from '../../src/domain/event-types.ts'

const open: OrderFacts = {
  isConfirmed: true,
  status: 'created',
  paidAfterClose: false,
  refundedCents: 0,
  decision: null,
  settledAt: null,
}
const intent: OrderFacts = { ...open, isConfirmed: false }
const paid: OrderFacts = { ...open, status: 'processed' }
const refunded: OrderFacts = { ...paid, status: 'refunded', refundedCents: 500 }
const canceled: OrderFacts = { ...open, status: 'canceled' }

/** What moves, from what, to what, and the events. */
const table: readonly [string, OrderFacts, OrderFacts, string[]][] = [
  ['the provider has it', intent, open, ['order.created']],
  ['found at the terminal', intent, { ...open, status: 'at_terminal' }, ['order.created']],
  ['found when it was paid', intent, paid, ['order.paid']],
  ['never made', intent, { ...intent, status: 'failed' }, ['order.failed']],
  ['at the terminal', open, { ...open, status: 'at_terminal' }, []],
  ['the terminal asks for something', open, { ...open, status: 'action_required' }, []],
  ['paid', open, paid, ['order.paid']],
  [
    'paid in part',
    open,
    { ...paid, decision: 'paid_less' },
    ['order.paid', 'order.needs_decision'],
  ],
  ['canceled', open, canceled, ['order.canceled']],
  ['rejected', open, { ...open, status: 'failed' }, ['order.failed']],
  ['expired', open, { ...open, status: 'expired' }, ['order.expired']],
  ['refunded', paid, refunded, ['order.refunded']],
  ['refunded before it was read', open, refunded, ['order.refunded']],
  ['refunded in part', paid, { ...refunded, status: 'partially_refunded' }, ['order.refunded']],
  ['refunded again', { ...refunded, refundedCents: 200 }, refunded, ['order.refunded']],
  ['a refund fails later', refunded, paid, ['order.refunded']],
  [
    'paid after it was closed',
    canceled,
    { ...canceled, paidAfterClose: true, decision: 'paid_late' },
    ['order.paid', 'order.needs_decision'],
  ],
  ['a person decides', open, { ...open, settledAt: 5 }, ['order.settled']],
  [
    'a person decides again',
    { ...open, settledAt: 5 },
    { ...open, settledAt: 9 },
    ['order.settled'],
  ],
  ['a further payment', paid, { ...paid, decision: 'paid_twice' }, ['order.needs_decision']],
  ['the decision is made', { ...paid, decision: 'paid_twice' }, paid, []],
  ['refused, and shows up', { ...intent, status: 'failed' }, open, ['order.created']],
]

test.each(table)('%s', (_, before, after, types) => {
  expect(eventTypesOfMove(before, after)).toEqual(types)
})

test('changes are the fields that differ, each from and to', () => {
  const before = { status: 'created', paid_cents: 0, settled_as: null }
  expect(changesBetween(before, { ...before, status: 'processed', paid_cents: 500 })).toEqual({
    status: { from: 'created', to: 'processed' },
    paid_cents: { from: 0, to: 500 },
  })
  expect(changesBetween({}, { status: 'created', settled_as: null })).toEqual({
    status: { from: null, to: 'created' },
  })
})
