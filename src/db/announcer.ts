import { sql } from 'kysely'
import type { Db } from './database.ts'
import type { Engine, Log } from './engine.ts'
import { leaveFlow, whenCommitted } from './flow-guard.ts'

export type Announcer = {
  announce(channel: string, payload: string): void
  /** Sends what is collected. Never fails. */
  close(): Promise<void>
}

/** PostgreSQL accepts no longer payload, and one would prevent the others from being sent. */
const longestPayload = 7_999
/** While the database is unreachable: listeners that miss one read the tables by themselves. */
const waitingAtMost = 1_000
const retryMs = 1_000

/** Short compared with a wake-up, long compared with a statement: simultaneous announcements are sent together. */
const collectMs = 4

/**
 * NOTIFY takes a lock of the whole database at the commit, so transactions with NOTIFY wait for each other's disk.
 * Announcements are sent afterwards in one statement, which delays no transaction. With `notifyLocal` no statement is
 * needed. A crash in between loses a hint.
 */
export function createAnnouncer(db: Db, log: Log, notifyLocal?: Engine['notifyLocal']): Announcer {
  let waiting: { channel: string; payload: string }[] = []
  let timer: NodeJS.Timeout | undefined
  let sending: Promise<void> = Promise.resolve()
  let isClosed = false

  const send = async () => {
    timer = undefined
    const pending = waiting
    waiting = []
    if (pending.length === 0) return
    if (notifyLocal) {
      for (const { channel, payload } of pending) notifyLocal(channel, payload)
      return
    }
    try {
      await sql`select pg_notify(t.channel, t.payload)
        from jsonb_to_recordset(${JSON.stringify(pending)}::jsonb) as t(channel text, payload text)`.execute(
        db,
      )
    } catch (error) {
      if (isClosed) return
      log(
        'warn',
        { err: error, pending: pending.length },
        'changes could not be announced; other processes poll',
      )
      waiting = [...pending, ...waiting].slice(-waitingAtMost)
      soon(retryMs)
    }
  }
  const soon = (ms: number) => {
    // Outside the caller's flow: it may be in a transaction that ends before.
    timer ??= leaveFlow(() =>
      setTimeout(() => {
        sending = sending.then(send)
      }, ms).unref(),
    )
  }

  return {
    announce(channel, payload) {
      if (Buffer.byteLength(payload) > longestPayload) {
        log('error', { channel }, 'the payload of a database notification is too long')
        return
      }
      whenCommitted(() => {
        waiting.push({ channel, payload })
        soon(collectMs)
      })
    },
    async close() {
      isClosed = true
      clearTimeout(timer)
      sending = sending.then(send)
      await sending
    },
  }
}
