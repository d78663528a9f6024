import { SourceError, type SourceRow } from '../types.ts'
import { dateOf } from './file-fixed.ts'

export type DbfColumn = {
  name: string
  type: string
  /** Of its first byte in the record. */
  offset: number
  length: number
  isNullable: boolean
}

/** Of texts; undefined when it is not known how they are written. */
type DecodeText = (bytes: Buffer) => string | undefined

const visualFoxPro = new Set([0x30, 0x31, 0x32])
const memos = new Set(['M', 'G', 'P', 'W'])
const nullFlags = '0'
/** Varchar and Varbinary of Visual FoxPro 9. */
const ofVariableLength = new Set(['V', 'Q'])
const unixEpochJulianDay = 2_440_588
const dayMs = 86_400_000

/** Makes the function that reads records. Throws SourceError, with the name of the column, for a type that is not read. */
export function dbfReader(
  columns: readonly DbfColumn[],
  skip: ReadonlySet<string>,
  version: number,
  decode: DecodeText,
): (record: Buffer, number: number) => SourceRow {
  const isVisual = visualFoxPro.has(version)
  const flags = columns.find(({ type }) => type === nullFlags)
  // One of variable length has a bit for its length before the one that says that it is null.
  const bits = columns
    .filter(({ type }) => type !== nullFlags)
    .flatMap((column) => [
      ...(ofVariableLength.has(column.type) ? [undefined] : []),
      ...(column.isNullable ? [column] : []),
    ])
  const read = columns
    .filter(({ name, type }) => type !== nullFlags && !skip.has(name))
    .map((column) => ({ column, toValue: valueReader(column, isVisual, decode) }))
  if (read.length === 0) throw new SourceError('has no column that is read')

  const isNull = (record: Buffer, column: DbfColumn): boolean => {
    const bit = bits.indexOf(column)
    if (!flags || bit === -1) return false
    return ((record[flags.offset + (bit >> 3)] ?? 0) & (1 << (bit & 7))) !== 0
  }
  return (record, number) =>
    // fromEntries, since an assignment to a column named __proto__ would not make a field.
    Object.fromEntries(
      read.map(({ column, toValue }) => {
        if (isNull(record, column)) return [column.name, null]
        const bytes = record.subarray(column.offset, column.offset + column.length)
        const value = toValue(bytes)
        if (value !== undefined) return [column.name, value]
        throw new SourceError(
          column.type === 'C'
            ? `does not name its code page, and record ${number} has a letter beyond ASCII in the column ${column.name} (dbf.encoding)`
            : `has no value of type ${column.type} in the column ${column.name}, record ${number}`,
        )
      }),
    )
}

/** The reader answers undefined for what is no value of the type. */
function valueReader(
  { name, type, length }: DbfColumn,
  isVisual: boolean,
  decode: DecodeText,
): (bytes: Buffer) => unknown {
  switch (type) {
    case 'C':
      return (bytes) => decode(bytes)?.replace(/[ \0]+$/, '')
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
      // Elsewhere it is a memo of bytes.
      if (isVisual && length === 8) return (bytes) => finite(bytes.readDoubleLE(0))
      break
  }
  if (memos.has(type) || type === 'B') {
    throw new SourceError(
      `has the memo ${name}, which stands in another file and is not read; leave it out by dbf: { skip: [${name}] }`,
    )
  }
  throw new SourceError(
    `has the column ${name} of a type that is not read (${/^[A-Z@+]$/.test(type) ? type : 'unknown'}); leave it out by dbf: { skip: [${name}] }`,
  )
}

function plain(bytes: Buffer): string {
  return bytes.toString('latin1').replaceAll('\0', ' ').trim()
}

/** Exact, as it is written; nothing is null. Stars stand for a number that had no room. */
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

/** A whole number of ten thousandths. */
function currency(units: bigint): string {
  const digits = (units < 0n ? -units : units).toString().padStart(5, '0')
  return `${units < 0n ? '-' : ''}${digits.slice(0, -4)}.${digits.slice(-4)}`
}

/** A Julian day and the milliseconds of the day, by a clock on the wall. */
function dateTime(bytes: Buffer): string | null | undefined {
  const [day, ms] = [bytes.readUInt32LE(0), bytes.readUInt32LE(4)]
  if (day === 0 && ms === 0) return null
  // FoxPro may be a millisecond off.
  const date = new Date((day - unixEpochJulianDay) * dayMs + Math.round(ms / 1_000) * 1_000)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().slice(0, 19)
}

function finite(value: number): number | undefined {
  return Number.isFinite(value) ? value : undefined
}
