import type { Mistake } from './mistake.ts'

/** Leases and the leader. */
export const leases: readonly Mistake[] = [
  {
    name: 'a process that lost the leader lease goes on',
    file: 'src/jobs/leader.ts',
    find: `    if (!isRenewed) return this.#end('the leader lease was lost')
`,
    replace: '',
    noticedBy: { tests: [['test/jobs/leader.test.ts']] },
  },
  {
    name: 'a process whose leader lease ran out goes on',
    file: 'src/jobs/leader.ts',
    find: '    if (performance.now() >= leading.untilMs) {',
    replace: '      if (!leading) {',
    noticedBy: { tests: [['test/jobs/leader.test.ts']] },
  },
  {
    name: 'a new leader does not wait for the proofs of the former one',
    file: 'src/jobs/leader.ts',
    find: 'taken.isFree ? 0 : this.#proofLeftMs(foundGone, gone)',
    replace: '0',
    noticedBy: { tests: [['test/jobs/leader.test.ts']] },
  },
  {
    name: 'the leader lease is not checked before the first byte',
    file: 'src/jobs/leader.ts',
    find: 'return () => !own.end.signal.aborted && performance.now() - own.provenMs < this.#proofMs',
    replace: 'return () => true',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'the proof of a leader is taken for that of another one',
    file: 'src/jobs/leader.ts',
    find: ' || found?.token !== gone',
    replace: ' || !found',
    noticedBy: { tests: [['test/jobs/leader.test.ts', 'found another leader gone']] },
  },
  {
    name: 'the token of a lease does not grow with its owner',
    file: 'src/repositories/leases.ts',
    find: 'const token = before.token + 1',
    replace: 'const token = Math.max(before.token, 1)',
    noticedBy: { tests: [['test/jobs/leader.test.ts'], ['test/jobs/background-job.test.ts']] },
  },
  {
    name: 'a lease of another owner is given back',
    file: 'src/repositories/leases.ts',
    find: `    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .where('token', '=', lease.token)
    .execute()
}`,
    replace: `    .where('name', '=', lease.name)
    .execute()
}`,
    noticedBy: { tests: [['test/jobs/leader.test.ts'], ['test/jobs/background-job.test.ts']] },
  },
]
