import { PostgresDialect } from 'kysely'
import { type ClientConfig, defaults } from 'pg'
import type { Engine, Log } from './engine.ts'
import { PostgresListener } from './postgres-listener.ts'
import { resilientPool } from './postgres-pool.ts'
import { pgTypes } from './type-parsers.ts'

/** Below the 10 s that a till waits for an answer, with room to answer 503. */
const CONNECT_TIMEOUT_MS = 5_000
/** Every query of the service is a matter of milliseconds; one that takes this long does harm by going on. */
const STATEMENT_TIMEOUT_MS = 15_000
/** Shorter than the statement time-out, so that the error tells a lock from a slow query. */
const LOCK_TIMEOUT_MS = 5_000
/** No HTTP runs inside a transaction, so one that idles belongs to a hung process and only holds locks. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 10_000
/** The server answers after its own time-out; silence beyond that means that there is no server. */
const SILENCE_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000
/** Nearly every query has been answered long before; of one that has not, the server is asked. */
const SUSPECT_AFTER_MS = 2_000
const DEFAULT_MAX_CONNECTIONS = 10
const MAINTENANCE_CONNECTIONS = 2

export type PostgresOptions = { databaseUrl: string; maxConnections?: number; log: Log }

/** Connects nowhere yet: the first query does. */
export function postgresEngine(options: PostgresOptions): Engine {
  // A Date for a `date` or a time without zone is taken by its UTC fields, as PGlite does.
  defaults.parseInputDatesAsUTC = true
  const connection = connectionConfig(options.databaseUrl)
  const listener = new PostgresListener(connection, options.log)
  const pool = resilientPool(
    {
      ...connection,
      max: options.maxConnections ?? DEFAULT_MAX_CONNECTIONS,
      idleTimeoutMillis: 30_000,
      statement_timeout: STATEMENT_TIMEOUT_MS,
      lock_timeout: LOCK_TIMEOUT_MS,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    },
    { queryTimeoutMs: SILENCE_TIMEOUT_MS, suspectAfterMs: SUSPECT_AFTER_MS },
    options.log,
  )
  const maintenanceDialect = () =>
    new PostgresDialect({
      pool: resilientPool(
        { ...connection, max: MAINTENANCE_CONNECTIONS },
        { queryTimeoutMs: 0 },
        options.log,
      ),
    })
  return {
    name: 'postgres',
    dialect: new PostgresDialect({ pool }),
    maintenanceDialect,
    listen: (channel, hearer) => listener.listen(channel, hearer),
    stop: () => listener.stop(),
    disconnect: () => pool.end(),
  }
}

function connectionConfig(databaseUrl: string): ClientConfig {
  return {
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    fallback_application_name: 'tillbridge',
    // The parsers read these forms; the defaults of a server or a role may be others.
    options: '-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex',
    types: pgTypes,
  }
}
