import type { Database } from '../../db/database.ts'
import { touchApiKeys } from '../../repositories/api-keys/api-key-queries.ts'
import type { Log } from '../deps.ts'

/** When keys were used last. */
export type KeyUses = {
  /** Takes a use down; it is written a moment later, and never makes anybody wait or fail. */
  note(keyId: string): void
  /** Writes what was taken down, for somebody who wants to see it now. Never fails. */
  flush(): Promise<void>
}

/** A key that is used all the time is written so often. */
const againMs = 60_000
const gatherMs = 2_000
/** More keys than are in use; the oldest are forgotten, and written again with their next use. */
const remembered = 10_000

/** Keeps the uses of keys out of the way of requests. A crash loses the last seconds of them. */
export function createKeyUses(database: Database, now: () => Date, log: Log): KeyUses {
  const written = new Map<string, number>()
  let waiting = new Map<string, Date>()
  let timer: NodeJS.Timeout | undefined

  const flush = async () => {
    clearTimeout(timer)
    timer = undefined
    const uses = waiting
    waiting = new Map()
    if (uses.size === 0) return
    await touchApiKeys(database.db, uses).catch((error) => {
      for (const id of uses.keys()) written.delete(id)
      log.warn({ err: error, keys: uses.size }, 'the use of keys could not be noted')
    })
  }

  return {
    note(keyId) {
      const at = now()
      const last = written.get(keyId)
      if (last !== undefined && Math.abs(at.getTime() - last) < againMs) return
      written.delete(keyId)
      written.set(keyId, at.getTime())
      const [oldest] = written.keys()
      if (written.size > remembered && oldest !== undefined) written.delete(oldest)
      waiting.set(keyId, at)
      timer ??= setTimeout(() => void flush(), gatherMs).unref()
    },
    flush,
  }
}
