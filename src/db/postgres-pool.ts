import { Pool, type PoolClient, type PoolConfig } from 'pg'
import { DatabaseUnavailableError } from './database-failures.ts'
import type { DatabaseLog } from './engine.ts'
import { type ClientLimits, type Shared, WatchedClient } from './postgres-client.ts'
import { StatementNames } from './statements.ts'

/** A connection that was idle longer is checked before it is used, as in HikariCP. */
const VERIFY_AFTER_IDLE_MS = 500
const VERIFY_TIMEOUT_MS = 2_000

type PoolLimits = ClientLimits & {
  /** Prepares statements by name: for connections that have a session of their own. */
  prepares?: boolean
  verifyAfterIdleMs?: number
  verifyTimeoutMs?: number
}

export type ResilientPool = {
  /** Rejects with DatabaseUnavailableError. */
  connect(): Promise<WatchedClient>
  figures(): { most: number; open: number; idle: number; waiting: number }
  end(): Promise<void>
}

/**
 * A pg Pool that survives the loss of its server. It never reuses a connection that was lost or did not answer within
 * `queryTimeoutMs`. The caller gets DatabaseUnavailableError, also for the ROLLBACK that Kysely then tries. An idle
 * connection, or one older than the last loss, is checked before use. A restart of the server costs only the running
 * queries.
 */
export function resilientPool(
  config: PoolConfig,
  limits: PoolLimits,
  log: DatabaseLog,
): ResilientPool {
  const pool = new Pool(config)
  const clients = new Map<PoolClient, WatchedClient>()
  const verifyAfterIdleMs = limits.verifyAfterIdleMs ?? VERIFY_AFTER_IDLE_MS
  const verifyTimeoutMs = limits.verifyTimeoutMs ?? VERIFY_TIMEOUT_MS
  let lastLossAt = Number.NEGATIVE_INFINITY
  const shared: Shared = {
    limits,
    ...(limits.prepares && { names: new StatementNames() }),
    onLost: () => {
      lastLossAt = performance.now()
    },
  }
  pool.on('connect', (client) => {
    clients.set(client, new WatchedClient(client, shared))
  })
  pool.on('remove', (client) => clients.delete(client))
  // Without a listener, an idle connection that the server ends would end the process.
  pool.on('error', (error) => log('warn', { err: error }, 'an idle database connection was lost'))
  return {
    connect: async () => {
      // After a failed check, the other idle connections are closed unchecked: with a silent server each check would
      // take its time.
      let asking = true
      for (;;) {
        // Set by the 'connect' event, which comes before the first checkout.
        const client = clients.get(await connect(pool)) as WatchedClient
        if (!client.isSetUp) await setUp(client, verifyTimeoutMs)
        const mustProve = Math.max(lastLossAt, performance.now() - verifyAfterIdleMs)
        if (client.answeredAt > mustProve) return client
        if (asking ? await client.proves(verifyTimeoutMs) : client.isNew) return client
        asking = false
        // Removed from the pool, so the loop ends at the latest with a new connection, which needs no check.
        client.release(true)
      }
    },
    figures: () => ({
      most: pool.options.max,
      open: pool.totalCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
    }),
    end: () => pool.end(),
  }
}

/** Any failure here (a refused socket, a full pool, a refused login) means that the database is unavailable. */
async function connect(pool: Pool): Promise<PoolClient> {
  try {
    return await pool.connect()
  } catch (error) {
    throw new DatabaseUnavailableError('No connection to the database', { cause: error })
  }
}

async function setUp(client: WatchedClient, timeoutMs: number): Promise<void> {
  try {
    await client.setUp(timeoutMs)
  } catch (error) {
    client.release(true)
    throw new DatabaseUnavailableError('No connection to the database', { cause: error })
  }
}
