import type { Flow } from '../definition/schema.ts'
import { SourceError, type SourceRow, UnreadableValue } from '../types.ts'
import { maxRecordCharacters } from './record-limits.ts'

type Fixed = NonNullable<Extract<Flow['source'], { type: 'file' }>['fixed']>
type Column = Fixed['columns'][number]

/**
 * The records of a file with fixed-width columns, one record per line. Empty lines are ignored. Numbers are exact text. A value
 * that its column's type cannot have is an UnreadableValue. Throws SourceError with the line for one that is too short.
 */
export async function* fixedRecords(
  text: AsyncIterable<string>,
  { columns, skipLines, mayEndEarly }: Fixed,
): AsyncGenerator<SourceRow> {
  const width = Math.max(...columns.map(({ start, length }) => start - 1 + length))
  let number = skipLines
  for await (const line of linesOf(text, number)) {
    number += 1
    if (line.trim() === '') continue
    if (line.length < width && !mayEndEarly) {
      const data = { length: line.length, line: number, width }
      throw new SourceError({ code: 'FIXED_LINE_SHORT', data })
    }
    // An assignment to a column named __proto__ would not create a field.
    yield Object.fromEntries(columns.map((column) => [column.name, valueIn(line, column, number)]))
  }
}

function valueIn(line: string, column: Column, number: number): string | null | UnreadableValue {
  const { name, start, length, type } = column
  const text = line.slice(start - 1, start - 1 + length).trim()
  if (type === 'text') return text
  if (text === '') return null
  const value = type === 'date' ? dateOf(text, column.form) : numberOf(text, column)
  if (value !== undefined) return value
  const data = { column: JSON.stringify(name), line: number, type }
  return new UnreadableValue({ code: misfits[type], data })
}

const misfits = {
  integer: 'FIXED_NO_WHOLE_NUMBER',
  decimal: 'FIXED_NO_NUMBER',
  decimalComma: 'FIXED_NO_NUMBER',
  date: 'FIXED_NO_DATE',
} as const

const comma = /^\d+(?:,\d+)?$|^(?!0\.)\d{1,3}(?:\.\d{3})+(?:,\d+)?$/

/** Exact decimal text. The sign may follow the digits, as in files of COBOL programs. */
function numberOf(text: string, { type, decimals }: Column): string | undefined {
  const [, before = '', digits = '', behind = ''] = /^([+-]?)\s*([\d.,]+)([+-]?)$/.exec(text) ?? []
  if (digits === '' || (before !== '' && behind !== '')) return undefined
  const plain = plainDigits(digits, type, decimals)
  if (plain === undefined) return undefined
  const [whole = '', fraction] = plain.split('.')
  const kept = whole.replace(/^0+(?=\d)/, '') || '0'
  const made = fraction === undefined ? kept : `${kept}.${fraction}`
  return (before || behind) === '-' && /[1-9]/.test(made) ? `-${made}` : made
}

function plainDigits(digits: string, type: Column['type'], decimals: number | undefined) {
  if (type === 'integer') return /^\d+$/.test(digits) ? digits : undefined
  if (type === 'decimalComma') {
    return comma.test(digits) ? digits.replaceAll('.', '').replace(',', '.') : undefined
  }
  if (!/^(?:\d+(?:\.\d*)?|\.\d+)$/.test(digits)) return undefined
  if (digits.includes('.') || !decimals) return digits.replace(/\.$/, '')
  const padded = digits.padStart(decimals + 1, '0')
  return `${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`
}

/** `2026-01-31`; null for zeros, which mean no date; undefined for an invalid date. */
export function dateOf(text: string, form: Column['form']): string | null | undefined {
  if (/^[0/]+$/.test(text)) return null
  const parts =
    form === 'yyyymmdd'
      ? /^(?<y>\d{4})(?<m>\d\d)(?<d>\d\d)$/.exec(text)
      : /^(?<d>\d\d)\/?(?<m>\d\d)\/?(?<y>\d{4})$/.exec(text)
  if (!parts?.groups || (form === 'dd/mm/yyyy') !== text.includes('/')) return undefined
  const { y, m, d } = parts.groups
  const date = new Date(`${y}-${m}-${d}T00:00:00Z`)
  const iso = `${y}-${m}-${d}`
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(iso) ? iso : undefined
}

/**
 * Splits chunks of text into lines without their ends (LF, CRLF or CR). `before` is the number of earlier lines, for messages.
 * Throws SourceError for a line that is too long for a record.
 */
async function* linesOf(text: AsyncIterable<string>, before: number): AsyncGenerator<string> {
  let rest = ''
  let number = before + 1
  for await (const piece of text) {
    const buffered = rest + piece
    // A CR at the end of a chunk may be the first half of a CRLF.
    const lines = buffered.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      yield line
      number += 1
    }
    if (rest.length > maxRecordCharacters) {
      throw new SourceError({
        code: 'LINE_TOO_LONG',
        data: { most: maxRecordCharacters, line: number },
      })
    }
  }
  if (rest !== '') yield rest.replace(/\r$/, '')
}
