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
  type PostgresTypes,
  postgresLookAlike,
  postgresTypesQuery,
  postgresUpsert,
  postgresUpsertByLists,
  type SqlRow,
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
  let types: PostgresTypes | undefined
  const findTypes = async (): Promise<PostgresTypes> => {
    try {
      const { rows } = await run(postgresTypesQuery(target), () => true)
      const found = rows as { name: string; type: string; all: string }[]
      return { all: found[0]?.all ?? '', of: new Map(found.map(({ name, type }) => [name, type])) }
    } catch (error) {
      // Servers that only speak its protocol may not have such a catalogue; they take rows without it.
      if (error instanceof pg.DatabaseError) return { all: '', of: new Map() }
      throw error
    }
  }

  /** How many rows were written; 0 too when that is not possible by lists. */
  const upsertByLists = async (rows: readonly SqlRow[], mayStart: () => boolean) => {
    const known = types ?? (await findTypes())
    types = known
    const statement = postgresUpsertByLists(target, rows, known)
    let written = 0
    try {
      if (statement) written = (await run(statement, mayStart)).rowCount ?? 0
    } finally {
      // Other types since then leave no row written, or a value unread: they are asked for again.
      if (statement && written === 0) types = undefined
    }
    return written
  }

  return {
    upsert: async (rows, mayStart) => {
      // A single row has a parameter for each value, by which the server says what is wrong where.
      let written = rows.length > 1 ? await upsertByLists(rows, mayStart) : 0
      if (written === 0) written = (await run(postgresUpsert(target, rows), mayStart)).rowCount ?? 0
      if (written === rows.length) return
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
