import { expect } from 'vitest'
import { openTestDatabase } from '../support/database.ts'
import { runNamed } from './run.ts'
import { openWorld, shopsAtOnce } from './world.ts'

/** Runs these seeds in one world and expects that the provider's books agree with all that was told and written. */
export async function expectBooksAgree(seeds: readonly string[]): Promise<void> {
  const database = await openTestDatabase()
  try {
    const world = await openWorld(database, shopsAtOnce)
    try {
      const seen = { charged: 0, refunds: 0, lost: 0 }
      for (const seed of seeds) {
        const result = await runNamed(world, seed)
        expect(result.failures.join('\n'), `replay: npm run faults -- --seed ${seed}`).toBe('')
        for (const name of ['charged', 'refunds', 'lost'] as const) seen[name] += result[name]
      }
      // A run in which nothing happens proves nothing.
      expect(seen.charged).toBeGreaterThan(seeds.length * 5)
      expect(seen.refunds).toBeGreaterThan(seeds.length * 5)
      expect(seen.lost).toBeGreaterThan(seeds.length)
    } finally {
      await world.stop()
    }
  } finally {
    await database.close()
  }
}
