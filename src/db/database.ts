import { type Kysely, sql, type Transaction } from 'kysely'
import type { Tables } from './tables.ts'

export type Db = Kysely<Tables>
export type Trx = Transaction<Tables>

/** A connection outside of the pool, with locks that end with it. */
export type Session = {
  /** For single statements. */
  db: Db
  /** Aborts when the connection is lost or closed. */
  lost: AbortSignal
  /** Takes a lock of the table of leases, until it is unlocked or the connection ends; false while another connection has it. */
  tryLock(key: number): Promise<boolean>
  unlock(key: number): Promise<void>
  close(): Promise<void>
}

export type Database = {
  engine: 'pglite' | 'postgres'
  /** Rejects with OpenTransactionError when a query runs while a transaction of the same flow is open. */
  db: Db
  /**
   * Commits everything that `work` did, or nothing. On a serialization failure or a deadlock `work` runs again, up to
   * five times in total, so it must change nothing but the database. Rejects with OpenTransactionError inside another
   * transaction. After a rejection with DatabaseUnavailableError the commit may have happened: read again before you
   * answer.
   */
  transaction<T>(work: (trx: Trx) => Promise<T>): Promise<T>
  /** The same database for work that must not delay other work: it uses at most `most` connections at a time. */
  withConnectionLimit(most: number): Database
  /**
   * Notifies the listeners of `channel` in all processes, some milliseconds after this flow's transaction commits,
   * and never without the commit. Outside of a transaction it sends after this call. A hint only, see `listen`.
   * Payload: less than 8,000 bytes.
   */
  announce(channel: string, payload: string): void
  /**
   * Calls `onPayload` for announcements of all processes after their commit. Resolves with the function that ends it.
   * A hint only: payloads are lost while the connection is down, and `onGap` is called when it is up again. Neither
   * function may throw.
   */
  listen(
    channel: string,
    onPayload: (payload: string) => void,
    onGap?: () => void,
  ): Promise<() => Promise<void>>
  /** Opens a connection of its own. PostgreSQL only: the embedded database has one process. */
  openSession(): Promise<Session>
  /** Connections without time limits, for migrations; the limits of `db` would end a long one. */
  maintenance<T>(work: (db: Db) => Promise<T>): Promise<T>
  /** The time of the database's own clock, in milliseconds since 1970. Only DatabaseClock uses this; other code uses DatabaseClock. */
  clockMs(): Promise<number>
  /** The state of the connections for queries; those that listen are not included. */
  connections(): { most: number; busy: number; idle: number; waiting: number }
  /** Whether a query is answered within 2 s. */
  ping(): Promise<boolean>
  /**
   * Whether a write is committed within 2 s; at most one is tried in 3 s, for all callers. `ping` alone succeeds also
   * with a standby, a full disk and a lost quorum.
   */
  takesWrites(): Promise<boolean>
  /** One sentence per server setting that loses acknowledged data in a power cut, or makes queries slow. */
  settingWarnings(): Promise<string[]>
  /** Lets running queries and transactions end (at most 5 s) and refuses new ones. A second call has no effect. */
  close(): Promise<void>
}

/** Notifies the listeners of `channel` if and when the transaction commits. Payload: less than 8,000 bytes. */
export async function notify(trx: Trx, channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`.execute(trx)
}
