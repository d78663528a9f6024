import { ExactTime } from '../../domain/exact-time.ts'
import { parseExactJson } from '../../domain/json.ts'
import type { WallClock } from '../../domain/time-zone.ts'
import { ReasonError } from '../../texts/reason.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { maxRecordCharacters } from './record-limits.ts'

/** Number of records prefetched from a database; each may be long. */
export const maxRowsAhead = 16

/**
 * Creates records from lists of values. Throws SourceError when two columns have the same name, because one would hide the
 * other.
 */
export function rowMaker(columns: readonly string[]): (values: readonly unknown[]) => SourceRow {
  const seen = new Set<string>()
  for (const column of columns) {
    if (column === '') throw new SourceError({ code: 'COLUMN_WITHOUT_NAME' })
    if (seen.has(column)) {
      throw new SourceError({ code: 'COLUMN_TWICE', data: { column } })
    }
    seen.add(column)
  }
  return (values) =>
    // An assignment to a column named __proto__ would not create a field.
    Object.fromEntries(columns.map((column, index) => [column, plainValue(values[index])]))
}

/**
 * Converts a value to JSON or a Date: bytes become base64, NaN and infinity become text. Whole numbers in JSON beyond 2^53 are
 * bigint.
 */
function plainValue(value: unknown): unknown {
  if (value === undefined) return null
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (Array.isArray(value)) return value.map(plainValue)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  return value
}

const plainTime = /^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})(?:\.(\d+))?$/

/** Parses a date and time without a zone as UTC. An invalid one (`infinity`, `0000-00-00 …`, `2026-02-30 …`) stays text. */
export function utcTime(text: string): Date | string {
  return timeOf(text, undefined)
}

/** Like utcTime, in the zone of the clock; UTC without a clock. */
export function timeOf(text: string, clock: WallClock | undefined): Date | string {
  const [, day, time, fraction = ''] = plainTime.exec(text) ?? []
  if (day === undefined) return text
  const shown = new Date(`${day}T${time}.${fraction.slice(0, 3).padEnd(3, '0')}Z`)
  // A Date converts 30 February to 2 March.
  if (Number.isNaN(shown.getTime()) || !shown.toISOString().startsWith(day)) return text
  return ExactTime.of(clock ? clock.toInstant(shown) : shown, fraction)
}

/** The shortest decimal of the same 32-bit number: drivers widen 0.1 to 0.10000000149011612. */
export function shortestFloat(value: number): number {
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return short
  }
  return value
}

/** The database returned nothing within `limits.timeout`. */
export class DatabaseTimeoutError extends ReasonError {
  override readonly name = 'DatabaseTimeoutError'

  constructor(timeoutMs: number) {
    super({ code: 'SILENT', data: { ms: timeoutMs } })
  }
}

/**
 * Like parseExactJson, for a JSON value of a database. Text that no item can hold is returned unparsed; a later check refuses
 * it.
 */
export function parseJsonColumn(text: string): unknown {
  return text.length > maxRecordCharacters ? text : parseExactJson(text)
}
