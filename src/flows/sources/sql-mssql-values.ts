import mssql from 'mssql'
import type { WallClock } from '../../domain/time-zone.ts'
import { ExactTime, isoText } from '../item/exact-time.ts'
import { SourceError } from '../types.ts'
import { shortestFloat } from './sql-rows.ts'

/** A column as tedious describes it. `type` is one of mssql's type functions. */
export type MssqlColumn = { name: string; type: unknown; scale?: number | undefined }

/**
 * Converts a SQL Server value to the form that the other databases give. tedious converts decimal and money to a JavaScript
 * number. It becomes exact text again; when digits were lost, the read fails, because the amount is unknown.
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

function exactDecimal(value: number, scale: number, column: string): string {
  if (Math.abs(value) * 10 ** scale >= Number.MAX_SAFE_INTEGER) {
    throw new SourceError({ code: 'NUMBER_TOO_EXACT', data: { column } })
  }
  return value.toFixed(scale)
}
