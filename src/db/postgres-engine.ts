import { type ClientConfig, defaults, type PoolConfig } from 'pg'
import { checkConnectionFiles } from './connection-files.ts'
import type { DatabaseLog, Engine } from './engine.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { checkEncoding } from './postgres-encoding.ts'
import { PostgresListener } from './postgres-listener.ts'
import { resilientPool } from './postgres-pool.ts'
import { findPooling } from './postgres-pooler.ts'
import { openPostgresSession } from './postgres-session.ts'
import { pgTypes } from './statements.ts'

/** Below the 10 s that an ERP waits for an answer, with time left to answer 503. */
const CONNECT_TIMEOUT_MS = 5_000
/** All queries of the service take milliseconds; a query of this length does harm if it continues. */
const STATEMENT_TIMEOUT_MS = 15_000
/** Shorter than the statement time-out, so that the error distinguishes a lock from a slow query. */
const LOCK_TIMEOUT_MS = 5_000
/** No HTTP call runs inside a transaction, so an idle one belongs to a hung process and only holds locks. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 10_000
/** The server answers after its own time-out. A longer silence means that it is gone. */
const SILENCE_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000
/**
 * Then the kernel probes a silent connection ten times, once a second (fixed in libuv). A dead one so ends within the
 * same 20 s, also one that only listens.
 */
const KEEP_ALIVE_AFTER_MS = SILENCE_TIMEOUT_MS - 10_000
const DEFAULT_MAX_CONNECTIONS = 10
const MAINTENANCE_CONNECTIONS = 2

type PostgresOptions = {
  databaseUrl: string
  maxConnections?: number
  log: DatabaseLog
}

const limits = {
  statement_timeout: STATEMENT_TIMEOUT_MS,
  lock_timeout: LOCK_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
}

/**
 * The parsers read these forms, and a server's or role's defaults may differ. JIT is off: on large tables it would
 * spend a second of CPU on statements that take a millisecond.
 */
const forms = {
  jit: 'off',
  timezone: 'UTC',
  datestyle: 'ISO',
  intervalstyle: 'postgres',
  bytea_output: 'hex',
}

/**
 * First detects a pooler, because poolers accept no settings with a connection.
 * @throws ConnectionFileError, DatabaseUnavailableError, UnfitDatabaseError.
 */
export async function postgresEngine(options: PostgresOptions): Promise<Engine> {
  const { databaseUrl, log } = options
  // A Date for a `date` or a time without zone is read by its UTC fields, as in PGlite.
  defaults.parseInputDatesAsUTC = true
  checkConnectionFiles(databaseUrl)
  const connection = connectionConfig(databaseUrl)
  const pooling = await findPooling(connection)
  await checkEncoding(connection)
  const listener = new PostgresListener(connection, log)
  if (pooling === 'session') log('info', {}, 'PostgreSQL is behind a pooler in session mode')
  const connect = (config: PoolConfig, session: object, queryTimeoutMs: number) =>
    resilientPool(
      { ...connection, ...config, ...(pooling === 'none' && atConnect(session)) },
      {
        queryTimeoutMs,
        ...(pooling === 'session' && { setUp: setAll({ ...forms, ...session }) }),
        // A pooler may pass the session to another connection, with its prepared statements.
        prepares: pooling === 'none',
      },
      log,
    )
  const pool = connect(
    { max: options.maxConnections ?? DEFAULT_MAX_CONNECTIONS, idleTimeoutMillis: 30_000 },
    limits,
    SILENCE_TIMEOUT_MS,
  )
  return {
    name: 'postgres',
    dialect: postgresDialect(pool),
    maintenanceDialect: () =>
      postgresDialect(connect({ max: MAINTENANCE_CONNECTIONS }, {}, 0), {
        withoutMigrationLock: true,
      }),
    openSession: () => openPostgresSession(connection),
    pool: () => pool.figures(),
    listen: (channel, handlers) => listener.listen(channel, handlers),
    stop: () => listener.stop(),
    disconnect: () => pool.end(),
  }
}

/** Settings that are sent with the connection itself: no query runs without them. */
function atConnect(session: object): PoolConfig {
  const options = Object.entries(forms).map(([name, value]) => `-c ${name}=${value}`)
  return { ...session, options: options.join(' ') }
}

function setAll(values: object): string {
  return Object.entries(values)
    .map(([name, value]) => `set ${name} = '${value}'`)
    .join('; ')
}

function connectionConfig(databaseUrl: string): ClientConfig {
  return {
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    fallback_application_name: 'tillbridge',
    types: pgTypes,
  }
}
