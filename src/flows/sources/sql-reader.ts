import type { OwnDatabase } from '../net/postgres-connection.ts'
import { SourceError, type SourceRow } from '../types.ts'
import type { SqlQuery } from './sql-statement.ts'

export type SqlRead = {
  /** Address with credentials. No message may contain it. */
  url: string
  statement: SqlQuery
  /** Longest wait for the database: for the connection, and then for each batch or record. */
  timeoutMs: number
  /** Maximum records per batch. A batch has fewer when records are long, so that memory does not grow with a table. */
  fetchSize: number
  /** Time zone of times without a zone. Default: UTC. */
  timeZone?: string | undefined
  signal: AbortSignal
  /** The identity of the service's own database, which no flow may read. */
  ownDatabase?: OwnDatabase | undefined
}

/**
 * Reads on its own connection, which is closed when the reading ends for any reason, also when the reader stops early. Throws
 * the driver's own errors.
 */
export type SqlReader = (read: SqlRead) => AsyncGenerator<SourceRow[]>

/** A parameter's value does not fit the type of the column it is compared with, such as a word for a number. */
export class ImpossibleValueError extends SourceError {}

/**
 * Passes records on and calls `onTimeout` once when none arrives for `timeoutMs`. The time that the reader needs for a record
 * does not count, because a slow reader is not the source's fault.
 */
export async function* withRecordTimeout<T>(
  records: AsyncIterable<T>,
  timeoutMs: number,
  onTimeout: () => void,
): AsyncGenerator<T> {
  let waitingSince: number | undefined
  const watch = setInterval(
    () => {
      if (waitingSince === undefined || performance.now() - waitingSince < timeoutMs) return
      clearInterval(watch)
      onTimeout()
    },
    Math.min(1_000, Math.max(10, timeoutMs / 4)),
  )
  try {
    waitingSince = performance.now()
    for await (const record of records) {
      waitingSince = undefined
      yield record
      waitingSince = performance.now()
    }
  } finally {
    clearInterval(watch)
  }
}
