import mssql from 'mssql'
import { mssqlConfig } from '../net/mssql-connection.ts'
import { sharePool } from './shared-pool.ts'
import {
  columnsOf,
  connecting,
  poolConnections,
  type SqlClient,
  type SqlClientSettings,
  timeLimits,
  WithheldError,
} from './sql-client.ts'
import { mssqlColumnsQuery, mssqlDelete, mssqlUpsert } from './statements/mssql-statements.ts'
import {
  givenIn,
  type SqlColumns,
  type SqlStatement,
  type SqlTarget,
  type SqlValue,
} from './statements/sql-statement.ts'

const longestText = 4_000

export function openMssql(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const limits = timeLimits(settings.timeoutMs)
  const key = JSON.stringify(['mssql', settings.url, settings.timeoutMs])
  const { pool, release } = sharePool(
    key,
    () => createPool(settings),
    (created) => created.close(),
  )

  let columns: SqlColumns = new Map()
  const areBytes = (name: string) =>
    columns.get(name) === 'bytes' || target.binary?.[name] !== undefined

  /** @param names the columns of the values, which are repeated for each row. */
  const run = async (
    { text, values }: SqlStatement,
    names: readonly string[],
    mayStart: () => boolean,
  ) => {
    const request = (await connecting(pool.connect)).request()
    if (!mayStart()) throw new WithheldError()
    for (const [index, value] of values.entries()) {
      const isBytes = areBytes(names[index % names.length] ?? '')
      request.input(
        String(index + 1),
        isBytes ? mssql.VarBinary(mssql.MAX) : textType(value),
        value,
      )
    }
    return await request.query(`set lock_timeout ${limits.lockMs}; ${text}`)
  }

  return {
    upsert: async (rows, mayStart) => {
      await run(mssqlUpsert(target, rows), givenIn(rows), mayStart)
    },
    remove: async (keys, mayStart) => {
      await run(mssqlDelete(target, keys), target.upsertKey, mayStart)
    },
    columns: async () => {
      const { recordset } = await run(mssqlColumnsQuery(target), [], () => true)
      columns = columnsOf(recordset ?? [])
      return columns
    },
    close: release,
  }
}

/**
 * All values but bytes are texts, which the server converts to the column's type. It would convert the texts of a column to
 * numbers as soon as one row has a number. An untyped null is a text, which it does not convert to bytes.
 */
function textType(value: SqlValue) {
  const isLong = typeof value === 'string' && value.length > longestText
  return mssql.NVarChar(isLong ? mssql.MAX : longestText)
}

/** Connects on first use, and again after a failure. */
function createPool({ url, timeoutMs }: SqlClientSettings) {
  const limits = timeLimits(timeoutMs)
  const address = mssqlConfig(url)
  const config: mssql.config = {
    ...address,
    options: { ...address.options, appName: 'tillbridge' },
    connectionTimeout: limits.connectMs,
    requestTimeout: limits.statementMs,
    pool: { max: poolConnections, min: 0, acquireTimeoutMillis: limits.connectMs },
  }
  let connected: Promise<mssql.ConnectionPool> | undefined

  const connect = (): Promise<mssql.ConnectionPool> => {
    if (connected) return connected
    const pool = new mssql.ConnectionPool(config)
    // An idle connection failed; the pool opens another one.
    pool.on('error', () => {})
    const attempt = pool.connect().catch((error) => {
      if (connected === attempt) connected = undefined
      throw error
    })
    connected = attempt
    return attempt
  }

  return {
    connect,
    close: async () => {
      const pool = await connected?.catch(() => undefined)
      connected = undefined
      await pool?.close()
    },
  }
}
