import pg from 'pg'
import { connecting, type SqlClient, type SqlClientSettings, timeLimits } from './sql-client.ts'
import {
  deleteStatement,
  postgresUpsert,
  type SqlStatement,
  type SqlTarget,
} from './sql-statements.ts'

export function openPostgres(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const limits = timeLimits(settings.timeoutMs)
  const pool = new pg.Pool({
    connectionString: settings.url,
    max: settings.connections,
    application_name: 'tillbridge',
    connectionTimeoutMillis: limits.connectMs,
    statement_timeout: limits.statementMs,
    lock_timeout: limits.lockMs,
    // For a server that vanished; a living one has given up before.
    query_timeout: settings.timeoutMs,
    keepAlive: true,
  })
  // Of an idle connection: the pool opens another one, and without a listener the process would end.
  pool.on('error', () => {})
  const run = async ({ text, values }: SqlStatement) => {
    const client = await connecting(() => pool.connect())
    try {
      await client.query(text, values)
      client.release()
    } catch (error) {
      // After what the server says the connection is as good as before.
      client.release(!(error instanceof pg.DatabaseError))
      throw error
    }
  }
  return {
    upsert: (row) => run(postgresUpsert(target, row)),
    remove: (key) => run(deleteStatement(target, key)),
    close: () => pool.end(),
  }
}
