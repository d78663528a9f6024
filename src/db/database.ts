import { setTimeout as sleep } from 'node:timers/promises'
import { type Driver, Kysely, sql, type Transaction } from 'kysely'
import { OpenTransactionError } from './database-failures.ts'
import type { Engine, Log } from './engine.ts'
import { postgresEngine } from './postgres-engine.ts'
import type { Tables } from './tables.ts'
import {
  asLast,
  assertOutsideTransaction,
  createAnnouncer,
  Gate,
  guarded,
  limitConnections,
  listen,
  runTransaction,
} from './transactions.ts'
import { createWriteProof } from './write-check.ts'

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

type OpenOptions = {
  /** PostgreSQL; without it the embedded database. */
  databaseUrl?: string
  /** The embedded database in `${dataDir}/pglite`. */
  dataDir?: string
  /** The embedded database without a folder. */
  inMemory?: boolean
  /** A dumped embedded database to start from. */
  loadDataDir?: Blob | File
  /** PostgreSQL only; 10 when absent, and one more that listens. */
  maxConnections?: number
  log?: Log
}

const PING_TIMEOUT_MS = 2_000
const CLOSE_TIMEOUT_MS = 5_000

/**
 * Opens the database and makes one query.
 * @throws DatabaseLockedError if another process has the folder.
 * @throws DatabaseUnavailableError if PostgreSQL does not answer.
 */
export async function openDatabase(options: OpenOptions): Promise<Database> {
  const log = options.log ?? (() => {})
  const database = build(await openEngine(options, log), log)
  try {
    await sql`select 1`.execute(database.db)
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Notifies the listeners of `channel` if and when the transaction commits. Payload: less than 8,000 bytes. */
export async function notify(trx: Trx, channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`.execute(trx)
}

async function openEngine(options: OpenOptions, log: Log): Promise<Engine> {
  const { databaseUrl, maxConnections, dataDir, loadDataDir } = options
  if (databaseUrl !== undefined) {
    return await postgresEngine({
      databaseUrl,
      log,
      ...(maxConnections && { maxConnections }),
    })
  }
  if ((dataDir === undefined) !== (options.inMemory === true)) {
    throw new Error('Name one of databaseUrl, dataDir and inMemory')
  }
  const load = loadDataDir && { loadDataDir }
  // On demand: with PostgreSQL the embedded one is never loaded.
  const { openPglite } = await import('./pglite-engine.ts')
  return await openPglite({ log, ...(dataDir !== undefined && { dataDir }), ...load })
}

/** The database on an engine. Use `openDatabase`, unless the engine is needed too. */
export function build(engine: Engine, log: Log = () => {}): Database {
  const gate = new Gate()
  const dialect = guarded(engine.dialect, gate)
  const driver = dialect.createDriver()
  const openOn = (own: Driver): Db =>
    new Kysely<Tables>({ dialect: { ...dialect, createDriver: () => own } })
  const db = openOn(driver)
  const writeProof = createWriteProof(db)
  const announcer = createAnnouncer(db, log, engine.notifyLocal)
  let pinging: Promise<boolean> | undefined
  let closing: Promise<void> | undefined

  const close = async () => {
    const drained = gate.close(CLOSE_TIMEOUT_MS)
    await atMost(engine.stop(), CLOSE_TIMEOUT_MS)
    await drained
    // Sends the announcements of all commits until now, also of transactions that had begun.
    await atMost(asLast(announcer.close), CLOSE_TIMEOUT_MS)
    // Not `db.destroy()`: Kysely would answer late queries with an error without class or code. The time limit is for
    // connections to a vanished server, which take minutes to close.
    await atMost(engine.disconnect(), CLOSE_TIMEOUT_MS)
  }

  const database: Database = {
    engine: engine.name,
    db,
    transaction: (work) => runTransaction(db, work, writeProof),
    withConnectionLimit: (most) => {
      const own = openOn(limitConnections(driver, most))
      return { ...database, db: own, transaction: (work) => runTransaction(own, work, writeProof) }
    },
    announce: announcer.announce,
    listen: (channel, onPayload, onGap) => listen(engine, log, channel, { onPayload, onGap }),
    openSession: async () => {
      if (!engine.openSession) throw new Error('the embedded database has no sessions')
      return await engine.openSession()
    },
    maintenance: async (work) => {
      if (!engine.maintenanceDialect) return await work(db)
      const dialect = guarded(engine.maintenanceDialect(), new Gate())
      const unlimited: Db = new Kysely<Tables>({ dialect })
      try {
        return await work(unlimited)
      } finally {
        await unlimited.destroy()
      }
    },
    connections: () => {
      const pool = engine.pool?.()
      if (pool) {
        const { most, open, idle, waiting } = pool
        return { most, busy: open - idle, idle, waiting }
      }
      const busy = Math.min(1, gate.inUse)
      return { most: 1, busy, idle: 1 - busy, waiting: gate.inUse - busy }
    },
    clockMs: async () => {
      const { rows } = await sql<{ ms: number }>`
        select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`.execute(db)
      return rows[0]?.ms as number
    },
    ping: async () => {
      assertOutsideTransaction()
      // One query at a time, so that a database that does not answer collects none.
      pinging ??= answers(db).finally(() => {
        pinging = undefined
      })
      return await Promise.race([pinging, sleep(PING_TIMEOUT_MS, false, { ref: false })])
    },
    takesWrites: async () => {
      assertOutsideTransaction()
      return await writeProof.prove()
    },
    settingWarnings: () => settingWarnings(db),
    close: async () => {
      closing ??= close()
      await closing
    },
  }
  return database
}

async function answers(db: Db): Promise<boolean> {
  try {
    await sql`select 1`.execute(db)
    return true
  } catch (error) {
    if (error instanceof OpenTransactionError) throw error
    return false
  }
}

const losesData = 'data may be lost when the power fails'
const slowsDown =
  'the server vacuums and analyzes no table, so queries become slow. Set it to on and reload the server'
/** What follows when a setting is not on. */
const consequences: Readonly<Record<string, string>> = {
  fsync: losesData,
  full_page_writes: losesData,
  synchronous_commit: losesData,
  autovacuum: slowsDown,
  // Autovacuum works by these counts.
  track_counts: slowsDown,
}

async function settingWarnings(db: Db): Promise<string[]> {
  const { rows } = await sql<{ name: string; setting: string }>`
    select name, setting from pg_settings
    where name = any(${Object.keys(consequences)}::text[])
      -- remote_apply waits for more than 'on' does.
      and setting not in ('on', 'remote_apply')
    order by name`.execute(db)
  return rows.map(({ name, setting }) => `${name} is ${setting}: ${consequences[name]}`)
}

async function atMost(work: Promise<void>, timeoutMs: number): Promise<void> {
  const timer = Promise.withResolvers<void>()
  const timeout = setTimeout(timer.resolve, timeoutMs)
  try {
    await Promise.race([work, timer.promise])
  } finally {
    clearTimeout(timeout)
  }
}
