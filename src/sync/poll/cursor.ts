import { isoText } from '../item/exact-time.ts'
import { shorten } from '../mapping/excerpt.ts'
import { SourceError } from '../types.ts'

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

/** Times without a zone may be those of any zone. */
const zoneRoomMs = 24 * 3_600_000
const earliestMs = Date.UTC(2000, 0, 1)

/** The position of a read, by the values of the cursor field. */
export type Position = {
  /** Throws SourceError for a value whose order as text is not that of time. */
  take(value: unknown): void
  /** Where the next read goes on, when everything was read; null when there is no value to go on from. */
  end(): { cursor: string | null; ahead: Ahead | undefined }
}

/** Values that cannot be the position, since they are later than the read itself. */
export type Ahead = { count: number; example: string }

/**
 * Follows the position from `from` on, in a read that began at `startedAt`. A time that is later than that never moves it: reads that
 * went on from there would miss whatever changes until then, such as behind a record that is dated 2099 or never ends. A time
 * without a zone may be up to 24 h ahead. A number is taken for a time where it is written like one (20261125, or seconds or
 * milliseconds since 1970) and others beside it are times in the past.
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
        throw new SourceError(
          `the cursor field has ${JSON.stringify(shorten(text, 40))}, whose order as text is not that of time; give it as 2026-12-31, or as 2026-12-31T10:00:00`,
        )
      }
      const ms = instantOf(text)
      if (
        text === 'infinity' ||
        (ms !== undefined && ms > latest + (hasZone(text) ? 0 : zoneRoomMs))
      ) {
        // Clocks differ a little; that needs nobody.
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
      // Where there is nothing else to go on from: a day before the read, in the form of the values.
      return { cursor: cursor ?? farthestBack, ahead: count > 0 ? { count, example } : undefined }
    },
  }
}

const dayFirst = /^\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d{2})(?:\D|$)/

function hasZone(text: string): boolean {
  return /(?:Z|[+-]\d{2}:?\d{2})$/.test(text) && text.includes(':')
}

/** What a number says as a time, where it is written like one. */
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

function decimalOf(text: string): number | undefined {
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined
}

function millis(fraction = ''): string {
  return fraction.slice(0, 3).padEnd(3, '0')
}
