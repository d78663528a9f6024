import mssql from 'mssql'
import type { SourceRow } from '../types.ts'
import { inBatches } from './counted.ts'
import { watchSilence } from './silence.ts'
import type { SqlRead } from './sql-driver.ts'
import { mssqlConfig } from './sql-mssql-config.ts'
import { type MssqlColumn, mssqlValue } from './sql-mssql-values.ts'
import { rowMaker, SilentDatabaseError } from './sql-rows.ts'

/**
 * Reads as a stream. SQL Server has no read-only transaction: the connection declares its intent, which keeps nobody from
 * writing, so the login must be one that may only read. Parameters go as nvarchar, which the server converts to the
 * type of the column.
 */
export async function* readMssql(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const pool = new mssql.ConnectionPool(mssqlConfig(read.url, timeoutMs))
  // Whoever waits for an answer hears of it too.
  pool.on('error', () => undefined)
  const given = Promise.withResolvers<never>()
  given.promise.catch(() => undefined)
  let cancel = () => given.reject(signal.reason)
  const stop = () => cancel()
  signal.addEventListener('abort', stop, { once: true })
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
    const records = request.toReadableStream({ highWaterMark: fetchSize })
    let silence: SilentDatabaseError | undefined
    cancel = () => {
      request.cancel()
      records.destroy(silence ?? (signal.reason as Error))
    }
    request.query(statement.text).catch((error) => records.destroy(error))
    const onSilence = () => {
      silence = new SilentDatabaseError(timeoutMs)
      cancel()
    }
    let toRow: ((values: readonly unknown[]) => SourceRow) | undefined
    for await (const batch of inBatches(watchSilence(records, timeoutMs, onSilence), fetchSize)) {
      toRow ??= rowMaker(columns.map(({ name }) => name))
      const make = toRow
      yield batch.map((values: unknown[]) =>
        make(values.map((value, index) => mssqlValue(value, columns[index]))),
      )
    }
  } finally {
    signal.removeEventListener('abort', stop)
    await pool.close().catch(() => undefined)
  }
}
