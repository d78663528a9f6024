import { hash } from 'node:crypto'

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

const fullest = 0.6

/** `initialCapacity` is a power of two. */
export function createKeySet(initialCapacity = 1024): KeySet {
  // Two words for each mark, and plain numbers: bigints or hash objects of a million keys would leave behind more for the
  // garbage collector than the set is large. An empty slot is two zeros.
  let slots = new Uint32Array(initialCapacity * 2)
  let size = 0
  let high = 0
  let low = 0

  const mark = (key: string) => {
    const digest = hash('sha256', key, 'binary')
    high = wordAt(digest, 0)
    // Never zero, which marks an empty slot.
    low = wordAt(digest, 4) || 1
  }
  /** Where the mark is, or where it belongs. */
  const slotOf = (table: Uint32Array) => {
    const mask = table.length - 1
    let index = (low * 2) & mask
    while (table[index + 1] !== 0 && (table[index] !== high || table[index + 1] !== low)) {
      index = (index + 2) & mask
    }
    return index
  }
  const put = (table: Uint32Array) => {
    const index = slotOf(table)
    table[index] = high
    table[index + 1] = low
  }
  const grow = () => {
    const larger = new Uint32Array(slots.length * 2)
    for (let index = 0; index < slots.length; index += 2) {
      high = slots[index] ?? 0
      low = slots[index + 1] ?? 0
      if (low !== 0) put(larger)
    }
    slots = larger
  }

  return {
    get size() {
      return size
    },
    has(key) {
      mark(key)
      return slots[slotOf(slots) + 1] !== 0
    },
    add(key) {
      mark(key)
      if (slots[slotOf(slots) + 1] !== 0) return false
      put(slots)
      size += 1
      if (size * 2 > slots.length * fullest) grow()
      return true
    },
  }
}

/** Four bytes of a text whose characters are bytes, as an unsigned number. */
function wordAt(bytes: string, at: number): number {
  return (
    ((bytes.charCodeAt(at) << 24) |
      (bytes.charCodeAt(at + 1) << 16) |
      (bytes.charCodeAt(at + 2) << 8) |
      bytes.charCodeAt(at + 3)) >>>
    0
  )
}
