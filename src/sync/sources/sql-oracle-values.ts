import type { Column } from 'oracledb'
import { ExactTime } from '../item/exact-time.ts'
import { SourceError } from '../types.ts'
import { shortestFloat, timeOf } from './sql-rows.ts'
import type { WallClock } from './wall-clock.ts'

/**
 * Of numbers the driver makes JavaScript's, of times those of this machine's zone with milliseconds at most. So they come as
 * texts: numbers as they are, times in the form that `oracleSession` asks for.
 */
const asText = new Set([
  'DB_TYPE_NUMBER',
  'DB_TYPE_BINARY_INTEGER',
  'DB_TYPE_DATE',
  'DB_TYPE_TIMESTAMP',
  'DB_TYPE_TIMESTAMP_TZ',
])
const asItComes = new Set([
  'DB_TYPE_VARCHAR',
  'DB_TYPE_NVARCHAR',
  'DB_TYPE_CHAR',
  'DB_TYPE_NCHAR',
  'DB_TYPE_LONG',
  'DB_TYPE_LONG_NVARCHAR',
  'DB_TYPE_LONG_RAW',
  'DB_TYPE_RAW',
  'DB_TYPE_ROWID',
  'DB_TYPE_BINARY_FLOAT',
  'DB_TYPE_BINARY_DOUBLE',
  'DB_TYPE_BOOLEAN',
  'DB_TYPE_CLOB',
  'DB_TYPE_NCLOB',
  'DB_TYPE_BLOB',
])
/** A whole number of so few digits is a number at every source. */
const mostDigits = 9

/** What the session is told before a read; whatever the server's own settings are. */
export const oracleSession: readonly string[] = [
  `alter session set nls_date_format = 'SYYYY-MM-DD HH24:MI:SS' nls_timestamp_format = 'SYYYY-MM-DD HH24:MI:SS.FF9' nls_timestamp_tz_format = 'SYYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM' nls_numeric_characters = '.,'`,
  'set transaction read only',
]

export function comesAsText({ dbType }: Column): boolean {
  return asText.has(dbType.name)
}

/** Throws SourceError for a column of a type of which it is not known how to read it exactly. */
export function checkOracleColumns(columns: readonly Column[]): void {
  for (const column of columns) {
    if (asText.has(column.dbType.name) || asItComes.has(column.dbType.name)) continue
    const type = column.dbType.name.replace('DB_TYPE_', '')
    throw new SourceError(
      `the column ${column.name} has the type ${type}, which is not read; make a text, a number or a timestamp of it in the query (to_char, cast, json_serialize)`,
    )
  }
}

/**
 * A value as the other databases give it: exact numbers as text (whole ones of up to nine digits are numbers), times by the
 * clock, UTC when there is none, texts without the blanks that fill up a CHAR. Throws SourceError for what has another form.
 */
export function oracleValue(value: unknown, column: Column, clock: WallClock | undefined): unknown {
  if (value === null || value === undefined) return null
  switch (column.dbType.name) {
    case 'DB_TYPE_NUMBER':
    case 'DB_TYPE_BINARY_INTEGER':
      return exactNumber(String(value), column)
    case 'DB_TYPE_BINARY_FLOAT':
      return shortestFloat(value as number)
    case 'DB_TYPE_CHAR':
    case 'DB_TYPE_NCHAR':
      return (value as string).replace(/ +$/, '')
    case 'DB_TYPE_DATE':
    case 'DB_TYPE_TIMESTAMP': {
      const time = timeOf((value as string).trimStart(), clock)
      return time instanceof Date ? time : wrongTime(column)
    }
    case 'DB_TYPE_TIMESTAMP_TZ':
      return zonedTime((value as string).trimStart()) ?? wrongTime(column)
    default:
      return value
  }
}

/** `.5` and `-.5` are written with their zero, as everywhere else. */
function exactNumber(text: string, { precision = 0, scale }: Column): string | number {
  const written = text.replace(/^(-?)\./, '$10.')
  const isShort = scale === 0 && precision > 0 && precision <= mostDigits
  return isShort ? Number(written) : written
}

const zoned = /^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})\.(\d+) ([+-]\d{2}:\d{2})$/

function zonedTime(text: string): Date | undefined {
  const [, day, time, fraction = '', offset] = zoned.exec(text) ?? []
  if (day === undefined) return undefined
  const date = new Date(`${day}T${time}.${fraction.slice(0, 3)}${offset}`)
  return Number.isNaN(date.getTime()) ? undefined : ExactTime.of(date, fraction)
}

function wrongTime({ name }: Column): never {
  throw new SourceError(
    `the column ${name} holds a time that cannot be read exactly, such as one before the year 1; make a text of it in the query (to_char)`,
  )
}
