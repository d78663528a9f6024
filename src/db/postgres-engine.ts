import { type ClientConfig, defaults, escapeIdentifier, type PoolConfig } from 'pg'
import { checkConnectionFiles } from './connection-files.ts'
import type { Engine, Log } from './engine.ts'
import { PollingListener } from './polling-listener.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { checkEncoding } from './postgres-encoding.ts'
import { PostgresListener } from './postgres-listener.ts'
import { resilientPool } from './postgres-pool.ts'
import { checkRole, findPooling, type Pooling, receivesNotifications } from './postgres-pooler.ts'
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
/** Nearly all queries are answered long before. For the others the server is asked. */
const SUSPECT_AFTER_MS = 2_000
const DEFAULT_MAX_CONNECTIONS = 10
const MAINTENANCE_CONNECTIONS = 2

type PostgresOptions = {
  databaseUrl: string
  /** The same database without a pooler. */
  directUrl?: string
  maxConnections?: number
  log: Log
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
 * First detects a pooler, because poolers accept no settings with a connection, and in transaction mode none for it.
 * @throws ConnectionFileError, DatabaseUnavailableError, UnfitDatabaseError.
 */
export async function postgresEngine(options: PostgresOptions): Promise<Engine> {
  const { databaseUrl, directUrl, log } = options
  // A Date for a `date` or a time without zone is read by its UTC fields, as in PGlite.
  defaults.parseInputDatesAsUTC = true
  checkConnectionFiles(databaseUrl)
  if (directUrl !== undefined) checkConnectionFiles(directUrl)
  const connection = connectionConfig(databaseUrl)
  const pooling = await findPooling(connection)
  await checkEncoding(connection)
  const listener = await createListener(pooling, connection, directUrl, log)
  if (pooling === 'transaction') await warnOfNoLimit(connection, log)
  const connect = (config: PoolConfig, session: object, queryTimeoutMs: number) =>
    resilientPool(
      { ...connection, ...config, ...(pooling === 'none' && atConnect(session)) },
      {
        queryTimeoutMs,
        ...(pooling === 'session' && { setUp: setAll('set', { ...forms, ...session }) }),
        ...(pooling === 'none' && queryTimeoutMs > 0 && { suspectAfterMs: SUSPECT_AFTER_MS }),
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
    // A session of a pooler is ours for one transaction: its limits are set at its beginning.
    dialect: postgresDialect(
      pool,
      pooling === 'transaction' ? { atBegin: setAll('set local', limits) } : {},
    ),
    maintenanceDialect: () =>
      postgresDialect(connect({ max: MAINTENANCE_CONNECTIONS }, {}, 0), {
        withoutMigrationLock: true,
      }),
    pool: () => pool.figures(),
    ownSessions: () => (pooling === 'none' ? pool.sessions() : undefined),
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

function setAll(how: 'set' | 'set local', values: object): string {
  return Object.entries(values)
    .map(([name, value]) => `${how} ${name} = '${value}'`)
    .join('; ')
}

async function createListener(
  pooling: Pooling,
  connection: ClientConfig,
  directUrl: string | undefined,
  log: Log,
): Promise<Pick<PostgresListener, 'listen' | 'stop'>> {
  if (pooling === 'none') return new PostgresListener(connection, log)
  const say = (message: string) =>
    log('info', { pooling }, `PostgreSQL is behind a pooler in ${pooling} mode: ${message}`)
  if (pooling === 'session') {
    say('all functions work')
    return new PostgresListener(connection, log)
  }
  const direct = directUrl === undefined ? undefined : connectionConfig(directUrl)
  if (direct && (await receivesNotifications(direct, connection))) {
    say('LISTEN uses DATABASE_DIRECT_URL')
    return new PostgresListener(direct, log)
  }
  say(
    direct
      ? 'waiting requests check for changes every second: DATABASE_DIRECT_URL receives no notifications (another database, another pooler, or no answer)'
      : 'waiting requests check for changes every second; set DATABASE_DIRECT_URL to notify them at once',
  )
  return new PollingListener()
}

async function warnOfNoLimit(connection: ClientConfig, log: Log): Promise<void> {
  const { role, isLimited } = await checkRole(connection)
  if (isLimited) return
  const cure = `alter role ${escapeIdentifier(role)} set statement_timeout = '${STATEMENT_TIMEOUT_MS}ms'`
  log('warn', { cure }, 'outside of transactions the server limits no statement of this role')
}

function connectionConfig(databaseUrl: string): ClientConfig {
  return {
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    fallback_application_name: 'tillbridge',
    types: pgTypes,
  }
}
