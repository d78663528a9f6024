import type { Database } from '../../db/database.ts'
import type { Log } from '../../domain/log.ts'
import { isOpen } from '../../domain/order-state.ts'
import { createBatchingWriter } from '../../jobs/batching-writer.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import {
  recordStatusChecks,
  type StatusCheckNote,
} from '../../repositories/orders/save-order-move.ts'

/** Writes status checks without news, and when those orders are checked next. */
export type StatusCheckNotes = {
  /**
   * Records a status check of an unchanged order. It is written a moment later; the caller neither waits for it nor fails with
   * it. A check of an order that had just ended when it was known already is not written: see `isKnownEnd`.
   */
  note(order: OrderRow, check: Pick<StatusCheckNote, 'checkedAt' | 'next'>): void
  /** Writes what is pending. Never fails. */
  flush(): Promise<void>
}

const endFreshForMs = 30_000

/**
 * Whether the provider has shown within the last 30 s that the order has ended. A till that reads the end once more finds nothing
 * that is worth a write, and no next check needs to be planned.
 */
function isKnownEnd(
  { status, next_check_at, checked_at, last_updated_at }: OrderRow,
  { checkedAt, next }: Pick<StatusCheckNote, 'checkedAt' | 'next'>,
): boolean {
  if (isOpen(status) || next_check_at !== null || next.at !== null) return false
  const knownAt = Math.max(last_updated_at.getTime(), checked_at?.getTime() ?? 0)
  return checkedAt.getTime() - knownAt < endFreshForMs
}

/** Repeated reads share a statement. Much shorter than the time between two status checks of the sweeper. */
const afterMs = 200
const pendingAtMost = 500

/**
 * A read does not wait for a write about an unchanged order. A crash loses the last moment of them, so those orders are checked a
 * little earlier.
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
    await recordStatusChecks(db, notes, { now: now(), startedAt })
    return undefined
  }
  const isEmpty = () => pending.size === 0
  const writer = createBatchingWriter({ name: 'status checks', afterMs, isEmpty, write, log })

  return {
    note(order, check) {
      if (isKnownEnd(order, check)) return
      const { id, version, next_check_at: knownNext } = order
      const before = pending.get(id)
      const isSame = before?.version === version
      pending.set(id, {
        id,
        version,
        knownNext: isSame ? before.knownNext : knownNext,
        times: isSame ? before.times + 1 : 1,
        ...check,
      })
      if (pending.size >= pendingAtMost) void writer.flush()
      else writer.later()
    },
    flush: writer.flush,
  }
}
