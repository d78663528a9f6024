import { SourceError, type SourceRow } from '../types.ts'
import type { SqlStatement } from './sql-statement.ts'

export type SqlRead = {
  /** Address with credentials; it must appear in no message. */
  url: string
  statement: SqlStatement
  /** Longest wait for the database: for the connection, and then for each batch or record. */
  timeoutMs: number
  /** Records per batch, and how many are held at most while the reader is busy. */
  fetchSize: number
  signal: AbortSignal
}

/**
 * Reads with a connection of its own, which is closed however the reading ends, also when the reader stops early. Throws
 * the driver's own errors.
 */
export type SqlDriver = (read: SqlRead) => AsyncGenerator<SourceRow[]>

/** A parameter has a value that the column it is compared with cannot hold: a word where a number is expected. */
export class ImpossibleValueError extends SourceError {}
