import { expect, test } from 'vitest'
import { needsPostgres, postgresUrl } from '../support/database.ts'
import { runKills } from './kill-run.ts'

test.skipIf(!postgresUrl)(
  `a process killed around the outcome of a charge loses and doubles nothing (${needsPostgres})`,
  async () => {
    const result = await runKills(postgresUrl as string, 3, 5)
    expect(result.problems).toEqual([])
    expect(result.orders).toBeGreaterThan(3)
    expect([...result.byStep.keys()].join()).toContain('charge: ')
  },
  300_000,
)
