import { ExactTime } from '../../domain/exact-time.ts'
import type { WallClock } from '../../domain/time-zone.ts'
import { SourceError, UnreadableValue } from '../types.ts'
import { createDecoder, type Decode, type FileEncoding } from './file-encoding.ts'
import { shortestFloat } from './sql-rows.ts'

/** The driver's reader of a response. */
type WireReader = {
  readInt(): number
  readUInt(): number
  readInt64BigInt(): bigint
  readInt128Signed(): bigint
  readBuffer(length: number): Buffer
  readArray(): Buffer | undefined
}

/** A column of a response as the driver describes it. `decode` extracts a value from the response. */
export type FirebirdColumn = {
  alias: string
  type: number
  subType: number
  /** A negative count of digits; for a text blob, its character set. */
  scale: number
  length: number
  decode(reader: WireReader, hasNullMarks: boolean, options?: unknown): unknown
}

/** Constants of ibase.h. */
const types = {
  varying: 448,
  text: 452,
  double: 480,
  float: 482,
  long: 496,
  short: 500,
  timestamp: 510,
  blob: 520,
  time: 560,
  date: 570,
  int64: 580,
  int128: 32752,
  boolean: 32764,
} as const
const known = new Set<number>(Object.values(types))

const octets = 1
const textBlob = 1
const dayMs = 86_400_000
/** Firebird counts days from 17 November 1858. */
const firstDay = Date.UTC(1858, 10, 17) / dayMs
/** Unit of times: 0.1 ms. */
const ticksPerSecond = 10_000

/** Encodings by Firebird's names, as far as the driver supports them. */
const firebirdCharsets: Readonly<Record<string, FileEncoding>> = {
  UTF8: 'utf8',
  WIN1252: 'latin1',
  ISO8859_1: 'latin1',
  WIN1251: 'cp1251',
}

/**
 * Makes the driver return raw values. Its own conversion of times depends on this machine's zone and loses a digit, and it
 * replaces invalid characters. Throws SourceError for an unknown type.
 */
export function readRawValues(columns: readonly FirebirdColumn[]): void {
  for (const column of columns) {
    if (!known.has(column.type)) {
      throw new SourceError({ code: 'COLUMN_TYPE_UNREAD', data: { column: column.alias } })
    }
    const take = takerOf(column)
    if (!take) continue
    // The driver takes any exception here for an incomplete response. So values are checked only after the whole response
    // arrived.
    column.decode = (reader, hasNullMarks) => {
      const value = take(reader)
      return hasNullMarks && reader.readInt() !== 0 ? null : value
    }
  }
}

function takerOf({ type, subType, length }: FirebirdColumn) {
  switch (type) {
    case types.text:
      return subType === octets ? undefined : (reader: WireReader) => reader.readBuffer(length)
    case types.varying:
      return subType === octets
        ? undefined
        : (reader: WireReader) => reader.readArray() ?? Buffer.alloc(0)
    case types.long:
    case types.short:
    case types.date:
      return (reader: WireReader) => reader.readInt()
    case types.int64:
      return (reader: WireReader) => reader.readInt64BigInt()
    case types.int128:
      return (reader: WireReader) => reader.readInt128Signed()
    case types.time:
      return (reader: WireReader) => reader.readUInt()
    case types.timestamp:
      return (reader: WireReader) => [reader.readInt(), reader.readUInt()]
    default:
      return undefined
  }
}

/**
 * Converts a value like the other databases do: exact numbers as text (32-bit integers as numbers), times by the clock (UTC
 * without one), CHAR texts without padding. Invalid characters are an UnreadableValue.
 */
export function firebirdValue(
  value: unknown,
  { alias, type, subType, scale }: FirebirdColumn,
  { text: textIn, clock }: { text: FirebirdText; clock: WallClock | undefined },
): unknown {
  if (value === null || value === undefined) return null
  const text = (bytes: Buffer) => textIn(bytes, alias)
  switch (type) {
    case types.text:
      return subType === octets ? value : withoutPadding(text(value as Buffer))
    case types.varying:
      return subType === octets ? value : text(value as Buffer)
    case types.blob:
      return subType === textBlob ? text(value as Buffer) : value
    case types.long:
    case types.short:
      return scale === 0 ? value : scaled(BigInt(value as number), -scale)
    case types.int64:
    case types.int128:
      return scaled(value as bigint, -scale)
    // Dialect 1 stores NUMERIC as binary; the type has its number of digits.
    case types.double:
      return scale < 0 ? (value as number).toFixed(-scale) : value
    case types.float:
      return shortestFloat(value as number)
    case types.date:
      return new Date(dayOf(value as number)).toISOString().slice(0, 10)
    case types.time:
      return timeOfDay(value as number)
    case types.timestamp: {
      const [day, ticks] = value as [number, number]
      const wall = new Date(dayOf(day) + Math.floor(ticks / 10))
      const fraction = String(ticks % ticksPerSecond).padStart(4, '0')
      return ExactTime.of(clock ? clock.toInstant(wall) : wall, fraction)
    }
    default:
      return value
  }
}

/** Decodes the text of a column's value. */
type FirebirdText = (bytes: Buffer, column: string) => string | UnreadableValue

function withoutPadding(text: string | UnreadableValue): string | UnreadableValue {
  return typeof text === 'string' ? text.replace(/ +$/, '') : text
}

/** Created once per read: a decoder costs more than the text it decodes. */
export function firebirdText(charset: string): FirebirdText {
  const encoding = firebirdCharsets[charset] ?? 'utf8'
  let decode: Decode = createDecoder(encoding)
  return (bytes, column) => {
    try {
      return decode(bytes) + decode()
    } catch {
      // The decoder keeps what it could not read.
      decode = createDecoder(encoding)
      return new UnreadableValue({ code: 'COLUMN_BYTES_NO_TEXT', data: { column, charset } })
    }
  }
}

function dayOf(days: number): number {
  return (firstDay + days) * dayMs
}

function timeOfDay(ticks: number): string {
  const whole = new Date(Math.floor(ticks / ticksPerSecond) * 1_000).toISOString().slice(11, 19)
  const rest = String(ticks % ticksPerSecond)
    .padStart(4, '0')
    .replace(/0+$/, '')
  return rest === '' ? whole : `${whole}.${rest}`
}

function scaled(units: bigint, digits: number): string {
  if (digits <= 0) return String(units)
  const sign = units < 0n ? '-' : ''
  const all = String(units < 0n ? -units : units).padStart(digits + 1, '0')
  return `${sign}${all.slice(0, -digits)}.${all.slice(-digits)}`
}
