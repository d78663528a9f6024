import { isoText } from '../item/exact-time.ts'

/**
 * The text of a cursor value: ISO for times, digits for numbers, as it is for texts. Undefined for what cannot be one.
 */
export function cursorText(value: unknown): string | undefined {
  if (value instanceof Date) {
    return Number.isNaN(value.getTime()) ? undefined : isoText(value)
  }
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : undefined
  if (typeof value === 'bigint') return value.toString()
  // The database holds no NUL, and an item with one is refused.
  return typeof value === 'string' && value !== '' && !value.includes('\0') ? value : undefined
}

const wholeNumber = /^-?\d+$/
/** A date alone or with a time, in the forms that databases and JSON use: date, separator, minutes, seconds, fraction, zone. */
const time =
  /^(\d{4}-\d{2}-\d{2})(?:([T ])(\d{2}:\d{2})(?:(:\d{2})(?:\.(\d+))?)?(Z|[+-]\d{2}:?\d{2})?)?$/

const furthestAheadMs = 24 * 3_600_000

/**
 * Whether a position is a time that lies further ahead than zones and clocks differ, such as the 9999-12-31 of a record that
 * never ends. Reads that went on from there would miss whatever changes until then.
 */
export function isAhead(cursor: string, now: Date): boolean {
  return cursor === 'infinity' || (instantOf(cursor) ?? 0) > now.getTime() + furthestAheadMs
}

/** The later of two positions: by number, by time, or else as text. */
export function laterCursor(left: string | null, right: string): string {
  if (left === null) return right
  if (wholeNumber.test(left) && wholeNumber.test(right)) {
    return BigInt(right) > BigInt(left) ? right : left
  }
  const [leftMs, rightMs] = [instantOf(left), instantOf(right)]
  // Equal milliseconds may differ beyond them: the text tells.
  if (leftMs !== undefined && rightMs !== undefined && leftMs !== rightMs) {
    return rightMs > leftMs ? right : left
  }
  return right > left ? right : left
}

/**
 * Where to read from: the position minus the overlap, when it is a time. Late commits lie in the overlap. It keeps the form
 * in which the source writes times, with its zone or without one: a source that compares texts, or takes what has no zone for
 * its own time, would else begin hours too late. What the form has no place for is cut off, which begins earlier.
 */
export function readFrom(cursor: string, overlapMs: number): string {
  const parts = time.exec(cursor)
  if (overlapMs === 0 || !parts) return cursor
  const [, date, separator, minutes, seconds, fraction, zone = ''] = parts
  const wallClock = Date.parse(
    `${date}T${minutes ?? '00:00'}${seconds ?? ':00'}.${millis(fraction)}Z`,
  )
  if (Number.isNaN(wallClock)) return cursor
  const from = new Date(wallClock - overlapMs).toISOString()
  if (minutes === undefined) return from.slice(0, 10)
  const upTo = from.slice(11, seconds === undefined ? 16 : 19)
  const rest = fraction && `.${(from.slice(20, 23) + fraction.slice(3)).slice(0, fraction.length)}`
  return `${from.slice(0, 10)}${separator}${upTo}${rest ?? ''}${zone}`
}

/** Milliseconds of a time; without a zone, as if it were UTC, so that the zone of this machine decides nothing. */
function instantOf(text: string): number | undefined {
  const parts = time.exec(text)
  if (!parts) return undefined
  const isLocal = parts[3] !== undefined && parts[6] === undefined
  const ms = Date.parse(isLocal ? `${text.replace(' ', 'T')}Z` : text)
  return Number.isNaN(ms) ? undefined : ms
}

function millis(fraction = ''): string {
  return fraction.slice(0, 3).padEnd(3, '0')
}
