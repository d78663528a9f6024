import pg from 'pg'
import { checkConnectionFiles } from '../../db/connection-files.ts'
import { sharePool } from './shared-pool.ts'
import {
  columnsOf,
  connecting,
  LookAlikeError,
  poolConnections,
  type SqlClient,
  type SqlClientSettings,
  timeLimits,
  WithheldError,
} from './sql-client.ts'
import {
  columnsQuery,
  deleteStatement,
  postgresLookAlike,
  postgresUpsert,
  type SqlStatement,
  type SqlTarget,
} from './sql-statements.ts'

export function openPostgres(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const key = JSON.stringify(['postgres', settings.url, settings.timeoutMs])
  const { pool, leave } = sharePool(
    key,
    () => createPool(settings),
    (created) => created.end(),
  )
  const run = async ({ text, values }: SqlStatement, mayStart: () => boolean) => {
    const client = await connecting(() => {
      checkConnectionFiles(settings.url)
      return pool.connect()
    })
    if (!mayStart()) {
      client.release()
      throw new WithheldError()
    }
    try {
      const result = await client.query<Record<string, unknown>>(text, values)
      client.release()
      return result
    } catch (error) {
      // After what the server says the connection is as good as before.
      client.release(!(error instanceof pg.DatabaseError))
      throw error
    }
  }
  return {
    upsert: async (rows, mayStart) => {
      const written = await run(postgresUpsert(target, rows), mayStart)
      if (written.rowCount === rows.length) return
      for (const row of rows) {
        const { rowCount } = await run(postgresLookAlike(target, row), mayStart)
        if (rowCount !== 0) throw new LookAlikeError()
      }
    },
    remove: async (keys, mayStart) => {
      await run(deleteStatement(target, keys), mayStart)
    },
    columns: async () => {
      const query = columnsQuery(target)
      return columnsOf(query ? (await run(query, () => true)).rows : [])
    },
    close: leave,
  }
}

function createPool({ url, timeoutMs }: SqlClientSettings): pg.Pool {
  const limits = timeLimits(timeoutMs)
  const pool = new pg.Pool({
    connectionString: url,
    max: poolConnections,
    application_name: 'tillbridge',
    connectionTimeoutMillis: limits.connectMs,
    statement_timeout: limits.statementMs,
    lock_timeout: limits.lockMs,
    // For a server that vanished; a living one has given up before.
    query_timeout: timeoutMs,
    keepAlive: true,
  })
  // Of an idle connection: the pool opens another one, and without a listener the process would end.
  pool.on('error', () => {})
  return pool
}
