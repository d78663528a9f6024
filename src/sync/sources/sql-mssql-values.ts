import mssql from 'mssql'
import { SourceError } from '../types.ts'
import { shortestFloat } from './sql-rows.ts'

/** What tedious tells about a column; `type` is one of the type functions of mssql. */
export type MssqlColumn = { name: string; type: unknown; scale?: number | undefined }

/**
 * A value of SQL Server in the form the other databases give it. tedious makes a JavaScript number of decimal and money:
 * it becomes exact text again, and where digits were lost on the way the read fails, since the amount is unknown then.
 * Dates and times alone become text; points in time are read as UTC.
 */
export function mssqlValue(value: unknown, column: MssqlColumn | undefined): unknown {
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
    if (column.type === mssql.Time) return value.toISOString().slice(11, -1)
  }
  return value
}

function exactDecimal(value: number, scale: number, column: string): string {
  if (Math.abs(value) * 10 ** scale >= Number.MAX_SAFE_INTEGER) {
    throw new SourceError(
      `the column ${column} holds a number with more digits than can be read exactly; cast it to varchar in the query`,
    )
  }
  return value.toFixed(scale)
}
