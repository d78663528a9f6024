import mysql from 'mysql2'
import type { PoolConnection } from 'mysql2/promise'
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
  keyOf,
  mysqlCount,
  mysqlInsert,
  mysqlKeyQuery,
  mysqlKeysAlike,
  mysqlKeyText,
  mysqlLookAlike,
  mysqlUpdate,
  mysqlUpsert,
  type SqlRow,
  type SqlStatement,
  type SqlTarget,
} from './sql-statements.ts'

const duplicateEntry = 1062
/** Of an insert of a row that may be there: a null in the primary key, another unique index, a column without a default, a check. */
const inTheWay = new Set([1048, duplicateEntry, 1364, 3819, 4025])
/** Of one row there are at most so many. */
const keptPlaceholders = 200

/**
 * MySQL and MariaDB. `insert … on duplicate key update` would change whatever row has the same value in any unique index,
 * and without an index on the key insert a new row each time. So it is an update, and an insert when there was no such
 * row; each statement is whole by itself, and a transaction around both would only make neighbours wait in gap locks.
 */
export function openMysql(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const key = JSON.stringify(['mysql', settings.url, settings.timeoutMs])
  const { pool, leave } = sharePool(
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
      // After what the server says (only that has a SQLSTATE) the connection is as good as before.
      if ((error as { sqlState?: unknown }).sqlState === undefined) connection.destroy()
      else connection.release()
      throw error
    }
  }

  const execute = async (connection: PoolConnection, { text, values }: SqlStatement) => {
    const options = { sql: text, timeout: settings.timeoutMs }
    const [result] = await connection.execute<Found>(
      options,
      // Lists are for PostgreSQL only.
      values as mysql.ExecuteValues[],
    )
    // Each number of rows makes another statement; the server keeps so many only.
    if (values.length > keptPlaceholders) connection.unprepare(options.sql)
    return result
  }

  const ask = (statement: SqlStatement, mayStart: () => boolean) =>
    connected(mayStart, (connection) => execute(connection, statement))

  const run = async (statement: SqlStatement, mayStart: () => boolean): Promise<number> => {
    const result = await ask(statement, mayStart)
    return Array.isArray(result) ? result.length : result.affectedRows
  }

  const upsertOne = async (row: SqlRow, mayStart: () => boolean): Promise<void> => {
    if ((await run(mysqlUpdate(target, row), mayStart)) > 0) return
    try {
      await run(mysqlInsert(target, [row]), mayStart)
    } catch (error) {
      if ((error as { errno?: unknown }).errno !== duplicateEntry) throw error
      // Somebody inserted the same key in between; or the duplicate is in another index, which nobody can solve here.
      if ((await run(mysqlUpdate(target, row), mayStart)) > 0) return
      if ((await run(mysqlLookAlike(target, row), mayStart)) > 0) throw new LookAlikeError()
      throw error
    }
  }

  /** Whether the rows of the table are told apart by the key and nothing else has its say. */
  const isKeyed = async (): Promise<boolean> => {
    const found = await ask(mysqlKeyQuery(target), () => true)
    const parts = rowsOf(found) as { name: string; triggers: number }[]
    const names = new Set(parts.map(({ name }) => name))
    return (
      names.size === target.upsertKey.length &&
      target.upsertKey.every((name) => names.has(name)) &&
      parts.every(({ triggers }) => Number(triggers) === 0)
    )
  }

  /** Does something in a transaction that keeps its rows and not their neighbours; undone unless it gives true. */
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

  /** All rows by one statement; false, and nothing is written, where one has to see which row is in the way. */
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
        // The table may have got another key since, or keep another value than it was given, which may be that of another row.
        const found = rowsOf(await execute(connection, mysqlKeysAlike(target, rows)))
        const there = found.map((row) => mysqlKeyText(Object.values(row)))
        return there.length === keys.size && there.every((key) => keys.has(key))
      })
    } catch (error) {
      if (inTheWay.has((error as { errno?: number }).errno ?? 0)) return false
      throw error
    }
  }

  /** All by one statement, or all new ones; where that is not possible, one after the other with one commit for all. */
  const upsertMany = async (rows: readonly SqlRow[], mayStart: () => boolean): Promise<void> => {
    const keys = new Set(rows.map((row) => JSON.stringify(keyOf(target, row))))
    if (await upsertTogether(rows, mayStart)) return
    const [counted] = rowsOf(await ask(mysqlCount(target, rows), mayStart))
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
      await run(deleteStatement(target, keys), mayStart)
    },
    columns: async () => {
      const query = columnsQuery(target)
      const found = query ? await ask(query, () => true) : []
      return columnsOf(Array.isArray(found) ? found : [])
    },
    close: leave,
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
  return pool
}
