import { createHash } from 'node:crypto'

/**
 * Remembers which keys a poll has met in 8 bytes each, so that a million of them cost megabytes and not hundreds. It
 * keeps 64 bits of SHA-256 of each key: among a million keys the chance that two differ and look equal is below one in
 * thirty million.
 */
export type KeySet = {
  /** Adds the key. Answers false when it was there. */
  add(key: string): boolean
  has(key: string): boolean
  readonly size: number
}

const emptySlot = 0n
const fullest = 0.6

export function createKeySet(initialCapacity = 1024): KeySet {
  let slots = new BigUint64Array(initialCapacity)
  let size = 0

  const slotOf = (table: BigUint64Array, mark: bigint) => {
    let index = Number(mark % BigInt(table.length))
    while (table[index] !== emptySlot && table[index] !== mark) index = (index + 1) % table.length
    return index
  }
  const grow = () => {
    const larger = new BigUint64Array(slots.length * 2)
    for (const mark of slots) if (mark !== emptySlot) larger[slotOf(larger, mark)] = mark
    slots = larger
  }

  return {
    get size() {
      return size
    },
    has: (key) => {
      const mark = markOf(key)
      return slots[slotOf(slots, mark)] === mark
    },
    add(key) {
      const mark = markOf(key)
      const index = slotOf(slots, mark)
      if (slots[index] === mark) return false
      slots[index] = mark
      size += 1
      if (size > slots.length * fullest) grow()
      return true
    },
  }
}

/** Never zero, which marks an empty slot. */
function markOf(key: string): bigint {
  const mark = createHash('sha256').update(key).digest().readBigUInt64LE()
  return mark === emptySlot ? 1n : mark
}
