import type { SqlColumns, SqlRow, SqlValue } from './sql-statements.ts'

export type SqlClientSettings = {
  /** With the password. */
  url: string
  /** As many at a time are for this one, where the address has fewer. */
  connections: number
  /** Of one delivery. */
  timeoutMs: number
}

/** Writes rows, all that it is given or none: every function may be repeated. Rejects with the errors of the driver, or ConnectError. */
export type SqlClient = {
  /**
   * Rows of the same columns. `mayStart` is asked before each statement; rejects with WithheldError when it says no, and with
   * LookAlikeError when the key of another row is in the way; of several rows those that it is not in the way of may be written.
   */
  upsert(rows: readonly SqlRow[], mayStart: () => boolean): Promise<void>
  /** @param keys each with the values of the upsertKey columns. A row that is not there is no failure. */
  remove(keys: readonly (readonly SqlValue[])[], mayStart: () => boolean): Promise<void>
  /** The columns that take bytes or lists. Rejects as the others do. */
  columns(): Promise<SqlColumns>
  close(): Promise<void>
}

/** There was no connection to write on, whatever the reason: nothing was asked. `cause` is the driver's error. */
export class ConnectError extends Error {
  constructor(cause: unknown) {
    super('no connection to the database', { cause })
    this.name = 'ConnectError'
  }
}

/** The right to send was lost before the statement was. */
export class WithheldError extends Error {}

/** A row is there whose key differs from that of ours only by what its column does not tell apart. */
export class LookAlikeError extends Error {}

/** The columns of what `columnsQuery` finds. */
export function columnsOf(rows: readonly unknown[]): SqlColumns {
  return new Map(
    rows.map((row) => {
      const { name, kind } = row as { name: string; kind: 'bytes' | 'list' | 'json' }
      return [name, kind]
    }),
  )
}

/** The result of `connect`; rejects with ConnectError. */
export async function connecting<T>(connect: () => Promise<T>): Promise<T> {
  try {
    return await connect()
  } catch (error) {
    throw new ConnectError(error)
  }
}

/** Of the connections of one pool; how many are in use at a time is decided by the room of their address. */
export const poolConnections = 64

const longestConnectMs = 10_000
const longestLockMs = 5_000

/**
 * The server gives up before the caller does: a statement that is still waiting for a lock after its delivery was called
 * off could otherwise write an old version over a newer one.
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
