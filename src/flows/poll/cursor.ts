import { isoText } from '../../domain/exact-time.ts'
import { mayGoBack } from '../../domain/time-zone.ts'
import { shorten } from '../mapping/excerpt.ts'
import { SourceError } from '../types.ts'

/**
 * The text of a cursor value: ISO for times, digits for numbers, texts unchanged. Undefined if the value cannot be a
 * cursor.
 */
export function cursorText(value: unknown): string | undefined {
  if (value instanceof Date) {
    return Number.isNaN(value.getTime()) ? undefined : isoText(value)
  }
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : undefined
  if (typeof value === 'bigint') return value.toString()
  // The database stores no NUL, so an item with one is refused.
  return typeof value === 'string' && value !== '' && !value.includes('\0') ? value : undefined
}

const wholeNumber = /^-?\d+$/
/** A date alone or with a time, in the forms that databases and JSON use: date, separator, minutes, seconds, fraction, zone. */
const time =
  /^(\d{4}-\d{2}-\d{2})(?:([T ])(\d{2}:\d{2})(?:(:\d{2})(?:\.(\d+))?)?(Z|[+-]\d{2}:?\d{2})?)?$/

/** A time without a zone may be of any zone. */
const zoneRoomMs = 24 * 3_600_000
const hourMs = 3_600_000
const earliestMs = Date.UTC(2000, 0, 1)

/** Follows the position of a read by the values of the cursor field. */
export type Position = {
  /** Throws SourceError for a value whose order as text differs from time order. */
  take(value: unknown): void
  /** Where the next read starts after a complete read; null without a usable value. */
  end(): { cursor: string | null; ahead: Ahead | undefined }
}

/** Values later than the read itself, which cannot be the position. */
export type Ahead = { count: number; example: string }

/**
 * Follows the position from `from` on, in a read that began at `startedAt`. A later time never moves it: after a
 * record dated 2099 the next reads would miss all changes. A time without a zone may be up to 24 h ahead. Numbers are
 * judged by `followNumbers`.
 */
export function followPosition(from: string | null, startedAt: Date): Position {
  const latest = startedAt.getTime()
  const numbers = followNumbers(from, latest + zoneRoomMs)
  let cursor = from !== null && isNumber(from) ? null : from
  let farthestBack: string | null = null
  let count = 0
  let example = ''
  return {
    take(value) {
      const text = cursorText(value)
      if (text === undefined) return
      if (dayFirst.test(text)) {
        throw new SourceError({
          code: 'CURSOR_NOT_A_TIME',
          data: { value: JSON.stringify(shorten(text, 40)) },
        })
      }
      if (isNumber(text)) {
        numbers.take(text)
        return
      }
      const ms = instantOf(text)
      if (
        text === 'infinity' ||
        (ms !== undefined && ms > latest + (hasZone(text) ? 0 : zoneRoomMs))
      ) {
        // Small clock differences need no warning.
        if (ms === undefined || ms > latest + zoneRoomMs) {
          count += 1
          example ||= text
        }
        if (ms !== undefined) farthestBack ??= readFrom(text, ms - latest + zoneRoomMs)
        return
      }
      cursor = laterCursor(cursor, text)
    },
    end() {
      const ofNumbers = numbers.end()
      if (ofNumbers.cursor !== null) cursor = laterCursor(cursor, ofNumbers.cursor)
      const all = count + (ofNumbers.ahead?.count ?? 0)
      example ||= ofNumbers.ahead?.example ?? ''
      // Without another position: a day before the read, in the form of the values.
      return {
        cursor: cursor ?? farthestBack,
        ahead: all > 0 ? { count: all, example } : undefined,
      }
    },
  }
}

/** Numbers up to the limit of a unit, and above that of the unit before. */
type Range = { largest: string | null; count: number; example: string }

/**
 * Follows the position among numbers. Without a number to start from, they are times if most of a length are past times. Then,
 * as after a past time to start from, a number above the latest time in this unit is not believed: milliseconds among seconds,
 * or 99999999 among dates, would hide all later changes.
 */
function followNumbers(from: string | null, latestMs: number): Position {
  const limits = units.map((unit) => unit.of(latestMs))
  const ranges: Range[] = [...units, undefined].map(() => ({
    largest: null,
    count: 0,
    example: '',
  }))
  /** For each unit, how many more of its numbers are past times than no times. */
  const scores = units.map(() => 0)
  const rangeOf = (text: string): Range => {
    const number = Number(text)
    const index = limits.findIndex((limit) => number < limit + 1)
    return ranges[index === -1 ? units.length : index] as Range
  }
  const isFrom = from !== null && isNumber(from)
  const score = (text: string) => {
    const { unit, ms } = timeOf(text)
    const isPast = ms !== undefined && ms >= earliestMs && ms <= latestMs
    if (unit !== -1) scores[unit] = (scores[unit] ?? 0) + (isPast ? 1 : ms === undefined ? -1 : 0)
  }
  if (isFrom) {
    rangeOf(from).largest = from
    score(from)
  }
  return {
    take(value) {
      const text = value as string
      const range = rangeOf(text)
      range.largest = laterCursor(range.largest, text)
      range.count += 1
      range.example ||= text
      if (!isFrom) score(text)
    },
    end() {
      const best = Math.max(...scores)
      const believed = best > 0 ? ranges.slice(0, scores.indexOf(best) + 1) : ranges
      const ahead = ranges.slice(believed.length).filter((range) => range.count > 0)
      let cursor: string | null = null
      for (const { largest } of believed) {
        if (largest !== null) cursor = laterCursor(cursor, largest)
      }
      const count = ahead.reduce((sum, range) => sum + range.count, 0)
      return { cursor, ahead: ahead[0] && { count, example: ahead[0].example } }
    },
  }
}

type Unit = {
  /** Number of digits. */
  length: number
  /** Whether it is a local time of a day. */
  hasHours: boolean
  /** A time in this unit. */
  of(ms: number): number
  /** The time of digits in this unit; undefined when they are none. */
  msOf(digits: string): number | undefined
}

/** The units of times that are numbers, the smallest numbers first. */
const units: readonly Unit[] = [
  writtenDate(8),
  since1970(10, 1_000),
  writtenDate(12),
  since1970(13, 1),
  writtenDate(14),
  since1970(16, 0.001),
  writtenDate(17),
]

function since1970(length: number, msOfOne: number): Unit {
  return {
    length,
    hasHours: false,
    of: (ms) => Math.floor(ms / msOfOne),
    msOf: (digits) => Number(digits) * msOfOne,
  }
}

/** 20261125, with hours, minutes, seconds or milliseconds as `length` says. */
function writtenDate(length: number): Unit {
  return {
    length,
    hasHours: length > 8,
    of: (ms) => Number(new Date(ms).toISOString().replace(/\D/g, '').slice(0, length)),
    msOf: (digits) => {
      const day = `${digits.slice(0, 4)}-${digits.slice(4, 6)}-${digits.slice(6, 8)}`
      const ms = Date.parse(`${day}T00:00:00Z`)
      const isDay = !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day)
      return isDay ? ms : undefined
    },
  }
}

/** The unit that a number has by its length (-1 without one), and the time that it is in this unit. */
function timeOf(text: string): { unit: number; ms: number | undefined } {
  const [, digits = ''] = /^(\d+)(?:\.\d+)?$/.exec(text) ?? []
  const unit = units.findIndex(({ length }) => length === digits.length)
  return { unit, ms: units[unit]?.msOf(digits) }
}

function isNumber(text: string): boolean {
  return decimalOf(text) !== undefined
}

const dayFirst = /^\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d{2})(?:\D|$)/

function hasZone(text: string): boolean {
  return /(?:Z|[+-]\d{2}:?\d{2})$/.test(text) && text.includes(':')
}

/** The later of two positions: by number, by time, or else as text. */
export function laterCursor(left: string | null, right: string): string {
  if (left === null) return right
  if (wholeNumber.test(left) && wholeNumber.test(right)) {
    return BigInt(right) > BigInt(left) ? right : left
  }
  const [leftNumber, rightNumber] = [decimalOf(left), decimalOf(right)]
  if (leftNumber !== undefined && rightNumber !== undefined) {
    return rightNumber > leftNumber ? right : left
  }
  const [leftMs, rightMs] = [instantOf(left), instantOf(right)]
  // Texts may differ beyond milliseconds.
  if (leftMs !== undefined && rightMs !== undefined && leftMs !== rightMs) {
    return rightMs > leftMs ? right : left
  }
  return right > left ? right : left
}

/**
 * Where to read from: the position minus the overlap, if it is a time. Late commits lie in the overlap. The form of
 * the source is kept, with or without a zone. A source that compares texts, or takes times as local, would otherwise
 * start hours too late. Precision that the form lacks is cut off, which starts earlier.
 *
 * A local time starts an hour earlier on days on which clocks go back: later changes in the hour that comes twice may have
 * earlier times.
 */
export function readFrom(cursor: string, overlapMs: number): string {
  const local = localTimeOf(cursor)
  // The overlap of a number is not known.
  if (local !== undefined) return readFrom(local, 0).replace(/\D/g, '')
  const parts = time.exec(cursor)
  if (!parts) return cursor
  const [, date, separator, minutes, seconds, fraction, zone] = parts
  const wallClock = Date.parse(
    `${date}T${minutes ?? '00:00'}${seconds ?? ':00'}.${millis(fraction)}Z`,
  )
  if (Number.isNaN(wallClock)) return cursor
  const mayRepeat = minutes !== undefined && zone === undefined && mayGoBack(new Date(wallClock))
  const backMs = overlapMs + (mayRepeat ? hourMs : 0)
  if (backMs === 0) return cursor
  const from = new Date(wallClock - backMs).toISOString()
  if (minutes === undefined) return from.slice(0, 10)
  const upTo = from.slice(11, seconds === undefined ? 16 : 19)
  const rest = fraction && `.${(from.slice(20, 23) + fraction.slice(3)).slice(0, fraction.length)}`
  return `${from.slice(0, 10)}${separator}${upTo}${rest ?? ''}${zone ?? ''}`
}

/** The time of digits such as 20261025023000, with hours and minutes at least. */
function localTimeOf(text: string): string | undefined {
  const { unit, ms } = timeOf(text)
  if (ms === undefined || units[unit]?.hasHours !== true) return undefined
  const [, day, hour, minute, second, fraction] =
    /^(\d{8})(\d\d)(\d\d)(\d\d)?(\d{3})?$/.exec(text) ?? []
  if (day === undefined) return undefined
  const date = `${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}`
  return `${date}T${hour}:${minute}${second ? `:${second}` : ''}${fraction ? `.${fraction}` : ''}`
}

/** Milliseconds of a time. A time without a zone is read as UTC, so that the zone of this machine has no effect. */
function instantOf(text: string): number | undefined {
  const parts = time.exec(text)
  if (!parts) return undefined
  const isLocal = parts[3] !== undefined && parts[6] === undefined
  const ms = Date.parse(isLocal ? `${text.replace(' ', 'T')}Z` : text)
  return Number.isNaN(ms) ? undefined : ms
}

function decimalOf(text: string): number | undefined {
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined
}

function millis(fraction = ''): string {
  return fraction.slice(0, 3).padEnd(3, '0')
}
