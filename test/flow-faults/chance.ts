import { createHash } from 'node:crypto'

/** Choices that depend on the seed and the label alone, so that no order of events changes another choice. */
export type Chance = {
  /** True with this probability. */
  maybe(label: string, probability: number): boolean
  /** A whole number from `low` to `high`, both included. */
  whole(label: string, low: number, high: number): number
  pick<T>(label: string, choices: readonly [T, ...T[]]): T
}

export function createChance(...seed: readonly (string | number)[]): Chance {
  const unit = (label: string) =>
    createHash('sha256')
      .update([...seed, label].join('/'))
      .digest()
      .readUInt32LE() /
    2 ** 32
  const whole = (label: string, low: number, high: number) =>
    low + Math.floor(unit(label) * (high - low + 1))
  return {
    maybe: (label, probability) => unit(label) < probability,
    whole,
    pick: (label, choices) => choices[whole(label, 0, choices.length - 1)] ?? choices[0],
  }
}
