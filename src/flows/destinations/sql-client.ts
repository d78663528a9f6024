import type { OwnDatabase } from '../net/postgres-connection.ts'
import type { SqlColumns, SqlKey, SqlRow } from './statements/sql-statement.ts'

export type SqlClientSettings = {
  /** Includes the password. */
  url: string
  /** Desired connections; the address gets at least as many. */
  connections: number
  /** Per delivery. */
  timeoutMs: number
  /** The identity of the service's own database, which no flow may write. */
  ownDatabase?: OwnDatabase | undefined
}

/** Writes all given rows or none. Every function is safe to repeat. Rejects with the driver's errors, or with ConnectError. */
export type SqlClient = {
  /**
   * Writes rows with the same columns. `mayStart` is called before each statement. Rejects with WithheldError when it returns
   * false, and with SimilarKeyError when a row with a similar key blocks the write. The rows that are not blocked may be
   * written.
   */
  upsert(rows: readonly SqlRow[], mayStart: () => boolean): Promise<void>
  /** A missing row is not an error. */
  remove(keys: readonly SqlKey[], mayStart: () => boolean): Promise<void>
  /** The columns whose type needs a conversion. Rejects like the other functions. */
  columns(): Promise<SqlColumns>
  close(): Promise<void>
}

/** No connection was available, so nothing was executed. `cause` is the driver's error. */
export class ConnectError extends Error {
  constructor(cause: unknown) {
    super('no connection to the database', { cause })
    this.name = 'ConnectError'
  }
}

/** The permission to send was lost before the statement started. */
export class WithheldError extends Error {}

/** The table has a row with a key that the column considers equal, although it differs from ours. */
export class SimilarKeyError extends Error {}

/** Converts the result of `columnsQuery`. */
export function columnsOf(rows: readonly unknown[]): SqlColumns {
  return new Map(
    rows.map((row) => {
      const { name, kind } = row as { name: string; kind: 'bytes' | 'list' | 'json' | 'text' }
      return [name, kind]
    }),
  )
}

/** Returns the result of `connect`; rejects with ConnectError. */
export async function connecting<T>(connect: () => Promise<T>): Promise<T> {
  try {
    return await connect()
  } catch (error) {
    throw new ConnectError(error)
  }
}

/** Size of one pool. The limit of connections per address is separate. */
export const poolConnections = 64

const longestConnectMs = 10_000
const longestLockMs = 5_000

/**
 * The server's limits end before the caller's. Otherwise a statement that waits for a lock could overwrite a newer version
 * after its delivery has timed out.
 */
export function timeLimits(timeoutMs: number): {
  connectMs: number
  statementMs: number
  lockMs: number
} {
  const statementMs = Math.max(50, Math.round(timeoutMs * 0.8))
  return {
    connectMs: Math.min(timeoutMs, longestConnectMs),
    statementMs,
    lockMs: Math.min(statementMs, longestLockMs),
  }
}
