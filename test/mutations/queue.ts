import type { Mistakes } from './mistakes.ts'

/** Leases and deliveries. */
export const queue: readonly Mistakes[] = [
  {
    file: 'src/sync/deliver/tenure.ts',
    tests: [['test/sync/queue-tenure.test.ts']],
    made: {
      'a lost lease of a queue is worked on': [
        `    if (term && term.lease !== lease) end('the lease was lost')
`,
        '',
      ],
      'a lease of a queue that ran out is worked on': [
        '      if (term && performance.now() >= term.untilMs) {',
        '      if (!term) {',
      ],
    },
  },
  {
    file: 'src/sync/deliver/settlements.ts',
    tests: [['test/sync/queue-claims.test.ts']],
    made: {
      'a claim that was lost is ended all the same': [
        'if (!(await term.holds(trx))) throw new ClaimLostError()',
        '',
      ],
    },
  },
  {
    file: 'src/sync/deliver/worker.ts',
    tests: [['test/sync/queue.test.ts']],
    made: {
      'what was let go of at a stop is settled all the same': ['!isLetGo && ', ''],
      'what is in hand is taken in hand again': [
        'found.filter(({ pk }) => !before.has(pk))',
        'found',
      ],
    },
  },
  {
    file: 'src/repositories/flows/deliveries.ts',
    tests: [['test/sync/settle-arrived.test.ts']],
    made: {
      'what arrived is written down although its claim was lost': [
        'where exists (select from held)',
        '',
      ],
    },
  },
  {
    file: 'src/repositories/leases.ts',
    tests: [['test/sync/queue-tenure.test.ts']],
    made: {
      'the token of a lease does not grow with its owner': [
        'then 0 else 1 end',
        'then 0 else 0 end',
      ],
      'a lease is given back for somebody else': [
        `    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .execute()`,
        `    .where('name', '=', lease.name)
    .execute()`,
      ],
    },
  },
]
