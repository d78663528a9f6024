/**
 * How often a test repeats what chance or a race may hide. Few times by default; `TEST_ROUNDS=100` makes it a hundred
 * times as many, and gives every test that much more time (vitest.config.ts).
 */
export function rounds(usual: number): number {
  return usual * timesAsMany
}

export const timesAsMany = Number(process.env.TEST_ROUNDS ?? 1)

/** The same histories in each short run of a model. A long one plays others each time; MODEL_SEED repeats one. */
export function seedOfModel(): { seed?: number } {
  const { MODEL_SEED: seed } = process.env
  if (seed === undefined && timesAsMany > 1) return {}
  return { seed: Number(seed ?? 1) }
}
