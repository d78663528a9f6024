/** Random choices that depend on the seed and the label alone, not on earlier or simultaneous draws. */
export type Draw = {
  /** True with this chance. */
  maybe(label: string, chance: number): boolean
  /** A whole number from `low` to `high`, both included. */
  int(label: string, low: number, high: number): number
  pick<T>(label: string, choices: readonly T[]): T
  /** One of the names, each as likely as its weight says. */
  weigh<K extends string>(label: string, weights: Record<K, number>): K
}

export function createDraw(...seed: readonly (string | number)[]): Draw {
  const prefix = seed.join('/')
  const unit = (label: string) => hash(`${prefix}/${label}`) / 2 ** 32
  const int = (label: string, low: number, high: number) =>
    low + Math.floor(unit(label) * (high - low + 1))
  return {
    maybe: (label, chance) => unit(label) < chance,
    int,
    pick: (label, choices) => choices[int(label, 0, choices.length - 1)] as never,
    weigh(label, weights) {
      const entries = Object.entries(weights) as [never, number][]
      let rest = unit(label) * entries.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [name, weight] of entries) {
        rest -= weight
        if (rest < 0) return name
      }
      return entries.at(-1)?.[0] as never
    },
  }
}

/** 32 well-mixed bits of a text: FNV-1a with the finaliser of MurmurHash3. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return (value ^ (value >>> 16)) >>> 0
}
