import type { Mistakes } from './mistakes.ts'

/** Orders, refunds and the keys they are sent under. */
export const money: readonly Mistakes[] = [
  {
    file: 'src/repositories/orders/charge-intents.ts',
    tests: [['test/payment/orders-twice.test.ts', 'T34'], ['test/payment/charge-intents.test.ts']],
    made: {
      'the attempts of a reference are counted over all clients': [
        'where client = :client and normalize(external_reference) = normalize(:reference::text)) as attempts',
        'where normalize(external_reference) = normalize(:reference::text)) as attempts',
      ],
      'a charge is begun although its box has changed since it was looked up': [
        'and revision = :revision and',
        'and',
      ],
      'a charge is begun although a later one of its box was denied': [
        'and denied_charges = :denied_charges',
        '',
      ],
      'a charge is begun under a connection that has changed': [
        'and c.access_token = :access_token',
        '',
      ],
    },
  },
  {
    file: 'src/repositories/orders/save-order-move.ts',
    tests: [['test/payment/evidence.test.ts']],
    made: {
      'a move is written over one that nobody knew of': ['and version = :known_version\n', '\n'],
      'a move is written over a wish to cancel': [
        'and cancel_requested_at is not distinct from :known_cancel::timestamptz',
        '',
      ],
    },
  },
  {
    file: 'src/repositories/orders/save-order-move.ts',
    tests: [['test/payment/late-payments.test.ts', 'while a person decides']],
    made: {
      'a move is written over the decision of a person': [
        'and settled_as is not distinct from :known_settled::text',
        '',
      ],
    },
  },
  {
    file: 'src/repositories/orders/order-queries.ts',
    tests: [['test/payment/access-isolation.test.ts']],
    made: {
      'an order is found for any client': [
        `const query = db.selectFrom('orders').selectAll().where('client', '=', client)
  return query`,
        `const query = db.selectFrom('orders').selectAll()
  return query`,
      ],
    },
  },
  {
    file: 'src/repositories/orders/order-list.ts',
    tests: [['test/payment/access-isolation.test.ts']],
    made: {
      'orders of every client are listed': [
        `  if (filter.client !== undefined) query = query.where('client', '=', filter.client)
`,
        '',
      ],
    },
  },
  {
    file: 'src/repositories/orders/order-queries.ts',
    tests: [['test/payment/orders-twice.test.ts', 'T34']],
    made: {
      'an equal order of another client answers': [
        `    .where('client', '=', client)
    .where('caja_id', '=', equal.cajaId)`,
        "    .where('caja_id', '=', equal.cajaId)",
      ],
    },
  },
  {
    file: 'src/repositories/orders/order-queries.ts',
    tests: [['test/flows/payments-flow.test.ts', 'every change of a charge']],
    made: {
      'the feed of changes tells of every client': [
        `  if (client !== undefined) orders = orders.where('client', '=', client)
`,
        '',
      ],
    },
  },
  {
    file: 'src/repositories/orders/idempotency-keys.ts',
    tests: [['test/payment/orders-twice.test.ts', 'T34']],
    made: {
      'an Idempotency-Key is looked up without its client': [
        `    .where('client', '=', scope.client)
    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
        `    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
      ],
      'an Idempotency-Key is looked up without its route': [
        `    .where('client', '=', scope.client)
    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
        `    .where('client', '=', scope.client)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
      ],
    },
  },
  {
    file: 'src/payments/operations/runner.ts',
    tests: [['test/payment/send-alone.test.ts']],
    made: {
      'a claim that somebody holds is taken all the same': [
        `if (!taken) return undefined
  const renewal`,
        'const renewal',
      ],
      'an attempt is sent by a claim that was lost': [
        'if (!(await beginAttempt(db, table, id, sender, begun))) return undefined',
        'await beginAttempt(db, table, id, sender, begun)',
      ],
      'a claim that was proven counts for ever': [
        'return () => performance.now() - askedAt < freshMs',
        'return () => true',
      ],
      'an unanswered attempt is forgotten with its claim': [
        'isSettled ? unansweredAt : undefined',
        'null',
      ],
      'what was unanswered before counts as answered': [
        `      doubtfulAt = unansweredAt
      isSettled = true`,
        `      doubtfulAt = null
      isSettled = true`,
      ],
      'a claim is not prolonged': [
        '    renewSendLease(db, table, id, sender, times()).catch',
        '    Promise.resolve().catch',
      ],
    },
  },
  {
    file: 'src/provider/classify-refusal.ts',
    tests: [['test/provider/classify-refusal.test.ts']],
    made: {
      'a locked resource proves that nothing was made': [
        "if (status === 423) return 'ambiguous'",
        '',
      ],
      'a key that is in use proves that nothing was made': [
        "if (proofs.includes('unknown')) return 'ambiguous'",
        '',
      ],
      'a refund in progress proves that none was made': [
        "return proofs.includes('nothing') ? 'silent' : 'proof'",
        "return 'proof'",
      ],
      'a code that no document names is proof': [
        "if (proofs.length === 0) return 'ambiguous'",
        "if (proofs.length === 0) return code === null ? 'ambiguous' : 'proof'",
      ],
      'a conflict without a code had no effect': [
        "return status === 409 ? 'ambiguous' : 'silent'",
        "return 'silent'",
      ],
    },
  },
  {
    file: 'src/provider/error-codes.ts',
    tests: [['test/provider/classify-refusal.test.ts']],
    made: {
      'a code counts with every status': [
        'row.on === code && (row.status === undefined || row.status === status)',
        'row.on === code',
      ],
      'the word of a status hides the cause': [
        'const decisive = isRepeated ? causes : codes',
        'const decisive = isRepeated ? [main] : codes',
      ],
      'a payment that is refunded already proves that no refund was made': [
        "{\n      code: 'ORDER_NOT_REFUNDABLE',\n      proves: 'nothing',",
        "{\n      code: 'ORDER_NOT_REFUNDABLE',",
      ],
    },
  },
  {
    file: 'src/provider/client.ts',
    tests: [['test/payment/refund-refusals.test.ts', 'is refused at once, and sent once']],
    made: {
      'a token is renewed because the order has another owner': [
        "kind: isNamed ? 'refused' : error.kind",
        'kind: error.kind',
      ],
    },
  },
  {
    file: 'src/payments/orders/check-and-retry-times.ts',
    tests: [['test/payment/status-check-times.test.ts']],
    made: {
      'nothing arrives late': [
        'return at.getTime() - unansweredAt.getTime() >= deps.settings.lateArrivalMs',
        'return at.getTime() >= unansweredAt.getTime()',
      ],
      'the moment at which nothing can arrive any more passes unseen': [
        'return end > now() && end < next ? end : next',
        'return next',
      ],
      'an order is forgotten as soon as its time is over': [
        'return isUnwanted(order, now, expiryGraceMs)',
        'return isUnwanted(order, now, 0)',
      ],
      'an order past its time is not forgotten': [
        'order.cancel_requested_at !== null || isLate',
        'order.cancel_requested_at !== null',
      ],
      'the last look is the last even if nobody answered': [
        'return answered ? null : new Date(at + soonMs)',
        'return null',
      ],
      'a refused order is never searched for': [
        "if (order.creation === 'refused') return nextSearch(order, at)",
        "if (order.creation === 'refused') return null",
      ],
      'a refused order is searched for for ever': [
        'if (unanswered_at === null || at - last',
        'if (unanswered_at === null && at - last',
      ],
      'a refund that failed counts in the sum': [
        'const standing = refunds.filter(({ status }) => !isFailedRefund(status))',
        'const standing = refunds',
      ],
      'a pending refund is not looked at again': [
        `  if (refunds.some(({ status }) => isPendingRefund(status))) return true
`,
        '',
      ],
      'a look at a silent provider waits as long as any': [
        'return new Date(at + (answered ? waitMs : Math.min(waitMs, soonMs)))',
        'return new Date(at + waitMs)',
      ],
      'a forgotten order is looked at by its creation': [
        'const since = isForgotten(order, now) ? order.last_updated_at : order.created_at',
        'const since = order.created_at',
      ],
    },
  },
  {
    file: 'src/payments/orders/state.ts',
    tests: [['test/payment/refund-attempt-order.test.ts']],
    made: {
      'a refund that failed later stays done': [
        'finishRefund(trx, operation.id, { hasFailed, at: deps.now() })',
        'finishRefund(trx, operation.id, { hasFailed: false, at: deps.now() })',
      ],
      'a refund that failed is audited as made': [
        'if (hasFailed) await recordFailure',
        'if (!hasFailed) await recordFailure',
      ],
    },
  },
  {
    file: 'src/domain/money.ts',
    tests: [['test/payment/amounts.test.ts']],
    made: {
      'the interest of the card issuer counts as received by the shop': [
        'const hasInterest = (installments ?? 1) > 1 &&',
        'const hasInterest = (installments ?? 1) > 99 &&',
      ],
      'a refund that names what the buyer gets is taken for what the shop gives': [
        'const isNamed = isMore && leftCents > 0',
        'const isNamed = isMore && leftCents > 1e9',
      ],
    },
  },
  {
    file: 'src/domain/money.ts',
    tests: [['test/provider/evidence.test.ts', 'two payments: ']],
    made: {
      'a further payment that the order lists counts for the order': [
        'sumCents + payment.amountCents > orderCents',
        'sumCents + payment.amountCents > 1e12',
      ],
    },
  },
  {
    file: 'src/repositories/unclaimed-payments/further-payment-queries.ts',
    tests: [['test/closings/two-payments.test.ts', 'is an unclaimed payment']],
    made: {
      'a further payment stays with its order': [
        'hasNamed ? linked.filter((row) => !isNamed(row)) : linked.slice(1)',
        'linked.slice(99)',
      ],
    },
  },
  {
    file: 'src/payments/orders/send-refund.ts',
    tests: [['test/closings/two-payments.test.ts', 'refunds its own payment only']],
    made: {
      'the refund of an order with a further payment names no payment': [
        'const namesPayment = order.surplus !== null && payment !== undefined',
        'const namesPayment = order.surplus === undefined && payment !== undefined',
      ],
    },
  },
  {
    file: 'src/payments/orders/state-from-provider.ts',
    tests: [
      [
        'test/payment/late-payments.test.ts',
        'is in the order and its cashier message until it is decided',
      ],
    ],
    made: {
      'an order that a person settled as not paid is paid in silence': [
        "const wasSettled = order.settled_as === 'not_paid'",
        "const wasSettled = order.settled_as === null && status === 'expired'",
      ],
    },
  },
  {
    file: 'src/domain/order-state.ts',
    tests: [['test/payment/amounts.test.ts', 'shown with its amount and needs a decision']],
    made: {
      'a payment of less than was asked needs no decision': [
        'order.paid_cents < order.amount_cents',
        'order.paid_cents < 0',
      ],
    },
  },
  {
    file: 'src/domain/chargeback.ts',
    tests: [['test/closings/chargebacks.test.ts', 'without webhooks a case is found']],
    made: {
      'a charge-back that the shop won counts as lost': [
        "return coverageApplied ? 'won' : 'lost'",
        "return coverageApplied ? 'lost' : 'won'",
      ],
    },
  },
  {
    file: 'src/payments/orders/refund.ts',
    tests: [['test/closings/chargebacks.test.ts', 'a disputed sale cannot be refunded']],
    made: {
      'a charge-back that is open is given back too': [
        'if (cases.length === won.size &&',
        'if (cases.length >= won.size &&',
      ],
    },
  },
  {
    file: 'src/payments/orders/read.ts',
    tests: [['test/closings/chargebacks.test.ts', 'only the read before its refund shows']],
    made: {
      'a charge-back that only the read shows is not seen': [
        'return isShown || caseIds.length > 0 ? { caseIds } : undefined',
        'return undefined',
      ],
    },
  },
  {
    file: 'src/payments/chargebacks/save-case.ts',
    tests: [['test/closings/chargebacks.test.ts', 'reopened after its decision']],
    made: {
      'a charge-back that is open again is never read again': [
        'next_read_at: isDecided ? null : nextReadAt',
        'next_read_at: before.decided_at ? null : nextReadAt',
      ],
    },
  },
  {
    file: 'src/domain/net-amount.ts',
    tests: [['test/settlements/chargebacks.test.ts', 'no more is returned than was taken']],
    made: {
      'a charge-back returns more than it took': [
        'Math.min(takenCents, sumOfType(chargebackMovements.returned))',
        'sumOfType(chargebackMovements.returned)',
      ],
    },
  },
]
