import type { Mistake } from './mistake.ts'

const feed = 'test/payment/event-feed.test.ts'
const consumers = 'test/payment/event-consumers.test.ts'
const endpoints = 'test/payment/event-endpoints.test.ts'
const sender = 'test/payment/endpoint-sender.test.ts'

/** Which events a program reads, and who may say that it has them. */
export const events: readonly Mistake[] = [
  {
    name: 'a client reads the events of all clients',
    file: 'src/repositories/events/event-log.ts',
    find: 'return client === undefined ?',
    replace: 'return true ?',
    noticedBy: { tests: [[feed, 'a client reads its own events']] },
  },
  {
    name: 'a person of some stores reads the events of the others',
    file: 'src/repositories/events/event-log.ts',
    find: '::boolean or sucursal_id =',
    replace: '::boolean or true or sucursal_id =',
    noticedBy: { tests: [[feed, 'a person of some stores reads']] },
  },
  {
    name: 'a reader passes over events that were deleted',
    file: 'src/payments/events/feed.ts',
    find: 'after.position >= deleted && ',
    replace: '',
    noticedBy: { tests: [[feed, 'events are kept for 30 days']] },
  },
  {
    name: 'two readers of a consumer work at a time',
    file: 'src/repositories/events/event-consumers.ts',
    find: 'lease_until is null or reader =',
    replace: 'lease_until is null or true or reader =',
    noticedBy: { tests: [[consumers, 'while one reader has the lease']] },
  },
  {
    name: 'reading moves the place of a consumer',
    file: 'src/repositories/events/event-consumers.ts',
    find: 'const lease = { reader: reading.reader, lease_until: reading.leaseUntil }',
    replace:
      'const lease = { reader: reading.reader, lease_until: reading.leaseUntil, position: sql`position + 1` }',
    noticedBy: { tests: [[consumers, 'a consumer that dies before its commit']] },
  },
  {
    name: 'a late commit moves the place of a consumer back',
    file: 'src/repositories/events/event-consumers.ts',
    find: ".where('position', '<=', position)",
    replace: '',
    noticedBy: { tests: [[consumers, 'a consumer begins with the oldest event']] },
  },
  {
    name: 'an event passes an earlier one of its resource that failed',
    file: 'src/repositories/events/event-deliveries.ts',
    find: 'and earlier.resource = delivery.resource and earlier.position < delivery.position',
    replace: 'and false',
    noticedBy: { tests: [[sender, 'later events of a resource wait']] },
  },
  {
    name: 'a redirect counts as delivered',
    file: 'src/payments/events/record-attempts.ts',
    find: 'status >= 200 && status <= 299',
    replace: 'status >= 200 && status <= 399',
    noticedBy: { tests: [[sender, 'a redirect is a failure']] },
  },
  {
    name: 'a process stores what it sent after it lost the lease',
    file: 'src/payments/events/endpoint-sender.ts',
    find: `    await underLease(this.#deps, this.#lease, (trx) =>
      recordAttempts(trx, this.#key, ended, this.#deps.now()),
    )`,
    replace: `    await this.#deps.database.transaction((trx) =>
      recordAttempts(trx, this.#key, ended, this.#deps.now()),
    )`,
    noticedBy: { tests: [[sender, 'a process that loses its lease']] },
  },
  {
    name: 'a process that stood still sends although it lost the lease',
    file: 'src/payments/events/endpoint-sender.ts',
    find: 'signal: this.#abandoned, mayStart }',
    replace: 'signal: this.#abandoned, mayStart: () => true }',
    noticedBy: { tests: [[sender, 'right before the first byte']] },
  },
  {
    name: 'what was read before is sent after a person took it away',
    file: 'src/payments/events/endpoint-sender.ts',
    find: '        if (!endpoint.sendable.includes(delivery.position)) continue\n',
    replace: '',
    noticedBy: { tests: [[sender, 'only what is under way arrives']] },
  },
  {
    name: 'a former secret signs for ever',
    file: 'src/payments/events/endpoint-secrets.ts',
    find: 'until !== null && until > now ? former : null',
    replace: 'until !== null ? former : null',
    noticedBy: { tests: [[sender, 'while a secret is exchanged both sign']] },
  },
  {
    name: 'a client reaches the endpoints of another',
    file: 'src/repositories/events/event-endpoints.ts',
    find: `    .where('client', '=', client)
    .where('id', '=', id)
    .forUpdate()`,
    replace: `    .where('id', '=', id)
    .forUpdate()`,
    noticedBy: { tests: [[endpoints, 'a client sees and changes its own endpoints alone']] },
  },
  {
    name: 'what an endpoint did not get within 30 days is not counted',
    file: 'src/repositories/events/event-log.ts',
    find: '  await countMissed(trx, rows)\n',
    replace: '',
    noticedBy: { tests: [[endpoints, 'what an endpoint did not get within 30 days']] },
  },
]
