import type { Database } from '../../db/database.ts'
import { type LookNote, noteLooks } from '../../repositories/orders/move-queries.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { Log } from '../deps.ts'

/** Looks that found nothing new, and when those orders are to be looked at next. */
export type LookNotes = {
  /** Takes a look at the order as it is known down; it is written a moment later, and never makes anybody wait or fail. */
  note(order: OrderRow, look: Pick<LookNote, 'checkedAt' | 'next'>): void
  /** Writes what was taken down, for somebody who wants to see it now. Never fails. */
  flush(): Promise<void>
}

/** Tills that ask again and again share a statement. Much shorter than the time between two looks of the sweeper. */
const gatherMs = 200
const heldAtMost = 500

/**
 * Keeps the looks of reads out of their way: nobody who reads an order waits for a write that says that nothing was new. A
 * crash loses the last moment of them, so those orders are looked at a little sooner.
 */
export function createLookNotes(
  { db }: Pick<Database, 'db'>,
  startedAt: Date,
  now: () => Date,
  log: Log,
): LookNotes {
  let held = new Map<string, LookNote>()
  let timer: NodeJS.Timeout | undefined

  const flush = async () => {
    clearTimeout(timer)
    timer = undefined
    const notes = [...held.values()]
    held = new Map()
    if (notes.length === 0) return
    await noteLooks(db, notes, { now: now(), startedAt }).catch((error) =>
      log.warn({ err: error, orders: notes.length }, 'looks at orders could not be noted'),
    )
  }

  return {
    note(order, look) {
      const { id, version, next_check_at: knownNext } = order
      const before = held.get(id)
      const isSame = before?.version === version
      held.set(id, {
        id,
        version,
        knownNext: isSame ? before.knownNext : knownNext,
        times: isSame ? before.times + 1 : 1,
        ...look,
      })
      if (held.size >= heldAtMost) void flush()
      else timer ??= setTimeout(() => void flush(), gatherMs).unref()
    },
    flush,
  }
}
