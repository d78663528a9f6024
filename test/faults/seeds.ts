import { expect } from 'vitest'
import { openTestDatabase } from '../support/database.ts'
import { runNamed } from './run.ts'
import { openTestbed, shopsAtOnce } from './testbed.ts'

/** Runs these seeds in one testbed and expects no difference between the provider, the rows of the service and its answers. */
export async function expectNoDifference(seeds: readonly string[]): Promise<void> {
  const database = await openTestDatabase()
  try {
    const testbed = await openTestbed(database, shopsAtOnce)
    try {
      const totals = { charged: 0, refunds: 0, lost: 0 }
      for (const seed of seeds) {
        const result = await runNamed(testbed, seed)
        expect(result.failures.join('\n'), `replay: npm run faults -- --seed ${seed}`).toBe('')
        for (const name of ['charged', 'refunds', 'lost'] as const) totals[name] += result[name]
      }
      // A run in which nothing happens proves nothing.
      expect(totals.charged).toBeGreaterThan(seeds.length * 5)
      expect(totals.refunds).toBeGreaterThan(seeds.length * 5)
      expect(totals.lost).toBeGreaterThan(seeds.length)
    } finally {
      await testbed.stop()
    }
  } finally {
    await database.close()
  }
}
