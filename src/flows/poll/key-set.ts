import { hash } from 'node:crypto'

/**
 * Stores the keys of a poll and their first record in 12 bytes each, so that a million keys take megabytes. It keeps
 * 64 bits of SHA-256 of each key. Among a million keys the chance of a false match is below one in thirty million.
 */
export type KeySet = {
  /** Adds the key of this record (from 1). Returns false if it exists. */
  add(key: string, record?: number): boolean
  /** The record at which the key was added; 0 if it is unknown. */
  recordOf(key: string): number
  has(key: string): boolean
  readonly size: number
}

/**
 * Keys are spread over this many small tables. Growing one table of many millions would block charges; small tables
 * grow at different times.
 */
const tableCount = 256
const smallestSlots = 8
const fullest = 0.6
const spread = 0.15

/**
 * Each slot has two words for the mark and one for the record. Plain numbers: bigints or hash objects of a million
 * keys leave more garbage than the set is large. An empty slot has a mark of two zeros.
 */
type Table = { slots: Uint32Array; size: number; most: number }

const words = 3

export function createKeySet(): KeySet {
  const tables: (Table | undefined)[] = Array.from({ length: tableCount }, () => undefined)
  let size = 0
  let high = 0
  let low = 0

  const mark = (key: string) => {
    const digest = hash('sha256', key, 'binary')
    high = wordAt(digest, 0)
    // Never zero, because zero marks an empty slot.
    low = wordAt(digest, 4) || 1
  }
  /** The place of the mark, or where it must be added. */
  const slotOf = (slots: Uint32Array) => {
    const mask = slots.length / words - 1
    let slot = low & mask
    for (;;) {
      const index = slot * words
      if (slots[index + 1] === 0) return index
      if (slots[index] === high && slots[index + 1] === low) return index
      slot = (slot + 1) & mask
    }
  }
  const put = (slots: Uint32Array, record: number) => {
    const index = slotOf(slots)
    slots[index] = high
    slots[index + 1] = low
    slots[index + 2] = record
  }
  const tableOf = (place: number): Table => {
    const known = tables[place]
    if (known) return known
    const most = fullest + (spread * place) / tableCount
    const table = { slots: new Uint32Array(smallestSlots * words), size: 0, most }
    tables[place] = table
    return table
  }
  const grow = (table: Table) => {
    const { slots } = table
    const larger = new Uint32Array(slots.length * 2)
    for (let index = 0; index < slots.length; index += words) {
      high = slots[index] ?? 0
      low = slots[index + 1] ?? 0
      if (low !== 0) put(larger, slots[index + 2] ?? 0)
    }
    table.slots = larger
  }

  return {
    get size() {
      return size
    },
    has(key) {
      mark(key)
      const table = tables[high % tableCount]
      return table !== undefined && table.slots[slotOf(table.slots) + 1] !== 0
    },
    recordOf(key) {
      mark(key)
      const table = tables[high % tableCount]
      return table?.slots[slotOf(table.slots) + 2] ?? 0
    },
    add(key, record = 0) {
      mark(key)
      const table = tableOf(high % tableCount)
      if (table.slots[slotOf(table.slots) + 1] !== 0) return false
      put(table.slots, record)
      size += 1
      table.size += 1
      if (table.size * words > table.slots.length * table.most) grow(table)
      return true
    },
  }
}

/** Four bytes of a byte string, as an unsigned number. */
function wordAt(bytes: string, at: number): number {
  return (
    ((bytes.charCodeAt(at) << 24) |
      (bytes.charCodeAt(at + 1) << 16) |
      (bytes.charCodeAt(at + 2) << 8) |
      bytes.charCodeAt(at + 3)) >>>
    0
  )
}
