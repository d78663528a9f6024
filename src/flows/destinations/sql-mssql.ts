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
import {
  deleteStatement,
  mssqlUpsert,
  type SqlStatement,
  type SqlTarget,
} from './sql-statements.ts'

export function openMssql(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const limits = timeLimits(settings.timeoutMs)
  const key = JSON.stringify(['mssql', settings.url, settings.timeoutMs])
  const { pool, release } = sharePool(
    key,
    () => createPool(settings),
    (created) => created.close(),
  )

  const run = async ({ text, values }: SqlStatement, mayStart: () => boolean): Promise<void> => {
    const request = (await connecting(pool.connect)).request()
    if (!mayStart()) throw new WithheldError()
    for (const [index, value] of values.entries()) request.input(`p${index}`, value)
    await request.query(`set lock_timeout ${limits.lockMs}; ${text}`)
  }

  return {
    upsert: (rows, mayStart) => run(mssqlUpsert(target, rows), mayStart),
    remove: (keys, mayStart) => run(deleteStatement(target, keys), mayStart),
    columns: async () => columnsOf([]),
    close: release,
  }
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
