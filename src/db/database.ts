import { setTimeout as sleep } from 'node:timers/promises'
import { CompiledQuery, type Driver, Kysely, sql, type Transaction } from 'kysely'
import { createAnnouncer } from './announcer.ts'
import { apart } from './connection-share.ts'
import { isRepeatable, OpenTransactionError } from './database-failures.ts'
import type { Engine, Log } from './engine.ts'
import { asLast, assertOutsideTransaction, Gate, guarded, insideTransaction } from './flow-guard.ts'
import { postgresEngine } from './postgres-engine.ts'
import type { Tables } from './tables.ts'
import { createWriteProof, type WriteProof } from './write-proof.ts'

export type Db = Kysely<Tables>
export type Trx = Transaction<Tables>

export type Database = {
  engine: 'pglite' | 'postgres'
  /** Rejects with OpenTransactionError when a query is run while a transaction of the same flow is open. */
  db: Db
  /**
   * Commits what `work` did, or nothing of it. On a serialization failure or a deadlock `work` runs again, up to five
   * times in all, so it must touch nothing but the database. Rejects with OpenTransactionError inside another one. When
   * it rejects with DatabaseUnavailableError the commit may have happened: read again before saying anything.
   */
  transaction<T>(work: (trx: Trx) => Promise<T>): Promise<T>
  /**
   * The same database for work that others must not wait for: those who use it have `most` connections at a time between
   * them, and wait among themselves for one.
   */
  apart(most: number): Database
  /**
   * Tells the listeners of `channel` in all processes some milliseconds after the transaction of this flow has committed,
   * and never when it does not; outside of one after this call. A hint only, as `listen` says. Payload: less than 8,000 bytes.
   */
  announce(channel: string, payload: string): void
  /**
   * Hears what other processes and this one announce; resolves with the function that ends it. A hint only: what is sent
   * while the connection is down is lost, which `onGap` hears when it is up again. Payloads arrive after the commit.
   * Neither function may fail.
   */
  listen(
    channel: string,
    onPayload: (payload: string) => void,
    onGap?: () => void,
  ): Promise<() => Promise<void>>
  /** Connections without time limits, for migrations; the limits of `db` would cut a long one. */
  maintenance<T>(work: (db: Db) => Promise<T>): Promise<T>
  /**
   * Of an embedded database in a folder: makes `${folder}/pglite` a copy of it, as after a crash at this moment, to be
   * opened as a database of its own. Queries run meanwhile. One copy at a time. Rejects when `signal` aborts.
   */
  copyFiles?: (folder: string, signal: AbortSignal) => Promise<void>
  /** What the database's own clock shows, in milliseconds since 1970. For DatabaseClock, which everybody else asks. */
  clockMs(): Promise<number>
  /**
   * The sessions that this process has for queries at the server; undefined where a pooler hides them. Absent for the embedded
   * database, which no other process can use.
   */
  ownSessions?: () => number[] | undefined
  /** How the connections for queries stand now; those that listen are not among them. */
  connections(): { most: number; busy: number; idle: number; waiting: number }
  /** Whether a query is answered within 2 s. */
  ping(): Promise<boolean>
  /**
   * Whether a write is committed, within 2 s; at most one is tried in 3 s, for all who ask. `ping` alone says yes of a
   * standby, a full disk and a lost quorum.
   */
  takesWrites(): Promise<boolean>
  /** One sentence per server setting under which acknowledged data may be lost in a power cut. */
  durabilityWarnings(): Promise<string[]>
  /** Lets running queries and transactions end (5 s at most), refuses new ones. A second call changes nothing. */
  close(): Promise<void>
}

export type OpenOptions = {
  /** PostgreSQL; without it the embedded database. */
  databaseUrl?: string
  /** The same database without the pooler that may stand before `databaseUrl`: where changes are heard. */
  directUrl?: string
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

const TRANSACTION_ATTEMPTS = 5
const FIRST_RETRY_MS = 10
const PING_TIMEOUT_MS = 2_000
const CLOSE_TIMEOUT_MS = 5_000

/**
 * Opens and asks the database once. Throws DatabaseLockedError when another process has the folder, and
 * DatabaseUnavailableError when PostgreSQL does not answer.
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

/** Tells the listeners of `channel`, when and if the transaction commits. Payload: less than 8,000 bytes. */
export async function notify(trx: Trx, channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`.execute(trx)
}

/** The parameter for a jsonb column: pg would take a JavaScript array for a PostgreSQL array. */
export function json(value: unknown): string {
  return JSON.stringify(value)
}

async function openEngine(options: OpenOptions, log: Log): Promise<Engine> {
  const { databaseUrl, directUrl, maxConnections, dataDir, loadDataDir } = options
  if (databaseUrl !== undefined) {
    return await postgresEngine({
      databaseUrl,
      log,
      ...(directUrl !== undefined && { directUrl }),
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

/** The database on an engine; `openDatabase` is the way to get one, except for who needs the engine too. */
export function build(engine: Engine, log: Log = () => {}): Database {
  const gate = new Gate()
  const dialect = guarded(engine.dialect, gate)
  const driver = dialect.createDriver()
  const openOn = (own: Driver): Db =>
    new Kysely<Tables>({ dialect: { ...dialect, createDriver: () => own } })
  const db = openOn(driver)
  const writeProof = createWriteProof(db)
  const announcer = createAnnouncer(db, log, engine.tell)
  let pinging: Promise<boolean> | undefined
  let closing: Promise<void> | undefined

  const close = async () => {
    const drained = gate.close(CLOSE_TIMEOUT_MS)
    await atMost(engine.stop(), CLOSE_TIMEOUT_MS)
    await drained
    // What was committed until now, transactions that had begun included.
    await atMost(asLast(announcer.close), CLOSE_TIMEOUT_MS)
    // Not `db.destroy()`: Kysely would answer latecomers with an error of its own, that has no class or code. And not
    // for longer: a server that vanished keeps its connections closing for minutes.
    await atMost(engine.disconnect(), CLOSE_TIMEOUT_MS)
  }

  const database: Database = {
    engine: engine.name,
    db,
    transaction: (work) => runTransaction(db, work, writeProof),
    apart: (most) => {
      const own = openOn(apart(driver, most))
      return { ...database, db: own, transaction: (work) => runTransaction(own, work, writeProof) }
    },
    announce: announcer.announce,
    listen: async (channel, onPayload, onGap = () => {}) => {
      assertOutsideTransaction()
      const safely = (call: () => void) => {
        try {
          call()
        } catch (error) {
          // It was called by a socket or a microtask, where nobody would catch it before the process ends.
          log('error', { err: error, channel }, 'a listener of the database failed')
        }
      }
      return await engine.listen(channel, {
        onPayload: (payload) => safely(() => onPayload(payload)),
        onGap: () => safely(onGap),
      })
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
    ...(engine.copyFiles && { copyFiles: engine.copyFiles }),
    ...(engine.ownSessions && { ownSessions: engine.ownSessions }),
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
      // One question at a time: a database that hangs must not collect them.
      pinging ??= answers(db).finally(() => {
        pinging = undefined
      })
      return await Promise.race([pinging, sleep(PING_TIMEOUT_MS, false, { ref: false })])
    },
    takesWrites: async () => {
      assertOutsideTransaction()
      return await writeProof.prove()
    },
    durabilityWarnings: () => durabilityWarnings(db),
    close: async () => {
      closing ??= close()
      await closing
    },
  }
  return database
}

async function runTransaction<T>(
  db: Db,
  work: (trx: Trx) => Promise<T>,
  writeProof: WriteProof,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await insideTransaction((inside) =>
        db.transaction().execute((trx) => inside(() => work(trx))),
      )
    } catch (error) {
      writeProof.noteFailure(error)
      if (!isRepeatable(error) || attempt === TRANSACTION_ATTEMPTS) throw error
      await sleep(FIRST_RETRY_MS * 2 ** attempt * Math.random())
    }
  }
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

async function durabilityWarnings(db: Db): Promise<string[]> {
  const { rows } = await sql<{ name: string; setting: string }>`
    select name, setting from pg_settings
    where name in ('fsync', 'synchronous_commit', 'full_page_writes')
      -- remote_apply waits for more than 'on' does.
      and setting not in ('on', 'remote_apply')
    order by name`.execute(db)
  return rows.map(
    ({ name, setting }) => `${name} is ${setting}: data may be lost when the power fails`,
  )
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

/**
 * A statement whose text never changes, with values named `:so` in it. Built once, so that a call costs nothing but its
 * round trip. One name has one type: write `:name::uuid` where PostgreSQL could not tell it.
 */
export function fixedStatement<Values extends Record<string, unknown>, Row>(
  text: string,
): (db: Db | Trx, values: Values) => Promise<Row[]> {
  const names: string[] = []
  const numbered = text.replace(/(?<!:):([a-z]\w*)/g, (_, name: string) => {
    if (!names.includes(name)) names.push(name)
    return `$${names.indexOf(name) + 1}`
  })
  const built: CompiledQuery<Row> = CompiledQuery.raw(numbered)
  return async (db, values) => {
    const parameters = names.map((name) => values[name] ?? null)
    const { rows } = await db.executeQuery<Row>({ ...built, parameters })
    return rows
  }
}
