import pg from 'pg'
import { checkConnectionFiles } from '../../db/connection-files.ts'
import { postgresConnection, refuseOwnDatabase } from '../net/postgres-connection.ts'
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
  type PostgresTypes,
  postgresColumnsQuery,
  postgresDelete,
  postgresSimilarKey,
  postgresTypesQuery,
  postgresUpsert,
  postgresUpsertByLists,
} from './statements/postgres-statements.ts'
import type { SqlRow, SqlStatement, SqlTarget } from './statements/sql-statement.ts'

export function openPostgres(target: SqlTarget, settings: SqlClientSettings): SqlClient {
  const key = JSON.stringify(['postgres', settings.url, settings.timeoutMs])
  const { pool, release } = sharePool(
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
      // After an error of the server the connection stays usable.
      client.release(!(error instanceof pg.DatabaseError))
      throw error
    }
  }
  let types: PostgresTypes | undefined
  const findTypes = async (): Promise<PostgresTypes> => {
    try {
      const { rows } = await run(postgresTypesQuery(target), () => true)
      const found = rows as { name: string; type: string; all: string }[]
      return { all: found[0]?.all ?? '', of: new Map(found.map(({ name, type }) => [name, type])) }
    } catch (error) {
      // Servers that only support PostgreSQL's protocol may lack this catalogue. They get rows without lists.
      if (error instanceof pg.DatabaseError) return { all: '', of: new Map() }
      throw error
    }
  }

  /** Returns how many rows were written; also 0 when lists cannot be used. */
  const upsertByLists = async (rows: readonly SqlRow[], mayStart: () => boolean) => {
    const known = types ?? (await findTypes())
    types = known
    const statement = postgresUpsertByLists(target, rows, known)
    let written = 0
    try {
      if (statement) written = (await run(statement, mayStart)).rowCount ?? 0
    } finally {
      // No row is written, or a value is not readable, after the column types changed. The types are read again.
      if (statement && written === 0) types = undefined
    }
    return written
  }

  return {
    upsert: async (rows, mayStart) => {
      // For a single row each value is a parameter, so that the server's error names the wrong value.
      let written = rows.length > 1 ? await upsertByLists(rows, mayStart) : 0
      if (written === 0) written = (await run(postgresUpsert(target, rows), mayStart)).rowCount ?? 0
      if (written === rows.length) return
      for (const row of rows) {
        const { rowCount } = await run(postgresSimilarKey(target, row), mayStart)
        if (rowCount !== 0) throw new SimilarKeyError()
      }
    },
    remove: async (keys, mayStart) => {
      await run(postgresDelete(target, keys), mayStart)
    },
    columns: async () => {
      return columnsOf((await run(postgresColumnsQuery(target), () => true)).rows)
    },
    close: release,
  }
}

function createPool({ url, timeoutMs, ownDatabase }: SqlClientSettings): pg.Pool {
  const limits = timeLimits(timeoutMs)
  /** Reads certificates again for each connection. */
  class ExplicitClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super({ ...config, ...postgresConnection(url) })
    }
  }
  const pool = new pg.Pool({
    Client: ExplicitClient,
    verify: (client, done) => {
      const readRows = async (text: string) => (await client.query(text)).rows
      refuseOwnDatabase(readRows, ownDatabase).then(() => done(), done)
    },
    max: poolConnections,
    application_name: 'tillbridge',
    connectionTimeoutMillis: limits.connectMs,
    statement_timeout: limits.statementMs,
    lock_timeout: limits.lockMs,
    // Applies when the server does not respond; a working server ends the statement earlier.
    query_timeout: timeoutMs,
    keepAlive: true,
  })
  // An idle connection failed; the pool opens another one. Without a listener the process would end.
  pool.on('error', () => {})
  return pool
}
