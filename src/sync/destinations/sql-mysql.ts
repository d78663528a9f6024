import mysql from 'mysql2'
import { connecting, type SqlClient, type SqlClientSettings, timeLimits } from './sql-client.ts'
import {
  deleteStatement,
  mysqlInsert,
  mysqlUpdate,
  type SqlRow,
  type SqlStatement,
  type SqlTarget,
} from './sql-statements.ts'

const duplicateEntry = 1062

/**
 * MySQL and MariaDB. `insert … on duplicate key update` would change whatever row has the same value in any unique index,
 * and without an index on the key insert a new row each time. So it is an update, and an insert when there was no such
 * row; each statement is whole by itself, and a transaction around both would only make neighbours wait in gap locks.
 */
export function openMysql(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const limits = timeLimits(settings.timeoutMs)
  const pool = mysql.createPool({
    uri: settings.url,
    connectionLimit: settings.connections,
    connectTimeout: limits.connectMs,
    charset: 'utf8mb4',
    timezone: 'Z',
    // FOUND_ROWS: an update that changes nothing has found its row too.
    flags: ['FOUND_ROWS', '-LOCAL_FILES'],
  })
  pool.on('connection', (connection) => {
    const lockSeconds = Math.max(1, Math.round(limits.lockMs / 1000))
    connection.query(
      `set time_zone = '+00:00', innodb_lock_wait_timeout = ${lockSeconds},
       sql_mode = concat(@@sql_mode, ',STRICT_ALL_TABLES')`,
      (error) => {
        // Without these, texts would be cut and times moved.
        if (error) connection.destroy()
      },
    )
  })
  const run = async ({ text, values }: SqlStatement): Promise<number> => {
    const connection = await connecting(() => pool.promise().getConnection())
    try {
      const options = { sql: text, timeout: settings.timeoutMs }
      const [result] = await connection.execute<mysql.ResultSetHeader>(options, values)
      connection.release()
      return result.affectedRows
    } catch (error) {
      // After what the server says (only that has a SQLSTATE) the connection is as good as before.
      if ((error as { sqlState?: unknown }).sqlState === undefined) connection.destroy()
      else connection.release()
      throw error
    }
  }

  const upsert = async (row: SqlRow): Promise<void> => {
    if ((await run(mysqlUpdate(target, row))) > 0) return
    try {
      await run(mysqlInsert(target, row))
    } catch (error) {
      if ((error as { errno?: unknown }).errno !== duplicateEntry) throw error
      // Somebody inserted the same key in between; or the duplicate is in another index, which nobody can solve here.
      if ((await run(mysqlUpdate(target, row))) === 0) throw error
    }
  }
  return {
    upsert,
    remove: async (key) => {
      await run(deleteStatement(target, key))
    },
    close: () => pool.promise().end(),
  }
}
