import { setTimeout as wait } from 'node:timers/promises'
import mssql from 'mssql'
import { ExactTime, isoText } from '../../domain/exact-time.ts'
import { type WallClock, wallClockOf } from '../../domain/time-zone.ts'
import { mssqlConfig } from '../net/mssql-connection.ts'
import { type SourceRow, UnreadableValue } from '../types.ts'
import { inBatches } from './record-batches.ts'
import { ImpossibleValueError, type SqlRead, withRecordTimeout } from './sql-reader.ts'
import { DatabaseTimeoutError, maxRowsAhead, rowMaker, shortestFloat } from './sql-rows.ts'

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
    ...readingConfig(read.url, timeoutMs),
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
    // The published types have a record of columns here; it is a list.
    request.on('recordset', (list: unknown) => {
      columns = list as MssqlColumn[]
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
  } catch (error) {
    throw asImpossibleValue(error, statement.values)
  } finally {
    signal.removeEventListener('abort', onAbort)
    cancel(undefined)
    await closeWithTimeout(pool, () => {
      for (const drop of drops) drop()
    })
  }
}

/** Errors about a value whose message names it: it is no number of the type, or too large. */
const namesValue = new Set<unknown>([245, 248])
/** Errors about an nvarchar, a UUID and a date that do not name the value. Parameters are nvarchar. */
const hidesValue = new Set<unknown>([8114, 8169, 241])

function asImpossibleValue(error: unknown, values: readonly string[]): unknown {
  if (!(error instanceof Error) || !('number' in error)) return error
  const { number, message } = error
  const isOfParameter = namesValue.has(number)
    ? values.some((value) => message.includes(`nvarchar value '${value}'`))
    : hidesValue.has(number) && (number !== 8114 || message.includes('data type nvarchar to'))
  if (!isOfParameter) return error
  return new ImpossibleValueError({ code: 'IMPOSSIBLE_VALUE' }, { cause: error })
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

/**
 * The connection declares ApplicationIntent read-only, by which an availability group chooses a replica.
 */
function readingConfig(url: string, timeoutMs: number): mssql.config {
  const config = mssqlConfig(url)
  return {
    ...config,
    connectionTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    pool: { min: 0, max: 1 },
    arrayRowMode: true,
    options: { ...config.options, appName: 'tillbridge', readOnlyIntent: true, useUTC: true },
  }
}

const ofCodePage = new Set<unknown>([mssql.VarChar, mssql.Char, mssql.Text])

/** A column as tedious describes it. `type` is one of mssql's type functions. */
type MssqlColumn = { name: string; type: unknown; scale?: number | undefined }

/**
 * Converts a SQL Server value to the form that the other databases give. tedious converts decimal and money to a JavaScript
 * number. It becomes exact text again, or an UnreadableValue when digits were lost.
 *
 * Dates and times without the other part become text. Times without an offset are read by `clock`, or as UTC.
 */
export function mssqlValue(
  value: unknown,
  column: MssqlColumn | undefined,
  clock?: WallClock,
): unknown {
  if (value === null || value === undefined || !column) return null
  if (typeof value === 'number') {
    switch (column.type) {
      case mssql.Decimal:
      case mssql.Numeric:
        return exactDecimal(value, column.scale ?? 0, column.name)
      case mssql.Money:
      case mssql.SmallMoney:
        return exactDecimal(value, 4, column.name)
      case mssql.Real:
        return shortestFloat(value)
      default:
        return value
    }
  }
  // The driver replaces what the code page lacks. No code page has this character.
  if (typeof value === 'string' && ofCodePage.has(column.type) && value.includes('\ufffd')) {
    return new UnreadableValue({ code: 'COLUMN_NO_CHARACTERS', data: { column: column.name } })
  }
  if (value instanceof Date) {
    if (column.type === mssql.Date) return value.toISOString().slice(0, 10)
    const fraction = fractionOf(value)
    if (column.type === mssql.Time) return isoText(ExactTime.of(value, fraction)).slice(11, -1)
    const isPlain = column.type !== mssql.DateTimeOffset
    return ExactTime.of(clock && isPlain ? clock.toInstant(value) : value, fraction)
  }
  return value
}

/** Digits of the second. tedious stores the digits beyond a Date's precision in a property, in seconds. */
function fractionOf(value: Date): string {
  const { nanosecondsDelta } = value as Date & { nanosecondsDelta?: unknown }
  const rest = typeof nanosecondsDelta === 'number' ? Math.round(nanosecondsDelta * 1e7) : 0
  const ms = ((value.getTime() % 1_000) + 1_000) % 1_000
  return String(ms).padStart(3, '0') + String(rest).padStart(4, '0')
}

function exactDecimal(value: number, scale: number, column: string): string | UnreadableValue {
  if (Math.abs(value) * 10 ** scale >= Number.MAX_SAFE_INTEGER) {
    return new UnreadableValue({ code: 'NUMBER_TOO_EXACT', data: { column } })
  }
  return value.toFixed(scale)
}
