import type { Mistake } from './mistake.ts'

/** Charges, refunds and cancels on their way to the provider: intents, keys, leases, and what an answer proves. */
export const sending: readonly Mistake[] = [
  {
    name: 'the attempts of a reference are counted over all clients',
    file: 'src/repositories/orders/charge-intents.ts',
    find: 'where client = :client and normalize(external_reference) = normalize(:reference::text)) as attempts',
    replace: 'where normalize(external_reference) = normalize(:reference::text)) as attempts',
    noticedBy: {
      tests: [
        ['test/payment/orders-twice.test.ts', 'T34'],
        ['test/payment/charge-intents.test.ts'],
      ],
    },
  },
  {
    name: 'a charge is begun although its box has changed since it was looked up',
    file: 'src/repositories/orders/charge-intents.ts',
    find: 'and revision = :revision and',
    replace: 'and',
    noticedBy: {
      tests: [
        ['test/payment/orders-twice.test.ts', 'T34'],
        ['test/payment/charge-intents.test.ts'],
      ],
    },
  },
  {
    name: 'a charge is begun although a later one of its box was denied',
    file: 'src/repositories/orders/charge-intents.ts',
    find: 'and denied_charges = :denied_charges',
    replace: '',
    noticedBy: {
      tests: [
        ['test/payment/orders-twice.test.ts', 'T34'],
        ['test/payment/charge-intents.test.ts'],
      ],
    },
  },
  {
    name: 'a charge is begun under a connection that has changed',
    file: 'src/repositories/orders/charge-intents.ts',
    find: 'and c.access_token = :access_token',
    replace: '',
    noticedBy: {
      tests: [
        ['test/payment/orders-twice.test.ts', 'T34'],
        ['test/payment/charge-intents.test.ts'],
      ],
    },
  },
  {
    name: 'an Idempotency-Key is looked up without its client',
    file: 'src/repositories/orders/idempotency-keys.ts',
    find: `    .where('client', '=', scope.client)
    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
    replace: `    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
    noticedBy: { tests: [['test/payment/orders-twice.test.ts', 'T34']] },
  },
  {
    name: 'an Idempotency-Key is looked up without its route',
    file: 'src/repositories/orders/idempotency-keys.ts',
    find: `    .where('client', '=', scope.client)
    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
    replace: `    .where('client', '=', scope.client)
    .where('key', '=', scope.key)
    .executeTakeFirst()`,
    noticedBy: { tests: [['test/payment/orders-twice.test.ts', 'T34']] },
  },
  {
    name: 'a lease that another process holds is taken all the same',
    file: 'src/payments/operations/send-lease.ts',
    find: 'if (taken) return new SendLease(deps, row, { sender, newLease: null, ...taken })',
    replace:
      'return new SendLease(deps, row, { sender, newLease: null, unansweredAt: null, ...taken })',
    noticedBy: { tests: [['test/payment/send-alone.test.ts']] },
  },
  {
    name: 'an attempt is sent under a lease that was lost',
    file: 'src/payments/operations/send-lease.ts',
    find: `if (!(await beginAttempt(this.#deps.database.db, table, id, this.sender, begun))) {
      return undefined
    }`,
    replace: 'await beginAttempt(this.#deps.database.db, table, id, this.sender, begun)',
    noticedBy: { tests: [['test/payment/send-alone.test.ts']], faults: 'a request that stalls' },
  },
  {
    name: 'a lease that was proven once counts without limit',
    file: 'src/payments/operations/send-lease.ts',
    find: 'return () => performance.now() - askedAt < freshMs',
    replace: 'return () => true',
    noticedBy: { tests: [['test/payment/send-alone.test.ts']], faults: 'a request that stalls' },
  },
  {
    name: 'an unanswered attempt is forgotten with its lease',
    file: 'src/payments/operations/send-lease.ts',
    find: 'this.#isSettled ? this.unansweredAt : undefined',
    replace: 'null',
    noticedBy: { tests: [['test/payment/send-alone.test.ts']] },
  },
  {
    name: 'what was unanswered before counts as answered',
    file: 'src/payments/operations/send-lease.ts',
    find: `    this.#doubtfulAt = this.unansweredAt
    this.#isSettled = true`,
    replace: `    this.#doubtfulAt = null
    this.#isSettled = true`,
    noticedBy: { tests: [['test/payment/send-alone.test.ts']] },
  },
  {
    name: 'a lease is not renewed',
    file: 'src/payments/operations/send-lease.ts',
    find: 'await renewSendLease(this.#deps.database.db, table, id, this.sender, times(this.#deps)).catch',
    replace: 'await Promise.resolve().catch',
    noticedBy: { tests: [['test/payment/send-alone.test.ts']] },
  },
  {
    name: 'a refusal counts also after an attempt without an answer',
    file: 'src/payments/orders/perform.ts',
    find: 'if (lease.unansweredAt !== null) return false',
    replace: '',
    noticedBy: { faults: 'an attempt that arrives late' },
  },
  {
    name: 'a locked resource proves that nothing was made',
    file: 'src/provider/classify-refusal.ts',
    find: "if (status === 423) return 'ambiguous'",
    replace: '',
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a key that is in use proves that nothing was made',
    file: 'src/provider/classify-refusal.ts',
    find: "if (proofs.includes('unknown')) return 'ambiguous'",
    replace: '',
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a refund in progress proves that none was made',
    file: 'src/provider/classify-refusal.ts',
    find: "return proofs.includes('nothing') ? 'silent' : 'proof'",
    replace: "return 'proof'",
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a code that no document names is proof',
    file: 'src/provider/classify-refusal.ts',
    find: "if (proofs.length === 0) return 'ambiguous'",
    replace: "if (proofs.length === 0) return code === null ? 'ambiguous' : 'proof'",
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a conflict without a code had no effect',
    file: 'src/provider/classify-refusal.ts',
    find: "return status === 409 ? 'ambiguous' : 'silent'",
    replace: "return 'silent'",
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a 4xx without a code of the provider proves that nothing was made',
    file: 'src/provider/classify-refusal.ts',
    find: "if (proofs.length === 0) return 'ambiguous'",
    replace: "if (proofs.length === 0) return code === null ? 'proof' : 'ambiguous'",
    noticedBy: { faults: 'denied after the effect' },
  },
  {
    name: 'a code counts with every status',
    file: 'src/provider/error-codes.ts',
    find: 'row.on === code && (row.status === undefined || row.status === status)',
    replace: 'row.on === code',
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a code that repeats the status hides the cause',
    file: 'src/provider/error-codes.ts',
    find: 'const decisive = isRepeated ? causes : codes',
    replace: 'const decisive = isRepeated ? [main] : codes',
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a payment that is refunded already proves that no refund was made',
    file: 'src/provider/error-codes.ts',
    find: `{
      code: 'ORDER_NOT_REFUNDABLE',
      proves: 'nothing',`,
    replace: `{
      code: 'ORDER_NOT_REFUNDABLE',`,
    noticedBy: { tests: [['test/provider/classify-refusal.test.ts']] },
  },
  {
    name: 'a token is renewed because the order has another owner',
    file: 'src/provider/client.ts',
    find: "kind: isNamed ? 'refused' : error.kind",
    replace: 'kind: error.kind',
    noticedBy: {
      tests: [['test/payment/refund-refusals.test.ts', 'is refused at once, and sent once']],
    },
  },
  {
    name: 'a new key for every call of a charge',
    file: 'src/payments/orders/send-charge.ts',
    find: 'orders.create(token, known.id, providerOrder(known), ',
    replace: 'orders.create(token, crypto.randomUUID(), providerOrder(known), ',
    noticedBy: { faults: 'random' },
  },
  {
    name: 'a canceled charge is sent again',
    file: 'src/payments/orders/send-charge.ts',
    find: 'if (order.cancel_requested_at !== null || ',
    replace: 'if (',
    more: [
      {
        file: 'src/repositories/operations/send-leases.ts',
        find: 'orders: sql`cancel_requested_at is null`',
        replace: 'orders: sql`true`',
      },
    ],
    noticedBy: { faults: 'a cancel of what never arrived' },
  },
  {
    name: 'a charge whose commit was not answered counts as not begun',
    file: 'src/payments/orders/charge.ts',
    find: `addOutcome(result.error, {
        ...chargeUndecided(sale),`,
    replace: `addOutcome(result.error, {
        ...moneyOutcome('chargeNotMade'),`,
    noticedBy: { faults: 'a request that loses its database' },
  },
]
