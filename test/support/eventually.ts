import { vi } from 'vitest'

/**
 * Repeats the check until it passes, and returns what it returned; fails with its last error. The limit is one for a loaded
 * machine: a check that passes ends at once, so a longer limit costs a green run nothing.
 */
export const eventually = async <Result>(check: () => Result | Promise<Result>): Promise<Result> =>
  await vi.waitFor(check, { timeout: 15_000, interval: 15 })
