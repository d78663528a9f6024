import { expect, test } from 'vitest'
import { needsPostgres, postgresUrl } from '../support/database.ts'
import { runKills } from './kill-run.ts'

test.skipIf(!postgresUrl)(
  `T33: a process killed around the outcome of a charge loses and doubles nothing (${needsPostgres})`,
  { tags: ['long'] },
  async () => {
    const result = await runKills(postgresUrl as string, 3, 5)
    expect(result.problems).toEqual([])
    expect(result.orders).toBeGreaterThan(3)
    const reached = [...result.byStep].filter(([, times]) => times > 0).map(([step]) => step)
    expect(reached).toEqual([
      'charge: after the provider answered',
      'charge: before the outcome commits',
      'charge: after the outcome commits',
    ])
  },
)
