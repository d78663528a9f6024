import type { Mistakes } from './mistakes.ts'

/** Leases and deliveries. */
export const queue: readonly Mistakes[] = [
  {
    file: 'src/jobs/leader.ts',
    tests: [['test/jobs/leader.test.ts']],
    made: {
      'a process whose lead was lost goes on': [
        `    if (!isOurs) return end('the leader lease was lost')
`,
        '',
      ],
      'a lead that ran out goes on': [
        '      if (leading && performance.now() >= leading.untilMs) {',
        '      if (!leading) {',
      ],
      'who takes the lead over does not wait for the proofs of who had it': [
        'taken.isFree ? 0 : proofMs',
        '0',
      ],
    },
  },
  {
    file: 'src/flows/deliver/save-outcomes.ts',
    tests: [['test/flows/complete-arrived.test.ts']],
    made: {
      'what is no longer ours is written all the same': [
        'if (!(await fence.holds(trx))) throw new LeaseLostError()',
        '',
      ],
    },
  },
  {
    file: 'src/flows/poll/poll-loop.ts',
    tests: [['test/flows/poll-loop.test.ts']],
    made: {
      'every process polls by the timer': [
        '    if (!deps.leads() && !isHinted) return sleepUntilWoken(checkMs)\n',
        '',
      ],
    },
  },
  {
    file: 'src/flows/deliver/delivery-worker.ts',
    tests: [['test/flows/queue.test.ts']],
    made: {
      'what was let go of at a stop is settled all the same': ['!isAbandoned && ', ''],
      'what is in hand is taken in hand again': [
        'found.filter(({ pk }) => !before.has(pk))',
        'found',
      ],
    },
  },
  {
    file: 'src/repositories/flows/due-deliveries.ts',
    tests: [['test/flows/complete-arrived.test.ts']],
    made: {
      'what arrived is written down although its claim was lost': [
        'where exists (select from leased)',
        '',
      ],
    },
  },
  {
    file: 'src/repositories/leases.ts',
    tests: [['test/jobs/leader.test.ts'], ['test/jobs/background-job.test.ts']],
    made: {
      'the token of a lease does not grow with its owner': [
        'const token = before.token + 1',
        'const token = Math.max(before.token, 1)',
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
