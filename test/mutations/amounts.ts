import type { Mistake } from './mistake.ts'

/** What was paid: instalments, further payments, charge-backs. */
export const amounts: readonly Mistake[] = [
  {
    name: 'the interest of the card issuer counts as received by the shop',
    file: 'src/domain/money.ts',
    find: 'const hasInterest = (installments ?? 1) > 1 &&',
    replace: 'const hasInterest = (installments ?? 1) > 99 &&',
    noticedBy: {
      tests: [['test/payment/amounts.test.ts']],
      faults: 'an amount that is not the order’s',
    },
  },
  {
    name: 'a refund that names what the buyer gets is taken for what the shop gives',
    file: 'src/domain/money.ts',
    find: 'const isNamed = isMore && leftCents > 0',
    replace: 'const isNamed = isMore && leftCents > 1e9',
    noticedBy: { tests: [['test/payment/amounts.test.ts']] },
  },
  {
    name: 'a further payment that the order lists counts for the order',
    file: 'src/domain/money.ts',
    find: 'sumCents + payment.amountCents > orderCents',
    replace: 'sumCents + payment.amountCents > 1e12',
    noticedBy: { tests: [['test/provider/evidence.test.ts', 'two payments: ']] },
  },
  {
    name: 'a second payment counts as money of the order',
    file: 'src/domain/money.ts',
    find: 'if (isSurplus) return { ...payment, isSurplus: true as const }',
    replace: '',
    noticedBy: { faults: 'a second payment of an order' },
  },
  {
    name: 'a further payment stays with its order',
    file: 'src/repositories/unclaimed-payments/further-payment-queries.ts',
    find: 'hasNamed ? linked.filter((row) => !isNamed(row)) : linked.slice(1)',
    replace: 'linked.slice(99)',
    noticedBy: { tests: [['test/closings/two-payments.test.ts', 'is an unclaimed payment']] },
  },
  {
    name: 'the refund of an order with a further payment names no payment',
    file: 'src/payments/orders/send-refund.ts',
    find: 'const namesPayment = order.surplus !== null && payment !== undefined',
    replace: 'const namesPayment = order.surplus === undefined && payment !== undefined',
    noticedBy: { tests: [['test/closings/two-payments.test.ts', 'refunds its own payment only']] },
  },
  {
    name: 'a payment of less than was asked needs no decision',
    file: 'src/domain/order-state.ts',
    find: 'order.paid_cents < order.amount_cents',
    replace: 'order.paid_cents < 0',
    noticedBy: {
      tests: [['test/payment/amounts.test.ts', 'shown with its amount and needs a decision']],
    },
  },
  {
    name: 'a charge-back counts as a refund',
    file: 'src/domain/order-state.ts',
    find: "[chargedBack, { status: 'processed',",
    replace: "[chargedBack, { status: 'refunded',",
    noticedBy: { faults: 'a charge-back' },
  },
  {
    name: 'money that comes after a decision asks for no decision',
    file: 'src/domain/order-state.ts',
    find: "if (isKept && order.paid_after_close) return 'paid_late'",
    replace: '',
    noticedBy: { faults: 'money after a decision' },
  },
  {
    name: 'a charge-back that the shop won counts as lost',
    file: 'src/domain/chargeback.ts',
    find: "return coverageApplied ? 'won' : 'lost'",
    replace: "return coverageApplied ? 'lost' : 'won'",
    noticedBy: {
      tests: [['test/closings/chargebacks.test.ts', 'without webhooks a case is found']],
    },
  },
  {
    name: 'an open charge-back is refunded too',
    file: 'src/payments/orders/refund-intent.ts',
    find: 'if (cases.length === won.size &&',
    replace: 'if (cases.length >= won.size &&',
    noticedBy: {
      tests: [['test/closings/chargebacks.test.ts', 'between the read and the intent of a refund']],
    },
  },
  {
    name: 'a charge-back that only the read shows is not seen',
    file: 'src/payments/orders/read.ts',
    find: 'return isShown || caseIds.length > 0 ? { caseIds } : undefined',
    replace: 'return undefined',
    noticedBy: {
      tests: [['test/closings/chargebacks.test.ts', 'while the order names a second case']],
    },
  },
  {
    name: 'a charge-back that is open again is never read again',
    file: 'src/payments/chargebacks/save-case.ts',
    find: 'next_read_at: isDecided ? null : nextReadAt',
    replace: 'next_read_at: before.decided_at ? null : nextReadAt',
    noticedBy: { tests: [['test/closings/chargebacks.test.ts', 'reopened after its decision']] },
  },
  {
    name: 'a charge-back returns more than it took',
    file: 'src/domain/net-amount.ts',
    find: 'Math.min(takenCents, sumOfType(chargebackMovements.returned))',
    replace: 'sumOfType(chargebackMovements.returned)',
    noticedBy: {
      tests: [['test/settlements/chargebacks.test.ts', 'no more is returned than was taken']],
    },
  },
]
