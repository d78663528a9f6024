import { pipeline, Readable } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { SourceError, type SourceRow } from '../types.ts'
import { withoutLongLines } from './csv-lines.ts'
import { maxColumns, maxRecordCharacters } from './limits.ts'

/** What is not given is as in plain CSV. `keyFields` are the columns of the key, in which a point may be no more than a part of a code. */
export type CsvForm = {
  delimiter: string
  decimalComma: boolean | readonly string[]
  /** Names of the columns where the file has no header. */
  columns?: readonly string[] | undefined
  /** Lines that were left out before the text began, for messages. */
  skipLines?: number
  quotes?: 'strict' | 'loose' | 'none'
  trailingDelimiter?: boolean
  keyFields: readonly string[]
}

/**
 * The records of a CSV file with a header, or with the names that are given (RFC 4180; LF, CRLF or CR, also mixed; empty lines
 * do not count). All values are texts. A first line `sep=;`, as Excel writes it, names the delimiter. Empty values at the end of a
 * line may be left out, or be too many. Throws SourceError for a header without a name or with a name twice, for a record with too
 * many values or without its key, for a short last line without its end, and for quotes that do not fit: such a file was cut off or has another delimiter.
 */
export async function* csvRecords(
  text: AsyncIterable<string>,
  form: CsvForm,
): AsyncGenerator<SourceRow> {
  const { decimalComma, keyFields, quotes, trailingDelimiter } = form
  const opened = await withoutSeparatorLine(text)
  const delimiter = opened.delimiter ?? form.delimiter
  const skipLines = (form.skipLines ?? 0) + (opened.delimiter === undefined ? 0 : 1)
  let lastCharacter = ''
  async function* watched() {
    for await (const piece of opened.text) {
      lastCharacter = piece.at(-1) ?? lastCharacter
      yield piece
    }
  }
  const parser = parse({
    delimiter,
    // All of them, since several programs may have written the file; the parser by itself goes by the first it meets.
    record_delimiter: ['\r\n', '\n', '\r'],
    info: true,
    // Lengths are compared below, where it is known which line is the last.
    relax_column_count: true,
    relax_quotes: quotes === 'loose',
    ...(quotes === 'none' && { quote: false as const }),
    skip_empty_lines: true,
    // A quote that is never closed would otherwise swallow the file into memory.
    max_record_size: maxRecordCharacters,
  })
  let names: string[] | undefined
  let values: ((cell: string) => string)[] = []
  // One that has its columns takes a value for each also where one is named __proto__, and costs a third of fromEntries.
  let blank: SourceRow = {}
  const setNames = (given: readonly string[]) => {
    names = checkHeader(given)
    values = names.map((name) => cellReader(name, decimalComma, keyFields))
    blank = Object.fromEntries(names.map((name) => [name, '']))
    return names
  }
  if (form.columns) setNames(form.columns)
  let short: { row: SourceRow; line: number } | undefined
  const otherCount = (line: number) =>
    new SourceError(
      `has a record with another number of values than the ${form.columns ? 'names of csv.columns' : 'header'}, at line ${line}`,
    )
  const columnAt = (index: number) => {
    const name = names?.[index]
    return name === undefined ? undefined : JSON.stringify(name.slice(0, 128))
  }
  const lines = withoutLongLines(watched(), delimiter, columnAt)
  // The outcome reaches the loop below as the end or the error of the parser.
  pipeline(Readable.from(lines), parser, () => undefined)
  try {
    for await (const { record, info } of parser as AsyncIterable<CsvLine>) {
      const line = info.lines + skipLines
      const cells = trailingDelimiter ? withoutEmptyEnd(record, line) : record
      if (!names) {
        setNames(cells)
        continue
      }
      if (short) yield short.row
      short = undefined
      const isShort = cells.length < names.length
      if (isShort ? lacksKey(names.slice(cells.length), keyFields) : hasMore(cells, names.length)) {
        throw otherCount(line)
      }
      const row = { ...blank }
      for (let index = 0; index < Math.min(names.length, cells.length); index += 1) {
        const cell = cells[index] as string
        row[names[index] as string] = values[index]?.(cell) ?? cell
      }
      // The last line of a file may be cut within a record.
      if (isShort) short = { row, line }
      else yield row
    }
    if (short && lastCharacter !== '\n' && lastCharacter !== '\r') throw otherCount(short.line)
    if (short) yield short.row
  } catch (error) {
    if (error instanceof CsvError) throw new SourceError(reasonOf(error, skipLines, columnAt))
    throw error
  } finally {
    parser.destroy()
  }
  if (!names) throw new SourceError('is empty: not even a header')
}

/** Where values at the end are left out, the key has to be there all the same. */
function lacksKey(missing: readonly string[], keyFields: readonly string[]): boolean {
  return missing.some((name) => keyFields.includes(name))
}

function hasMore(cells: readonly string[], count: number): boolean {
  return cells.slice(count).some((cell) => cell !== '')
}

const longestSeparatorLine = 16

/** A text without the line that tells Excel the delimiter, and that delimiter. */
async function withoutSeparatorLine(
  text: AsyncIterable<string>,
): Promise<{ text: AsyncIterable<string>; delimiter?: string }> {
  const pieces = text[Symbol.asyncIterator]()
  let begun = ''
  while (begun.length < longestSeparatorLine && !/[\r\n]./s.test(begun)) {
    const next = await pieces.next()
    if (next.done) break
    begun += next.value
  }
  const [line, delimiter] = /^"?sep=([^\r\n"]{1,4})"?(?:\r\n|\r|\n)/i.exec(begun) ?? []
  async function* rest() {
    const kept = begun.slice(line?.length ?? 0)
    if (kept !== '') yield kept
    yield* { [Symbol.asyncIterator]: () => pieces }
  }
  return { text: rest(), ...(delimiter !== undefined && { delimiter }) }
}

type CsvLine = { record: string[]; info: { lines: number } }

function withoutEmptyEnd(cells: readonly string[], line: number): readonly string[] {
  if (cells.at(-1) === '') return cells.slice(0, -1)
  throw new SourceError(
    `has no delimiter behind the last value at line ${line} (csv.trailingDelimiter)`,
  )
}

function checkHeader(cells: readonly string[]): string[] {
  if (cells.length > maxColumns) {
    throw new SourceError(`has ${cells.length} columns in its header; ${maxColumns} are the most`)
  }
  const names = new Set<string>()
  for (const [index, cell] of cells.entries()) {
    const name = cell.trim()
    if (name === '') throw new SourceError(`has no name for column ${index + 1} in its header`)
    if (names.has(name)) {
      throw new SourceError(`has the column ${JSON.stringify(name.slice(0, 128))} twice`)
    }
    names.add(name)
  }
  return [...names]
}

function cellReader(
  name: string,
  decimalComma: CsvForm['decimalComma'],
  keyFields: readonly string[],
): (cell: string) => string {
  if (typeof decimalComma !== 'boolean') return decimalComma.includes(name) ? withPoint : asItIs
  if (!decimalComma) return asItIs
  return keyFields.includes(name) ? (cell) => withPoint(cell, commaNumber) : withPoint
}

const asItIs = (cell: string) => cell
// No thousands begin with a zero alone: 0.500 is half of something to whoever wrote it.
const commaNumber = /^[+-]?(?:\d+|(?!0\.)\d{1,3}(?:\.\d{3})+),\d+$/
const commaOrGroups = /^[+-]?(?:\d+,\d+|(?!0\.)\d{1,3}(?:\.\d{3})+(?:,\d+)?)$/

/** "1.234,50" becomes "1234.50", and "1.234", which is a thousand and more to whoever writes a decimal comma, "1234". */
function withPoint(cell: string, form = commaOrGroups): string {
  const text = cell.trim()
  return form.test(text) ? text.replaceAll('.', '').replace(',', '.') : cell
}

/** csv-parse's own words, which quote no more than a character; `lines` and `index` are where the parser stood. */
function reasonOf(
  error: CsvError & { lines?: unknown; index?: unknown },
  skipLines: number,
  columnAt: (index: number) => string | undefined,
): string {
  const place = typeof error.lines === 'number' ? `line ${error.lines + skipLines}` : 'the end'
  switch (error.code) {
    case 'INVALID_OPENING_QUOTE':
      return `has a quote inside a value that is not quoted, at ${place}; such a value stands in quotes, and its own are doubled (csv.quotes)`
    case 'CSV_INVALID_CLOSING_QUOTE':
      return `has text behind a closing quote, at ${place}; a quote inside a quoted value is doubled`
    case 'CSV_QUOTE_NOT_CLOSED':
      return `has a quote that is not closed, at ${place}`
    case 'CSV_MAX_RECORD_SIZE':
      return `has a record longer than ${maxRecordCharacters} characters, at ${place}${inColumn(columnAt(Number(error.index)))}`
    default:
      return `is not well-formed CSV at ${place} (${error.code})`
  }
}

function inColumn(column: string | undefined): string {
  return column === undefined ? '' : `, in the column ${column}`
}
