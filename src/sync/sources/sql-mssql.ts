import { setTimeout as wait } from 'node:timers/promises'
import mssql from 'mssql'
import { wallClockOf } from '../../domain/time-zone.ts'
import type { SourceRow } from '../types.ts'
import { inBatches } from './counted.ts'
import { watchSilence } from './silence.ts'
import type { SqlRead } from './sql-driver.ts'
import { mssqlConfig } from './sql-mssql-config.ts'
import { type MssqlColumn, mssqlValue } from './sql-mssql-values.ts'
import { maxRowsAhead, rowMaker, SilentDatabaseError } from './sql-rows.ts'

const goodbyeMs = 1_000

/**
 * Reads as a stream. SQL Server has no read-only transaction: the connection declares its intent, which keeps nobody from
 * writing, so the login must be one that may only read. Parameters go as nvarchar, which the server converts to the
 * type of the column.
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
  // Whoever waits for an answer hears of it too.
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
    const onSilence = () => stop(new SilentDatabaseError(timeoutMs))
    let toRow: ((values: readonly unknown[]) => SourceRow) | undefined
    const make = (values: unknown[]) => {
      toRow ??= rowMaker(columns.map(({ name }) => name))
      return toRow(values.map((value, index) => mssqlValue(value, columns[index], clock)))
    }
    yield* inBatches<unknown[]>(watchSilence(records, timeoutMs, onSilence), fetchSize, make)
    cancel = () => undefined
  } finally {
    signal.removeEventListener('abort', onAbort)
    cancel(undefined)
    await closeSoon(pool, () => {
      for (const drop of drops) drop()
    })
  }
}

/** A clean goodbye, for which the server has to confirm a cancel; one that does not is left. */
async function closeSoon(pool: mssql.ConnectionPool, drop: () => void): Promise<void> {
  const left = new AbortController()
  const closed = pool.close().catch(() => undefined)
  const leave = wait(goodbyeMs, undefined, { signal: left.signal }).then(drop, () => undefined)
  await Promise.race([closed, leave])
  left.abort()
}
