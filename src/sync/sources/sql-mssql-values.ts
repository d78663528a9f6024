import mssql from 'mssql'
import type { WallClock } from '../../domain/time-zone.ts'
import { ExactTime, isoText } from '../item/exact-time.ts'
import { SourceError } from '../types.ts'
import { shortestFloat } from './sql-rows.ts'

/** What tedious tells about a column; `type` is one of the type functions of mssql. */
export type MssqlColumn = { name: string; type: unknown; scale?: number | undefined }

/**
 * A value of SQL Server in the form the other databases give it. tedious makes a JavaScript number of decimal and money:
 * it becomes exact text again, and where digits were lost on the way the read fails, since the amount is unknown then.
 * Dates and times alone become text; points in time without an offset are read by `clock`, as UTC when absent.
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
  if (value instanceof Date) {
    if (column.type === mssql.Date) return value.toISOString().slice(0, 10)
    const fraction = fractionOf(value)
    if (column.type === mssql.Time) return isoText(ExactTime.of(value, fraction)).slice(11, -1)
    const isPlain = column.type !== mssql.DateTimeOffset
    return ExactTime.of(clock && isPlain ? clock.toInstant(value) : value, fraction)
  }
  return value
}

/** The digits of the second; tedious gives what a Date cannot hold as a property, in seconds. */
function fractionOf(value: Date): string {
  const { nanosecondsDelta } = value as Date & { nanosecondsDelta?: unknown }
  const rest = typeof nanosecondsDelta === 'number' ? Math.round(nanosecondsDelta * 1e7) : 0
  const ms = ((value.getTime() % 1_000) + 1_000) % 1_000
  return String(ms).padStart(3, '0') + String(rest).padStart(4, '0')
}

function exactDecimal(value: number, scale: number, column: string): string {
  if (Math.abs(value) * 10 ** scale >= Number.MAX_SAFE_INTEGER) {
    throw new SourceError(
      `the column ${column} holds a number with more digits than can be read exactly; cast it to varchar in the query`,
    )
  }
  return value.toFixed(scale)
}
