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

/** The keys of a read, with the content that the database has of each item, as far as it is remembered from read to read. */
export type ItemKeys = KeySet & {
  /** Whether the item is stored with this hash. False says nothing: it may not be remembered. */
  isSame(key: string, hash: string): boolean
  /** The item is stored with this hash. */
  remember(key: string, hash: string): void
  forget(key: string): void
  isRemembered(key: string): boolean
  /** Whether all stored items of the flow are remembered. */
  isWhole: boolean
  /** Another read begins: it has found nothing yet. */
  begin(): void
  /** How many remembered items the read has not found. */
  countUnseen(): number
  /** Forgets what the read has not found. */
  forgetUnseen(): void
  /** Keys in memory, also those that were forgotten. */
  readonly kept: number
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
 * Each slot has two words for the mark and one for the record, and two for the content where it is remembered. Plain
 * numbers: bigints or hash objects of a million keys leave more garbage than the set is large. An empty slot has a mark
 * of two zeros, an unknown content too.
 */
type Table = { slots: Uint32Array; size: number; most: number }

const wordsOfKey = 3
const wordsOfItem = 5

export function createKeySet(): KeySet {
  return createTables(wordsOfKey)
}

export function createItemKeys(): ItemKeys {
  return createTables(wordsOfItem)
}

function createTables(words: number): ItemKeys {
  const tables: (Table | undefined)[] = Array.from({ length: tableCount }, () => undefined)
  let size = 0
  let kept = 0
  let high = 0
  let low = 0
  let marked: string | undefined

  const mark = (key: string) => {
    // Often the same key is asked for several times in a row.
    if (key === marked) return
    marked = key
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
      if (low !== 0) larger.set(slots.subarray(index, index + words), slotOf(larger))
    }
    marked = undefined
    table.slots = larger
  }
  /** Where the key is, if it is there. */
  const find = (key: string): { slots: Uint32Array; index: number } | undefined => {
    mark(key)
    const slots = tables[high % tableCount]?.slots
    if (!slots) return undefined
    const index = slotOf(slots)
    return slots[index + 1] === 0 ? undefined : { slots, index }
  }
  /** In a table of items each record has a number, and keys of earlier reads have none. */
  const isSeen = (slots: Uint32Array, index: number) =>
    slots[index + 1] !== 0 && (words === wordsOfKey || slots[index + 2] !== 0)
  const setContent = (key: string, [first, second]: readonly [number, number]) => {
    const found = find(key)
    if (!found) return
    found.slots[found.index + 3] = first
    found.slots[found.index + 4] = second
  }
  const eachUnseen = (work: (slots: Uint32Array, index: number) => void) => {
    for (const table of tables) {
      const slots = table?.slots ?? new Uint32Array()
      for (let index = 0; index < slots.length; index += words) {
        if (slots[index + 4] !== 0 && slots[index + 2] === 0) work(slots, index)
      }
    }
  }

  return {
    isWhole: false,
    get size() {
      return size
    },
    get kept() {
      return kept
    },
    has(key) {
      const found = find(key)
      return found !== undefined && isSeen(found.slots, found.index)
    },
    recordOf(key) {
      const found = find(key)
      return found?.slots[found.index + 2] ?? 0
    },
    add(key, record = 0) {
      mark(key)
      const table = tableOf(high % tableCount)
      const index = slotOf(table.slots)
      if (isSeen(table.slots, index)) return false
      size += 1
      const isNew = table.slots[index + 1] === 0
      table.slots[index] = high
      table.slots[index + 1] = low
      table.slots[index + 2] = record
      if (!isNew) return true
      kept += 1
      table.size += 1
      if (table.size * words > table.slots.length * table.most) grow(table)
      return true
    },
    isSame(key, hash) {
      const found = find(key)
      const [first, second] = contentOf(hash)
      return found?.slots[found.index + 3] === first && found.slots[found.index + 4] === second
    },
    remember: (key, hash) => setContent(key, contentOf(hash)),
    isRemembered(key) {
      const found = find(key)
      return found !== undefined && found.slots[found.index + 4] !== 0
    },
    forget(key) {
      setContent(key, [0, 0])
      this.isWhole = false
    },
    begin() {
      size = 0
      for (const { slots } of tables.filter((table) => table !== undefined)) {
        for (let index = 2; index < slots.length; index += words) slots[index] = 0
      }
    },
    countUnseen() {
      let count = 0
      eachUnseen(() => {
        count += 1
      })
      return count
    },
    forgetUnseen() {
      eachUnseen((slots, index) => {
        slots.fill(0, index + 3, index + 5)
        this.isWhole = false
      })
    },
  }
}

/** 64 bits of a hash, which is random text: two sums over its halves. */
function contentOf(hash: string): [number, number] {
  const half = hash.length >> 1
  let first = 0
  let second = 0
  for (let at = 0; at < half; at += 1) first = (Math.imul(first, 31) + hash.charCodeAt(at)) | 0
  for (let at = half; at < hash.length; at += 1) {
    second = (Math.imul(second, 31) + hash.charCodeAt(at)) | 0
  }
  return [first >>> 0, second >>> 0 || 1]
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
