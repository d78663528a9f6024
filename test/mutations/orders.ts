import type { Mistake } from './mistake.ts'

/** The state of orders: moves, status checks, what is found at the provider, the terminal. */
export const orders: readonly Mistake[] = [
  {
    name: 'a move is written over a later one',
    file: 'src/repositories/orders/save-order-move.ts',
    find: `and version = :known_version
`,
    replace: `
`,
    noticedBy: {
      tests: [
        ['test/payment/evidence.test.ts'],
        ['test/payment/late-payments.test.ts', 'while a person decides'],
      ],
    },
  },
  {
    name: 'an order is found for any client',
    file: 'src/repositories/orders/order-queries.ts',
    find: `const query = db.selectFrom('orders').selectAll().where('client', '=', client)
  return query`,
    replace: `const query = db.selectFrom('orders').selectAll()
  return query`,
    noticedBy: { tests: [['test/payment/access-isolation.test.ts']] },
  },
  {
    name: 'an equal order of another client answers',
    file: 'src/repositories/orders/order-queries.ts',
    find: `    .where('client', '=', client)
    .where('caja_id', '=', equal.cajaId)`,
    replace: "    .where('caja_id', '=', equal.cajaId)",
    noticedBy: { tests: [['test/payment/orders-twice.test.ts', 'T34']] },
  },
  {
    name: 'the feed of changes has the orders of every client',
    file: 'src/repositories/orders/order-queries.ts',
    find: `  if (client !== undefined) orders = orders.where('client', '=', client)
`,
    replace: '',
    noticedBy: { tests: [['test/flows/payments-flow.test.ts', 'every change of a charge']] },
  },
  {
    name: 'a canceled order that needs a check at the terminal blocks a new charge of the sale',
    file: 'src/repositories/orders/order-queries.ts',
    find: "eb.or([eb('status', '=', 'created'), eb('cancel_requested_at', 'is', null)]),",
    replace: '',
    noticedBy: { faults: 'a terminal that needs a check' },
  },
  {
    name: 'orders of every client are listed',
    file: 'src/repositories/orders/order-list.ts',
    find: `  if (filter.client !== undefined) query = query.where('client', '=', filter.client)
`,
    replace: '',
    noticedBy: { tests: [['test/payment/access-isolation.test.ts']] },
  },
  {
    name: 'nothing arrives late',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'return at.getTime() - unansweredAt.getTime() >= deps.settings.lateArrivalMs',
    replace: 'return at.getTime() >= unansweredAt.getTime()',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'no check comes at the moment from which nothing can arrive any more',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'return end > now() && end < next ? end : next',
    replace: 'return next',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'an order is forgotten as soon as its time is over',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'return isUnwanted(order, now, expiryGraceMs)',
    replace: 'return isUnwanted(order, now, 0)',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'an order past its time is not forgotten',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'order.cancel_requested_at !== null || isLate',
    replace: 'order.cancel_requested_at !== null',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'the last status check is the last even without an answer',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'return answered ? null : new Date(at + soonMs)',
    replace: 'return null',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'a refused order is never searched for',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: "if (order.creation === 'refused') return nextSearch(order, at)",
    replace: "if (order.creation === 'refused') return null",
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'a refused order is searched for for ever',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'if (unanswered_at === null || at - last',
    replace: 'if (unanswered_at === null && at - last',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'a refund that failed counts in the sum',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'const standing = refunds.filter(({ status }) => !isFailedRefund(status))',
    replace: 'const standing = refunds',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'a pending refund is not checked again',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: `  if (refunds.some(({ status }) => isPendingRefund(status))) return true
`,
    replace: '',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'the check after one without an answer waits as long as any',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'return new Date(at + (answered ? waitMs : Math.min(waitMs, soonMs)))',
    replace: 'return new Date(at + waitMs)',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'the checks of a forgotten order are timed by its creation',
    file: 'src/payments/orders/check-and-retry-times.ts',
    find: 'const since = isForgotten(order, now) ? order.last_updated_at : order.created_at',
    replace: 'const since = order.created_at',
    noticedBy: { tests: [['test/payment/status-check-times.test.ts']] },
  },
  {
    name: 'a payment of an order that a person settled as not paid is not marked as late',
    file: 'src/payments/orders/state-from-provider.ts',
    find: "const wasSettled = order.settled_as === 'not_paid'",
    replace: "const wasSettled = order.settled_as === null && status === 'expired'",
    noticedBy: {
      tests: [
        [
          'test/payment/late-payments.test.ts',
          'is in the order and its cashier message until it is decided',
        ],
      ],
    },
  },
  {
    name: 'an order that shows up for a refused row is ignored',
    file: 'src/payments/orders/state-from-provider.ts',
    find: "if (order.creation === 'refused') return reopen(order, evidence, now)",
    replace: "if (order.creation === 'refused') return { move: undefined, shown: evidence.status }",
    noticedBy: { faults: 'an attempt that arrives too late' },
  },
  {
    name: 'an order that the provider does not confirm blocks the box',
    file: 'src/payments/orders/choose-terminal.ts',
    find: 'return shown && holdsTerminal(shown) ? current : undefined',
    replace: "return isOpenHere(current) || shown === 'created' ? current : undefined",
    more: [
      {
        file: 'src/payments/orders/choose-terminal.ts',
        find: 'async function tryCancel(',
        replace: `const isOpenHere = (order: OrderRow) => ['created', 'at_terminal'].includes(order.status)

async function tryCancel(`,
      },
    ],
    noticedBy: { faults: 'evidence that no document describes' },
  },
  {
    name: 'each process uses its own clock',
    file: 'src/db/clock.ts',
    find: 'return new Date(latestMs)',
    replace: 'return new Date()',
    noticedBy: { faults: 'a process whose wall clock is wrong' },
  },
  {
    name: 'an equal order of another application counts as ours',
    file: 'src/payments/orders/find-at-provider.ts',
    find: "return isNamed && isPoint && isOfItsTime ? 'ours' : 'unproven'",
    replace: "return isPoint && isOfItsTime ? 'ours' : 'unproven'",
    noticedBy: { faults: 'an equal order of another application' },
  },
  {
    name: 'a cancel that is only requested counts as canceled',
    file: 'src/provider/order-payloads.ts',
    find: 'status: deriveStatus(order, paidCents, refundedCents, hasOthers),',
    replace:
      "status: detailOf(order) === cancelRequested ? 'canceled' : deriveStatus(order, paidCents, refundedCents, hasOthers),",
    noticedBy: { faults: 'a cancel at the terminal' },
  },
  {
    name: 'a payment that the provider processes counts as failed',
    file: 'src/domain/order-state.ts',
    find: "['processing', { status: 'at_terminal',",
    replace: "['processing', { status: 'failed',",
    noticedBy: { faults: 'a payment that the provider processes' },
  },
]
