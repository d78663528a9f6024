import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely'
import { Client, type ClientConfig } from 'pg'
import { createSemaphore } from '../domain/semaphore.ts'
import type { Session } from './database.ts'
import { DatabaseUnavailableError } from './database-failures.ts'
import type { Tables } from './tables.ts'

/** A connection that does not answer for that long is lost. */
const silenceMs = 5_000

/**
 * Opens a connection outside of the pool. Its locks end with it, which shows other processes that this one is gone.
 * @throws DatabaseUnavailableError if PostgreSQL does not answer.
 */
export async function openPostgresSession(config: ClientConfig): Promise<Session> {
  // Without a time limit of the server, which a pooler does not take with a connection.
  const client = new Client({ ...config, query_timeout: silenceMs })
  const lost = new AbortController()
  const end = (error: unknown) => {
    if (lost.signal.aborted) return
    lost.abort(error)
    // Without waiting: the server may be gone.
    client.end().catch(() => {})
  }
  client.on('error', end)
  client.on('end', () => end(new Error('the connection ended')))
  try {
    await client.connect()
  } catch (error) {
    end(error)
    throw new DatabaseUnavailableError('PostgreSQL does not answer', { cause: error })
  }
  const db = new Kysely<Tables>({ dialect: dialectOn(client, end) })
  const lockOf = (key: number) => sql`'leases'::regclass::oid::int, ${key}::int`
  return {
    db,
    lost: lost.signal,
    tryLock: async (key) => {
      const { rows } = await sql<{ isOurs: boolean }>`
        select pg_try_advisory_lock(${lockOf(key)}) as "isOurs"`.execute(db)
      return rows[0]?.isOurs === true
    },
    unlock: async (key) => {
      await sql`select pg_advisory_unlock(${lockOf(key)})`.execute(db)
    },
    close: async () => end(new Error('the connection was closed')),
  }
}

/** One statement at a time, as pg requires, and no transactions. */
function dialectOn(client: Client, end: (error: unknown) => void): Dialect {
  const turns = createSemaphore(1)
  const connection = {
    executeQuery: async <R>({ sql: text, parameters }: CompiledQuery) => {
      const done = await turns.acquire()
      try {
        const { rows, rowCount } = await client.query(text, [...parameters])
        return { rows: rows as R[], numAffectedRows: BigInt(rowCount ?? 0) }
      } catch (error) {
        // After a failed statement the state of the connection is not known, so its locks are given up.
        end(error)
        throw error
      } finally {
        done()
      }
    },
  } as DatabaseConnection
  const none = async () => {
    throw new Error('a session has no transactions')
  }
  const driver: Driver = {
    init: async () => {},
    acquireConnection: async () => connection,
    releaseConnection: async () => {},
    beginTransaction: none,
    commitTransaction: none,
    rollbackTransaction: none,
    destroy: async () => {},
  }
  return {
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (own) => new PostgresIntrospector(own),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createDriver: () => driver,
  }
}
