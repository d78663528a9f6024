import { setTimeout as sleep } from 'node:timers/promises'
import { type Driver, Kysely, sql } from 'kysely'
import type { Database, Db } from './database.ts'
import { OpenTransactionError } from './database-failures.ts'
import type { DatabaseLog, Engine } from './engine.ts'
import { postgresEngine } from './postgres-engine.ts'
import type { Tables } from './tables.ts'
import {
  asLast,
  assertOutsideTransaction,
  ConnectionGate,
  createAnnouncer,
  guarded,
  limitConnections,
  listen,
  runTransaction,
} from './transactions.ts'
import { createWriteProof } from './write-check.ts'

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
  log?: DatabaseLog
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

async function openEngine(options: OpenOptions, log: DatabaseLog): Promise<Engine> {
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
export function build(engine: Engine, log: DatabaseLog = () => {}): Database {
  const gate = new ConnectionGate()
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
      const dialect = guarded(engine.maintenanceDialect(), new ConnectionGate())
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
