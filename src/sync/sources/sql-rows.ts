import type { WallClock } from '../../domain/time-zone.ts'
import { ExactTime } from '../item/exact-time.ts'
import { SourceError, type SourceRow } from '../types.ts'

/** How many records are taken from a database before the reader asks for them: each may be long. */
export const maxRowsAhead = 16

/** Makes records of value lists. Throws SourceError when two columns have one name: one would hide the other. */
export function rowMaker(columns: readonly string[]): (values: readonly unknown[]) => SourceRow {
  const seen = new Set<string>()
  for (const column of columns) {
    if (column === '') throw new SourceError('the query gives a column without a name; name it')
    if (seen.has(column)) {
      throw new SourceError(`the query gives the column ${column} twice; name them apart`)
    }
    seen.add(column)
  }
  return (values) =>
    // fromEntries, since an assignment to a column named __proto__ would not make a field.
    Object.fromEntries(columns.map((column, index) => [column, plainValue(values[index])]))
}

/** A value as JSON can hold it, or a Date: bytes become base64, NaN and infinity a text. Of JSON, whole numbers are bigint beyond 2^53. */
function plainValue(value: unknown): unknown {
  if (value === undefined) return null
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (Array.isArray(value)) return value.map(plainValue)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  return value
}

const plainTime = /^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})(?:\.(\d+))?$/

/** A date with time but without a zone, read as UTC; what is no such time (`infinity`, `0000-00-00 …`, `2026-02-30 …`) stays text. */
export function utcTime(text: string): Date | string {
  return timeOf(text, undefined)
}

/** As utcTime, by the wall clock of a zone; in UTC when there is none. */
export function timeOf(text: string, clock: WallClock | undefined): Date | string {
  const [, day, time, fraction = ''] = plainTime.exec(text) ?? []
  if (day === undefined) return text
  const shown = new Date(`${day}T${time}.${fraction.slice(0, 3).padEnd(3, '0')}Z`)
  // Of the 30th of February a Date makes the 2nd of March.
  if (Number.isNaN(shown.getTime()) || !shown.toISOString().startsWith(day)) return text
  return ExactTime.of(clock ? clock.toInstant(shown) : shown, fraction)
}

/** The shortest decimal that is the same 32 bit number: drivers widen 0.1 to 0.10000000149011612. */
export function shortestFloat(value: number): number {
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return short
  }
  return value
}

/** The database gave nothing for the time that `limits.timeout` allows. */
export class SilentDatabaseError extends Error {
  constructor(timeoutMs: number) {
    super(`no answer for ${timeoutMs} ms (limits.timeout)`)
    this.name = 'SilentDatabaseError'
  }
}
