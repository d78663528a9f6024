import mysql from 'mysql2'
import type { PoolConnection } from 'mysql2/promise'
import { sharePool } from './shared-pool.ts'
import {
  columnsOf,
  connecting,
  poolConnections,
  SimilarKeyError,
  type SqlClient,
  type SqlClientSettings,
  timeLimits,
  WithheldError,
} from './sql-client.ts'
import {
  mysqlColumnsQuery,
  mysqlCount,
  mysqlDelete,
  mysqlInsert,
  mysqlKeyQuery,
  mysqlKeyText,
  mysqlSimilarKey,
  mysqlSimilarKeys,
  mysqlUpdate,
  mysqlUpsert,
} from './statements/mysql-statements.ts'
import {
  keyOf,
  type SqlRow,
  type SqlStatement,
  type SqlTarget,
} from './statements/sql-statement.ts'

const duplicateEntry = 1062
/** Errors of an insert when the row may exist: null in the primary key, another unique index, a missing default, a check. */
const rowConflictCodes = new Set([1048, duplicateEntry, 1364, 3819, 4025])
/** Maximum placeholders of a statement that stays prepared; a single row never has more. */
const keptPlaceholders = 200

/**
 * MySQL and MariaDB. `insert … on duplicate key update` would change any row with the same value in any unique index. Without
 * an index on the key it would insert a new row each time. So a row is updated, and inserted when it does not exist. There is
 * no transaction around both, because gap locks would make other writers wait.
 */
export function openMysql(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const key = JSON.stringify(['mysql', settings.url, settings.timeoutMs])
  const { pool, release } = sharePool(
    key,
    () => createPool(settings),
    (created) => created.promise().end(),
  )
  let isKeyedTable: boolean | undefined
  const connected = async <T>(
    mayStart: () => boolean,
    work: (connection: PoolConnection) => Promise<T>,
  ): Promise<T> => {
    const connection = await connecting(() => pool.promise().getConnection())
    if (!mayStart()) {
      connection.release()
      throw new WithheldError()
    }
    try {
      const result = await work(connection)
      connection.release()
      return result
    } catch (error) {
      // After an error of the server (only those have a SQLSTATE) the connection stays usable.
      if ((error as { sqlState?: unknown }).sqlState === undefined) connection.destroy()
      else connection.release()
      throw error
    }
  }

  const execute = async (connection: PoolConnection, { text, values }: SqlStatement) => {
    const options = { sql: text, timeout: settings.timeoutMs }
    const [result] = await connection.execute<Found>(
      options,
      // Lists are used with PostgreSQL only.
      values as mysql.ExecuteValues[],
    )
    // Each number of rows is another statement, and the server limits prepared statements.
    if (values.length > keptPlaceholders) connection.unprepare(options.sql)
    return result
  }

  const runQuery = (statement: SqlStatement, mayStart: () => boolean) =>
    connected(mayStart, (connection) => execute(connection, statement))

  const run = async (statement: SqlStatement, mayStart: () => boolean): Promise<number> => {
    const result = await runQuery(statement, mayStart)
    return Array.isArray(result) ? result.length : result.affectedRows
  }

  const upsertOne = async (row: SqlRow, mayStart: () => boolean): Promise<void> => {
    if ((await run(mysqlUpdate(target, row), mayStart)) > 0) return
    try {
      await run(mysqlInsert(target, [row]), mayStart)
    } catch (error) {
      if ((error as { errno?: unknown }).errno !== duplicateEntry) throw error
      // Another writer inserted the same key meanwhile, or the duplicate is in another index, which cannot be resolved here.
      if ((await run(mysqlUpdate(target, row), mayStart)) > 0) return
      if ((await run(mysqlSimilarKey(target, row), mayStart)) > 0) throw new SimilarKeyError()
      throw error
    }
  }

  /** Whether the upsert key is the table's primary key and inserts run no trigger. */
  const isKeyed = async (): Promise<boolean> => {
    const found = await runQuery(mysqlKeyQuery(target), () => true)
    const parts = rowsOf(found) as { name: string; triggers: number }[]
    const names = new Set(parts.map(({ name }) => name))
    return (
      names.size === target.upsertKey.length &&
      target.upsertKey.every((name) => names.has(name)) &&
      parts.every(({ triggers }) => Number(triggers) === 0)
    )
  }

  /** Runs `work` in a transaction without gap locks. Rolls back unless it returns true. */
  const inTransaction = (
    mayStart: () => boolean,
    work: (connection: PoolConnection) => Promise<boolean>,
  ): Promise<boolean> =>
    connected(mayStart, async (connection) => {
      await connection.query('set transaction isolation level read committed')
      await connection.beginTransaction()
      try {
        const isDone = await work(connection)
        if (!mayStart()) throw new WithheldError()
        await (isDone ? connection.commit() : connection.rollback())
        return isDone
      } catch (error) {
        await connection.rollback()
        throw error
      }
    })

  /** Writes all rows with one statement. Returns false, and writes nothing, when rows must be checked one by one. */
  const upsertTogether = async (
    rows: readonly SqlRow[],
    mayStart: () => boolean,
  ): Promise<boolean> => {
    const keys = new Set(rows.map((row) => mysqlKeyText(keyOf(target, row))))
    isKeyedTable ??= await isKeyed()
    if (keys.has(undefined) || !isKeyedTable) return false
    try {
      return await inTransaction(mayStart, async (connection) => {
        await execute(connection, mysqlUpsert(target, rows))
        // The table's key may have changed since, or a stored key may differ from the given one and belong to another row.
        const found = rowsOf(await execute(connection, mysqlSimilarKeys(target, rows)))
        const there = found.map((row) => mysqlKeyText(Object.values(row)))
        return there.length === keys.size && there.every((key) => keys.has(key))
      })
    } catch (error) {
      if (rowConflictCodes.has((error as { errno?: number }).errno ?? 0)) return false
      throw error
    }
  }

  /**
   * Writes all rows with one statement, or inserts them if all are new. Otherwise writes one row after another in one
   * transaction.
   */
  const upsertMany = async (rows: readonly SqlRow[], mayStart: () => boolean): Promise<void> => {
    const keys = new Set(rows.map((row) => JSON.stringify(keyOf(target, row))))
    if (await upsertTogether(rows, mayStart)) return
    const [counted] = rowsOf(await runQuery(mysqlCount(target, rows), mayStart))
    if (Number(counted?.there) === 0 && keys.size === rows.length) {
      await run(mysqlInsert(target, rows), mayStart)
      return
    }
    await inTransaction(mayStart, async (connection) => {
      for (const row of rows) {
        const updated = await execute(connection, mysqlUpdate(target, row))
        if (!Array.isArray(updated) && updated.affectedRows > 0) continue
        await execute(connection, mysqlInsert(target, [row]))
      }
      return true
    })
  }
  return {
    upsert: ([row, ...others], mayStart) => {
      if (!row) return Promise.resolve()
      return others.length === 0 ? upsertOne(row, mayStart) : upsertMany([row, ...others], mayStart)
    },
    remove: async (keys, mayStart) => {
      await run(mysqlDelete(target, keys), mayStart)
    },
    columns: async () => {
      return columnsOf(rowsOf(await runQuery(mysqlColumnsQuery(target), () => true)))
    },
    close: release,
  }
}

type Found = mysql.ResultSetHeader | mysql.RowDataPacket[]

function rowsOf(found: Found): mysql.RowDataPacket[] {
  return Array.isArray(found) ? (found as mysql.RowDataPacket[]) : []
}

function createPool({ url, timeoutMs }: SqlClientSettings): mysql.Pool {
  const limits = timeLimits(timeoutMs)
  const pool = mysql.createPool({
    uri: url,
    connectionLimit: poolConnections,
    connectTimeout: limits.connectMs,
    charset: 'utf8mb4',
    timezone: 'Z',
    // FOUND_ROWS: an update that changes nothing still counts its row.
    flags: ['FOUND_ROWS', '-LOCAL_FILES'],
  })
  pool.on('connection', (connection) => {
    const lockSeconds = Math.max(1, Math.round(limits.lockMs / 1000))
    connection.query(
      `set time_zone = '+00:00', innodb_lock_wait_timeout = ${lockSeconds},
       sql_mode = concat(@@sql_mode, ',STRICT_ALL_TABLES')`,
      (error) => {
        // Without these settings, texts would be cut and times shifted.
        if (error) connection.destroy()
      },
    )
  })
  return pool
}
