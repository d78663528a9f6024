import mssql from 'mssql'
import { connecting, type SqlClient, type SqlClientSettings, timeLimits } from './sql-client.ts'
import {
  deleteStatement,
  mssqlUpsert,
  type SqlStatement,
  type SqlTarget,
} from './sql-statements.ts'

export function openMssql(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const limits = timeLimits(settings.timeoutMs)
  const config: mssql.config = {
    ...mssqlConfig(settings.url),
    connectionTimeout: limits.connectMs,
    requestTimeout: limits.statementMs,
    pool: { max: settings.connections, min: 0, acquireTimeoutMillis: limits.connectMs },
  }
  let connected: Promise<mssql.ConnectionPool> | undefined

  const connect = (): Promise<mssql.ConnectionPool> => {
    if (connected) return connected
    const pool = new mssql.ConnectionPool(config)
    // Of an idle connection: the pool opens another one.
    pool.on('error', () => {})
    const attempt = pool.connect().catch((error) => {
      if (connected === attempt) connected = undefined
      throw error
    })
    connected = attempt
    return attempt
  }

  const run = async ({ text, values }: SqlStatement): Promise<void> => {
    const request = (await connecting(connect)).request()
    for (const [index, value] of values.entries()) request.input(`p${index}`, value)
    await request.query(`set lock_timeout ${limits.lockMs}; ${text}`)
  }

  return {
    upsert: (row) => run(mssqlUpsert(target, row)),
    remove: (key) => run(deleteStatement(target, key)),
    close: async () => {
      const pool = await connected?.catch(() => undefined)
      connected = undefined
      await pool?.close()
    },
  }
}

/**
 * The driver's settings from `mssql://user:password@host:port/database?encrypt=false&trustServerCertificate=true` or from
 * an ADO connection string (`Server=…;Database=…`). Connections are encrypted unless the address says otherwise.
 */
export function mssqlConfig(address: string): mssql.config {
  if (!/^(mssql|sqlserver):\/\//.test(address)) {
    return mssql.ConnectionPool.parseConnectionString(address)
  }
  const url = new URL(address)
  const flag = (name: string) => {
    const value = url.searchParams.get(name)
    return value === null ? undefined : value === 'true'
  }
  const encrypt = flag('encrypt')
  const trustServerCertificate = flag('trustServerCertificate')
  const database = decodeURIComponent(url.pathname.slice(1))
  return {
    server: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    ...(url.port !== '' && { port: Number(url.port) }),
    ...(url.username !== '' && { user: decodeURIComponent(url.username) }),
    ...(url.password !== '' && { password: decodeURIComponent(url.password) }),
    ...(database !== '' && { database }),
    options: {
      appName: 'tillbridge',
      ...(encrypt !== undefined && { encrypt }),
      ...(trustServerCertificate !== undefined && { trustServerCertificate }),
    },
  }
}
