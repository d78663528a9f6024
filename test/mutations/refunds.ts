import type { Mistake } from './mistake.ts'

/** Refunds: their keys, their sums, and how they end. */
export const refunds: readonly Mistake[] = [
  {
    name: 'a refund that failed later stays done',
    file: 'src/payments/orders/state.ts',
    find: 'finishRefund(trx, operation.id, { hasFailed, at: deps.now() })',
    replace: 'finishRefund(trx, operation.id, { hasFailed: false, at: deps.now() })',
    noticedBy: { tests: [['test/payment/refund-attempt-order.test.ts']] },
  },
  {
    name: 'a refund that failed is audited as made',
    file: 'src/payments/orders/state.ts',
    find: 'if (hasFailed) await recordFailure',
    replace: 'if (!hasFailed) await recordFailure',
    noticedBy: { tests: [['test/payment/refund-attempt-order.test.ts']] },
  },
  {
    name: 'a new key for every call of a refund',
    file: 'src/payments/orders/send-refund.ts',
    find: 'order.mp_order_id as string, known.id, part',
    replace: 'order.mp_order_id as string, crypto.randomUUID(), part',
    noticedBy: { faults: 'keyed refunds of one amount' },
  },
  {
    name: 'a total refund returns the known rest, not the rest at the provider',
    file: 'src/payments/orders/record-refund.ts',
    find: 'const amountCents = refund?.amountCents ?? (operation.amount_cents as number)',
    replace: 'const amountCents = operation.amount_cents as number',
    noticedBy: { faults: 'money in the panel' },
  },
  {
    name: 'a refund with a key continues an equal one of another key',
    file: 'src/payments/orders/refund-intent.ts',
    find: 'if (isBare && isEqual && !isSentNow) return open',
    replace: 'if (isEqual && !isSentNow) return open',
    noticedBy: { faults: 'keyed refunds of one amount' },
  },
  {
    name: 'an error after the call of a refund says how the order stood before',
    file: 'src/payments/orders/refund.ts',
    find: 'addOutcome(result.error, refundUndecided(loaded.order))',
    replace: 'addOutcome(result.error, standing(loaded.order))',
    noticedBy: { faults: 'a request that loses its database' },
  },
  {
    name: 'the amount of a refund that fails later stays refunded',
    file: 'src/payments/orders/state-from-provider.ts',
    find: 'failedCents: failed.reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0),',
    replace: 'failedCents: 0,',
    noticedBy: { faults: 'refunds that are processing' },
  },
  {
    name: 'a refund in processing counts as made',
    file: 'src/errors/money-outcome.ts',
    find: 'return order.refund_open || order.refunds.some(({ status }) => isPendingRefund(status))',
    replace: 'return order.refund_open',
    noticedBy: { faults: 'refunds that are processing' },
  },
  {
    name: 'idempotency keys of refunds are random, not derived',
    file: 'src/domain/provider-names.ts',
    find: 'uuidOfHash(`',
    replace: 'uuidOfHash(String(Math.random()) + `',
    noticedBy: { faults: 'backup' },
  },
  {
    name: 'an equal refund from before counts as ours',
    file: 'src/payments/orders/match-refund.ts',
    find: 'const before = operation.refunds_before',
    replace: 'const before: readonly string[] | null = []',
    noticedBy: { faults: 'an equal refund of the panel' },
  },
]
