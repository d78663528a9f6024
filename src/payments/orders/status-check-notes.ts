import type { Database } from '../../db/database.ts'
import { createBatchingWriter } from '../../jobs/batching-writer.ts'
import { noteStatusChecks, type StatusCheckNote } from '../../repositories/orders/move-queries.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { Log } from '../deps.ts'

/** Status checks that found nothing new, and when those orders are checked next. */
export type StatusCheckNotes = {
  /** Notes a status check of the order as it is known. It is written a moment later; no caller waits for it or fails with it. */
  note(order: OrderRow, look: Pick<StatusCheckNote, 'checkedAt' | 'next'>): void
  /** Writes what is pending. Never fails. */
  flush(): Promise<void>
}

/** Reads that repeat share a statement. Much shorter than the time between two status checks of the sweeper. */
const afterMs = 200
const pendingAtMost = 500

/**
 * A read does not wait for a write that says that nothing was new. A crash loses the last moment of them, so those orders are checked
 * a little sooner.
 */
export function createStatusCheckNotes(
  { db }: Pick<Database, 'db'>,
  startedAt: Date,
  now: () => Date,
  log: Log,
): StatusCheckNotes {
  let pending = new Map<string, StatusCheckNote>()

  const write = async () => {
    const notes = [...pending.values()]
    pending = new Map()
    await noteStatusChecks(db, notes, { now: now(), startedAt })
    return undefined
  }
  const isEmpty = () => pending.size === 0
  const writer = createBatchingWriter({ name: 'status checks', afterMs, isEmpty, write, log })

  return {
    note(order, look) {
      const { id, version, next_check_at: knownNext } = order
      const before = pending.get(id)
      const isSame = before?.version === version
      pending.set(id, {
        id,
        version,
        knownNext: isSame ? before.knownNext : knownNext,
        times: isSame ? before.times + 1 : 1,
        ...look,
      })
      if (pending.size >= pendingAtMost) void writer.flush()
      else writer.later()
    },
    flush: writer.flush,
  }
}
