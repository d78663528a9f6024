import type { SqlRow, SqlValue } from './sql-statements.ts'

export type SqlClientSettings = {
  /** With the password. */
  url: string
  /** Most connections at a time. */
  connections: number
  /** Of one delivery. */
  timeoutMs: number
}

/** Writes single rows, each by itself: every function may be repeated. Rejects with the errors of the driver, or ConnectError. */
export type SqlClient = {
  upsert(row: SqlRow): Promise<void>
  /** @param key values of the upsertKey columns. A row that is not there is no failure. */
  remove(key: readonly SqlValue[]): Promise<void>
  close(): Promise<void>
}

/** There was no connection to write on, whatever the reason: nothing was asked. `cause` is the driver's error. */
export class ConnectError extends Error {
  constructor(cause: unknown) {
    super('no connection to the database', { cause })
    this.name = 'ConnectError'
  }
}

/** The result of `connect`; rejects with ConnectError. */
export async function connecting<T>(connect: () => Promise<T>): Promise<T> {
  try {
    return await connect()
  } catch (error) {
    throw new ConnectError(error)
  }
}

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
