import { SourceError, type SourceRow } from '../types.ts'
import type { SqlStatement } from './sql-statement.ts'

export type SqlRead = {
  /** Address with credentials; it must appear in no message. */
  url: string
  statement: SqlStatement
  /** Longest wait for the database: for the connection, and then for each batch or record. */
  timeoutMs: number
  /** Records per batch at most. Fewer are held where they are long: memory must not grow with a table. */
  fetchSize: number
  /** By which times without a zone are read; UTC when absent. */
  timeZone?: string | undefined
  signal: AbortSignal
}

/**
 * Reads with a connection of its own, which is closed however the reading ends, also when the reader stops early. Throws
 * the driver's own errors.
 */
export type SqlDriver = (read: SqlRead) => AsyncGenerator<SourceRow[]>

/** A parameter has a value that the column it is compared with cannot hold: a word where a number is expected. */
export class ImpossibleValueError extends SourceError {}
