import type { Database } from '../../db/database.ts'
import type { Log } from '../../domain/log.ts'
import { createBatchingWriter } from '../../jobs/batching-writer.ts'
import { touchApiKeys } from '../../repositories/api-keys/api-key-queries.ts'

/** When keys were used last. */
export type KeyUses = {
  /** Records a use. It is written a moment later; the caller neither waits for it nor fails with it. */
  note(keyId: string): void
  /** Writes what is pending. Never fails. */
  flush(): Promise<void>
}

/** A key in constant use is written once in this time. */
const againMs = 60_000
const afterMs = 2_000
/** More than the number of keys in use. The oldest are dropped, and written again at their next use. */
const remembered = 10_000

/** A crash loses the last seconds of the uses. */
export function createKeyUses(database: Database, now: () => Date, log: Log): KeyUses {
  const written = new Map<string, number>()
  let pending = new Map<string, Date>()

  const write = async () => {
    const uses = pending
    pending = new Map()
    try {
      await touchApiKeys(database.db, uses)
    } catch (error) {
      for (const id of uses.keys()) written.delete(id)
      throw error
    }
    return undefined
  }
  const isEmpty = () => pending.size === 0
  const writer = createBatchingWriter({ name: 'key uses', afterMs, isEmpty, write, log })

  return {
    note(keyId) {
      const at = now()
      const last = written.get(keyId)
      if (last !== undefined && Math.abs(at.getTime() - last) < againMs) return
      written.delete(keyId)
      written.set(keyId, at.getTime())
      const [oldest] = written.keys()
      if (written.size > remembered && oldest !== undefined) written.delete(oldest)
      pending.set(keyId, at)
      writer.later()
    },
    flush: writer.flush,
  }
}
