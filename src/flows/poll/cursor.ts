import { isoText } from '../item/exact-time.ts'
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
 * record dated 2099 the next reads would miss all changes. A time without a zone may be up to 24 h ahead. A number
 * counts as a time if other values in the read are past times, written alike: 20261125, or seconds or milliseconds
 * since 1970.
 */
export function followPosition(from: string | null, startedAt: Date): Position {
  let cursor = from
  let numbersAhead: string | null = null
  let farthestBack: string | null = null
  let count = 0
  let example = ''
  const pastForms = new Set<string>()
  const latest = startedAt.getTime()
  const note = (text: string) => {
    count += 1
    example ||= text
  }
  const notePast = (text: string) => {
    const moment = numberMoment(text)
    if (moment && moment.ms >= earliestMs && moment.ms <= latest + zoneRoomMs) {
      pastForms.add(moment.form)
    }
  }
  if (from !== null) notePast(from)
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
      const ms = instantOf(text)
      if (
        text === 'infinity' ||
        (ms !== undefined && ms > latest + (hasZone(text) ? 0 : zoneRoomMs))
      ) {
        // Small clock differences need no warning.
        if (ms === undefined || ms > latest + zoneRoomMs) note(text)
        if (ms !== undefined) farthestBack ??= readFrom(text, ms - latest + zoneRoomMs)
        return
      }
      const moment = ms === undefined ? numberMoment(text) : undefined
      if (moment && moment.ms > latest + zoneRoomMs) {
        numbersAhead = laterCursor(numbersAhead, text)
        note(text)
        return
      }
      if (moment) notePast(text)
      cursor = laterCursor(cursor, text)
    },
    end() {
      const form = numbersAhead === null ? undefined : numberMoment(numbersAhead)?.form
      if (numbersAhead !== null && !(form !== undefined && pastForms.has(form))) {
        return { cursor: laterCursor(cursor, numbersAhead), ahead: undefined }
      }
      // Without another position: a day before the read, in the form of the values.
      return { cursor: cursor ?? farthestBack, ahead: count > 0 ? { count, example } : undefined }
    },
  }
}

const dayFirst = /^\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d{2})(?:\D|$)/

function hasZone(text: string): boolean {
  return /(?:Z|[+-]\d{2}:?\d{2})$/.test(text) && text.includes(':')
}

/** The time of a number, if it is written like one. */
function numberMoment(text: string): { ms: number; form: string } | undefined {
  const digits = /^\d+$/.test(text) ? text.length : 0
  if (digits === 10) return { ms: Number(text) * 1_000, form: 'seconds' }
  if (digits === 13) return { ms: Number(text), form: 'milliseconds' }
  if (digits !== 8 && digits !== 14) return undefined
  const day = `${text.slice(0, 4)}-${text.slice(4, 6)}-${text.slice(6, 8)}`
  const ms = Date.parse(`${day}T00:00:00Z`)
  const isDay = !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day)
  return isDay ? { ms, form: String(digits) } : undefined
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
