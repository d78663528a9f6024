import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { codeOf } from '../domain/error-code.ts'
import type { Db } from './database.ts'

/** Several balancers check the health every second; a write for each check would be a load of its own. */
const REUSE_MS = 3_000
const TIMEOUT_MS = 2_000

export type WriteProof = {
  /** Whether the database commits a write. The result may be three seconds old, and takes at most two. */
  prove(): Promise<boolean>
  /** Receives a failed transaction. It may show a problem that the small write of the proof does not find. */
  noteFailure(error: unknown): void
}

/**
 * A server that answers queries may still accept no write: it has become a standby, its disk is full, or the standbys
 * that must confirm a commit are gone. Only a write shows that. There is at most one at a time, and one in three
 * seconds, for all callers; while one hangs, the answer is no.
 */
export function createWriteProof(db: Db): WriteProof {
  let running: { since: number; works: Promise<boolean> } | undefined
  let last: { at: number; works: boolean } | undefined
  let needsRoom = false
  const write = async () => {
    const works = await writes(db, needsRoom)
    if (works) needsRoom = false
    last = { at: performance.now(), works }
    return works
  }
  return {
    async prove() {
      if (!running && last && performance.now() - last.at < REUSE_MS) return last.works
      running ??= {
        since: performance.now(),
        works: write().finally(() => {
          running = undefined
        }),
      }
      const leftMs = running.since + TIMEOUT_MS - performance.now()
      return await Promise.race([running.works, sleep(Math.max(0, leftMs), false, { ref: false })])
    },
    noteFailure(error) {
      // Out of disk or memory. The one row of the proof needs no new space, so until there is some the proof also asks
      // for space.
      if (!/^53[12]00$/.test(codeOf(error) ?? '')) return
      needsRoom = true
      last = { at: performance.now(), works: false }
    },
  }
}

async function writes(db: Db, needsRoom: boolean): Promise<boolean> {
  try {
    await db.transaction().execute(async (trx) => {
      await sql`
        insert into settings (name, value, updated_at) values ('write_proof', '', now())
        on conflict (name) do update set updated_at = excluded.updated_at`.execute(trx)
      if (!needsRoom) return
      await sql`
        create temporary table room_proof on commit drop as
        select repeat('x', 8000) as filler from generate_series(1, 64)`.execute(trx)
    })
    return true
  } catch {
    return false
  }
}
