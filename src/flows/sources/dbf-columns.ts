import type { Reason } from '../../texts/reason.ts'
import { SourceError, type SourceRow, UnreadableValue } from '../types.ts'
import { dateOf } from './file-fixed.ts'

export type DbfColumn = {
  name: string
  type: string
  /** Position of its first byte in the record. */
  offset: number
  length: number
  isNullable: boolean
}

/** The result when the encoding of texts is unknown. */
export const noCodePage = Symbol('no code page')
/** Undefined when the bytes are not a text of the encoding. */
type DecodeText = (bytes: Buffer) => string | typeof noCodePage | undefined

const visualFoxPro = new Set([0x30, 0x31, 0x32])
const memos = new Set(['M', 'G', 'P', 'W'])
const nullFlags = '0'
/** Varchar and Varbinary of Visual FoxPro 9. */
const ofVariableLength = new Set(['V', 'Q'])
const unixEpochJulianDay = 2_440_588
const dayMs = 86_400_000

/**
 * Creates the function that reads records. A value that its column's type cannot have is an UnreadableValue. Throws SourceError
 * with the column's name for an unsupported type.
 */
export function dbfReader(
  columns: readonly DbfColumn[],
  skip: ReadonlySet<string>,
  version: number,
  decode: DecodeText,
): (record: Buffer, number: number) => SourceRow {
  const isVisual = visualFoxPro.has(version)
  const flags = columns.find(({ type }) => type === nullFlags)
  // A column of variable length has two bits: one for its length, then one for null.
  const bits = columns
    .filter(({ type }) => type !== nullFlags)
    .flatMap((column) => [
      ...(ofVariableLength.has(column.type) ? [undefined] : []),
      ...(column.isNullable ? [column] : []),
    ])
  const read = columns
    .filter(({ name, type }) => type !== nullFlags && !skip.has(name))
    .map((column) => ({ column, toValue: valueReader(column, isVisual, decode) }))
  if (read.length === 0) throw new SourceError({ code: 'DBF_NOTHING_READ' })

  const isNull = (record: Buffer, column: DbfColumn): boolean => {
    const bit = bits.indexOf(column)
    if (!flags || bit === -1) return false
    return ((record[flags.offset + (bit >> 3)] ?? 0) & (1 << (bit & 7))) !== 0
  }
  return (record, number) =>
    // An assignment to a column named __proto__ would not create a field.
    Object.fromEntries(
      read.map(({ column, toValue }) => {
        if (isNull(record, column)) return [column.name, null]
        const bytes = record.subarray(column.offset, column.offset + column.length)
        const value = toValue(bytes)
        if (value !== undefined && value !== noCodePage) return [column.name, value]
        const data = { column: column.name, record: number }
        // Without a code page no other text is readable either.
        if (value === noCodePage) throw new SourceError({ code: 'DBF_NO_CODE_PAGE', data })
        const why: Reason = { code: 'DBF_NO_VALUE', data: { ...data, type: column.type } }
        return [column.name, new UnreadableValue(why)]
      }),
    )
}

/** The reader returns undefined for a value that is invalid for the type. */
function valueReader(
  { name, type, length }: DbfColumn,
  isVisual: boolean,
  decode: DecodeText,
): (bytes: Buffer) => unknown {
  switch (type) {
    case 'C':
      return (bytes) => {
        const text = decode(bytes)
        return typeof text === 'string' ? text.replace(/[ \0]+$/, '') : text
      }
    case 'N':
    case 'F':
      return (bytes) => decimalText(plain(bytes))
    case 'D':
      return (bytes) => (plain(bytes) === '' ? null : dateOf(plain(bytes), 'yyyymmdd'))
    case 'L':
      return logical
    case 'I':
      if (length === 4) return (bytes) => bytes.readInt32LE(0)
      break
    case 'Y':
      if (length === 8) return (bytes) => currency(bytes.readBigInt64LE(0))
      break
    case 'T':
      if (length === 8) return dateTime
      break
    case 'B':
      // Other dBase versions use type B for binary memos.
      if (isVisual && length === 8) return (bytes) => finite(bytes.readDoubleLE(0))
      break
  }
  const data = { column: name, skip: `{ skip: [${name}] }` }
  if (memos.has(type) || type === 'B') throw new SourceError({ code: 'DBF_MEMO', data })
  const shown: Reason | string = /^[A-Z@+]$/.test(type) ? type : { code: 'UNKNOWN' }
  throw new SourceError({ code: 'DBF_TYPE_UNREAD', data: { ...data, type: shown } })
}

function plain(bytes: Buffer): string {
  return bytes.toString('latin1').replaceAll('\0', ' ').trim()
}

/**
 * The exact decimal as written; null for an empty field. Stars mean that the number was too long for the column. An exponent
 * means the same: FoxPro writes only the first digits of such a number.
 */
function decimalText(text: string): string | null | undefined {
  if (text === '') return null
  const [, sign = '', whole = '', fraction] =
    /^([+-]?)(\d*)(?:\.(\d*))?$/.exec(text) ?? /^([+-]?)(\d+)$/.exec(text) ?? []
  if (whole === '' && (fraction ?? '') === '') return undefined
  const kept = whole.replace(/^0+(?=\d)/, '') || '0'
  const made = fraction ? `${kept}.${fraction}` : kept
  return sign === '-' && /[1-9]/.test(made) ? `-${made}` : made
}

function logical(bytes: Buffer): boolean | null | undefined {
  const sign = plain(bytes).toUpperCase()
  if (sign === '' || sign === '?') return null
  if (sign === 'T' || sign === 'Y' || sign === 'S') return true
  return sign === 'F' || sign === 'N' ? false : undefined
}

/** The value is a whole number of ten-thousandths. */
function currency(units: bigint): string {
  const digits = (units < 0n ? -units : units).toString().padStart(5, '0')
  return `${units < 0n ? '-' : ''}${digits.slice(0, -4)}.${digits.slice(-4)}`
}

/** A Julian day and the milliseconds of the day, in local time without a zone. */
function dateTime(bytes: Buffer): string | null | undefined {
  const [day, ms] = [bytes.readUInt32LE(0), bytes.readUInt32LE(4)]
  if (day === 0 && ms === 0) return null
  // FoxPro's value may be wrong by one millisecond.
  const date = new Date((day - unixEpochJulianDay) * dayMs + Math.round(ms / 1_000) * 1_000)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().slice(0, 19)
}

function finite(value: number): number | undefined {
  return Number.isFinite(value) ? value : undefined
}
