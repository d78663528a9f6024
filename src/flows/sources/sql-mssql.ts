import { setTimeout as wait } from 'node:timers/promises'
import mssql from 'mssql'
import { wallClockOf } from '../../domain/time-zone.ts'
import type { SourceRow } from '../types.ts'
import { inBatches } from './record-batches.ts'
import { withRecordTimeout } from './record-timeout.ts'
import type { SqlRead } from './sql-driver.ts'
import { mssqlConfig } from './sql-mssql-config.ts'
import { type MssqlColumn, mssqlValue } from './sql-mssql-values.ts'
import { DatabaseTimeoutError, maxRowsAhead, rowMaker } from './sql-rows.ts'

const closeTimeoutMs = 1_000

/**
 * Reads as a stream. SQL Server has no read-only transaction, and the declared read-only intent does not prevent writes. So
 * the login must have read permission only. Parameters are sent as nvarchar, which the server converts to the column's type.
 */
export async function* readMssql(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const clock = read.timeZone === undefined ? undefined : wallClockOf(read.timeZone)
  const drops: (() => void)[] = []
  const pool = new mssql.ConnectionPool({
    ...mssqlConfig(read.url, timeoutMs),
    beforeConnect: (connection: { close(): void }) => drops.push(() => connection.close()),
  })
  // The pending request receives the same error.
  pool.on('error', () => undefined)
  const given = Promise.withResolvers<never>()
  given.promise.catch(() => undefined)
  let cancel = (_reason: unknown) => undefined
  const stop = (reason: unknown) => {
    cancel(reason)
    given.reject(reason)
  }
  const onAbort = () => stop(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const connecting = pool.connect()
    connecting.catch(() => undefined)
    await Promise.race([connecting, given.promise])
    const request = pool.request()
    for (const [index, value] of statement.values.entries()) {
      request.input(`tb${index + 1}`, mssql.NVarChar, value)
    }
    let columns: MssqlColumn[] = []
    request.on('recordset', (list) => {
      columns = list as unknown as MssqlColumn[]
    })
    const records = request.toReadableStream({ highWaterMark: Math.min(fetchSize, maxRowsAhead) })
    cancel = (reason) => {
      request.cancel()
      records.destroy(reason as Error | undefined)
    }
    request.query(statement.text).catch((error) => records.destroy(error))
    const onTimeout = () => stop(new DatabaseTimeoutError(timeoutMs))
    let toRow: ((values: readonly unknown[]) => SourceRow) | undefined
    const make = (values: unknown[]) => {
      toRow ??= rowMaker(columns.map(({ name }) => name))
      return toRow(values.map((value, index) => mssqlValue(value, columns[index], clock)))
    }
    yield* inBatches<unknown[]>(withRecordTimeout(records, timeoutMs, onTimeout), fetchSize, make)
    cancel = () => undefined
  } finally {
    signal.removeEventListener('abort', onAbort)
    cancel(undefined)
    await closeWithTimeout(pool, () => {
      for (const drop of drops) drop()
    })
  }
}

/** An orderly close: the server must confirm a cancel. The connection is dropped when it does not. */
async function closeWithTimeout(pool: mssql.ConnectionPool, drop: () => void): Promise<void> {
  const timer = new AbortController()
  const closed = pool.close().catch(() => undefined)
  const timeout = wait(closeTimeoutMs, undefined, { signal: timer.signal }).then(
    drop,
    () => undefined,
  )
  await Promise.race([closed, timeout])
  timer.abort()
}
