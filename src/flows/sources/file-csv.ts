import { pipeline, Readable } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import type { Reason } from '../../texts/reason.ts'
import { SourceError, type SourceRow, UnreadableValue } from '../types.ts'
import { type Backslash, plainQuotes } from './file-csv-quotes.ts'
import { maxColumns, maxRecordCharacters } from './record-limits.ts'

/** Options that are absent are those of plain CSV. In a column of `keyFields` a point may be part of a code. */
type CsvForm = {
  delimiter: string
  decimalComma: boolean | readonly string[]
  /** Column names of a file without a header. */
  columns?: readonly string[] | undefined
  /** Lines skipped before the text began; only for line numbers in messages. */
  skipLines?: number
  quotes?: 'strict' | 'loose' | 'none'
  trailingDelimiter?: boolean
  keyFields: readonly string[]
  /** The text once more, to find out what a backslash means. Without it a backslash is a letter. */
  again?: () => AsyncIterable<string>
  backslash?: Backslash
}

/**
 * The records of a CSV file (RFC 4180) with a header or with the given column names. All values are texts, or null for `\N`.
 *
 * - LF, CRLF and CR may be mixed. Empty lines are ignored.
 * - A first line `sep=;`, as Excel writes it, sets the delimiter.
 * - Empty values at the end of a line may be missing or surplus.
 * - `="00042"`, Excel's formula for a text, is 00042.
 * - A backslash within quotes escapes the next character, as MySQL writes it, where only this gives whole records.
 *
 * Throws SourceError for an unnamed or duplicate header column, an invalid record, an unterminated short last line and
 * unbalanced quotes. A record is invalid with too many values or without its key. Such a file is truncated or has another
 * delimiter.
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
    // Several programs may have written the file. By default the parser accepts only the line end that it finds first.
    record_delimiter: ['\r\n', '\n', '\r'],
    info: true,
    // The loop below compares lengths, because the parser cannot tell which line is the last.
    relax_column_count: true,
    relax_quotes: quotes === 'loose',
    ...(quotes === 'none' && { quote: false as const }),
    skip_empty_lines: true,
    // Without a limit, an unclosed quote would read the whole file into memory.
    max_record_size: maxRecordCharacters,
  })
  let names: string[] | undefined
  let values: CellReader[] = []
  // A copy of an object with all columns also accepts a column named __proto__. It costs a third of fromEntries.
  let blank: SourceRow = {}
  const setNames = (given: readonly string[]) => {
    names = checkHeader(given.map(withoutFormula))
    values = names.map((name) => cellReader(name, decimalComma, keyFields))
    blank = Object.fromEntries(names.map((name) => [name, '']))
    return names
  }
  if (form.columns) setNames(form.columns)
  let short: { row: SourceRow; line: number } | undefined
  const otherCount = (line: number) =>
    new SourceError({
      code: form.columns ? 'OTHER_COUNT_THAN_COLUMNS' : 'OTHER_COUNT_THAN_HEADER',
      data: { line },
    })
  const columnAt = (index: number) => {
    const name = names?.[index]
    return name === undefined ? undefined : JSON.stringify(name.slice(0, 128))
  }
  const lines = withoutLongLines(watched(), delimiter, columnAt)
  const meaning = async () => form.backslash ?? (await meaningOfBackslash(form))
  const plain =
    quotes === undefined || quotes === 'strict' ? plainQuotes(lines, delimiter, meaning) : lines
  // The loop below receives the parser's end or error.
  pipeline(Readable.from(plain), parser, () => undefined)
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
        row[names[index] as string] = (values[index] as CellReader)(cell, line)
      }
      // The last line of a file may be truncated.
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
  if (!names) throw new SourceError({ code: 'EMPTY_WITHOUT_HEADER' })
}

/**
 * Reads the text once more by each meaning. Both may give whole records, as for `"C:\\dir"`. Then a null of MySQL decides for
 * its escapes, and otherwise a backslash is a letter.
 */
async function meaningOfBackslash({ again, ...form }: CsvForm): Promise<Backslash> {
  if (!again) return 'letter'
  const nulls = async (backslash: Backslash): Promise<number | undefined> => {
    let found = 0
    try {
      for await (const row of csvRecords(again(), { ...form, backslash })) {
        if (Object.values(row).includes(null)) found += 1
      }
      return found
    } catch (error) {
      if (error instanceof SourceError) return undefined
      throw error
    }
  }
  if ((await nulls('letter')) === 0) return 'letter'
  const isWhole = (await nulls('escape')) !== undefined
  return isWhole ? 'escape' : 'letter'
}

/** A line may omit empty values at its end, but not its key. */
function lacksKey(missing: readonly string[], keyFields: readonly string[]): boolean {
  return missing.some((name) => keyFields.includes(name))
}

function hasMore(cells: readonly string[], count: number): boolean {
  return cells.slice(count).some((cell) => cell !== '')
}

const longestSeparatorLine = 16

/** Removes Excel's `sep=` line and returns its delimiter. */
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
  throw new SourceError({ code: 'NO_TRAILING_DELIMITER', data: { line } })
}

function checkHeader(cells: readonly string[]): string[] {
  if (cells.length > maxColumns) {
    const data = { columns: cells.length, most: maxColumns }
    throw new SourceError({ code: 'HEADER_TOO_WIDE', data })
  }
  const names = new Set<string>()
  for (const [index, cell] of cells.entries()) {
    const name = cell.trim()
    if (name === '') {
      throw new SourceError({ code: 'HEADER_WITHOUT_NAME', data: { column: index + 1 } })
    }
    if (names.has(name)) {
      const column = JSON.stringify(name.slice(0, 128))
      throw new SourceError({ code: 'COLUMN_NAMED_TWICE', data: { column } })
    }
    names.add(name)
  }
  return [...names]
}

const backslashCode = 0x5c
const equalsCode = 0x3d
/** `line` is for messages. */
type CellReader = (cell: string, line: number) => string | null | UnreadableValue

function cellReader(
  name: string,
  decimalComma: CsvForm['decimalComma'],
  keyFields: readonly string[],
): CellReader {
  const read = numberReader(name, decimalComma, keyFields)
  return (cell, line) => {
    const first = cell.charCodeAt(0)
    if (first === backslashCode && cell === '\\N') return null
    return read(first === equalsCode ? withoutFormula(cell) : cell, line)
  }
}

/** The text of a formula such as `="00042"`. Other cells, which include other formulas, stay as they are. */
function withoutFormula(cell: string): string {
  const [, text] = /^="((?:[^"]|"")*)"$/.exec(cell) ?? []
  return text?.replaceAll('""', '"') ?? cell
}

function numberReader(
  name: string,
  decimalComma: CsvForm['decimalComma'],
  keyFields: readonly string[],
): CellReader {
  if (typeof decimalComma !== 'boolean') {
    return decimalComma.includes(name) ? (cell, line) => numberIn(cell, name, line) : asItIs
  }
  if (!decimalComma) return asItIs
  return keyFields.includes(name)
    ? (cell) => withPoint(cell, commaNumber) ?? cell
    : (cell, line) => {
        const text = withPoint(cell, commaOrGroups)
        return text ?? (otherAmount.test(cell.trim()) ? notNumber(name, line) : cell)
      }
}

/** A column named in `decimalComma` has numbers only. */
function numberIn(cell: string, name: string, line: number): string | UnreadableValue {
  if (cell.trim() === '') return cell
  return withPoint(cell, numberOrGroups) ?? notNumber(name, line)
}

function notNumber(name: string, line: number): UnreadableValue {
  const data = { column: JSON.stringify(name), line, type: 'decimalComma' }
  return new UnreadableValue({ code: 'FIXED_NO_NUMBER', data })
}

const asItIs = (cell: string) => cell
// A group of thousands never starts with a lone zero: 0.500 means one half.
const commaNumber = /^[+-]?(?:\d+|(?!0\.)\d{1,3}(?:\.\d{3})+),\d+$/
const numberOrGroups = /^[+-]?(?:\d+|(?!0\.)\d{1,3}(?:\.\d{3})+)(?:,\d+)?$/
/** Digits with points and commas in another order, such as 1,234.50. */
const otherAmount = /^[+-]?(?=[\d.]*,)(?=[\d,]*\.)[\d.,]+$/
const commaOrGroups = /^[+-]?(?:\d+,\d+|(?!0\.)\d{1,3}(?:\.\d{3})+(?:,\d+)?)$/

/**
 * Converts "1.234,50" to "1234.50", and "1.234" (one thousand two hundred thirty-four with a decimal comma) to "1234". Undefined
 * for another form.
 */
function withPoint(cell: string, form: RegExp): string | undefined {
  const text = cell.trim()
  return form.test(text) ? text.replaceAll('.', '').replace(',', '.') : undefined
}

/** csv-parse's own message, which quotes at most one character. `lines` and `index` are the parser's position. */
function reasonOf(
  error: CsvError & { lines?: unknown; index?: unknown },
  skipLines: number,
  columnAt: (index: number) => string | undefined,
): Reason {
  const place: Reason =
    typeof error.lines === 'number'
      ? { code: 'THE_LINE', data: { line: error.lines + skipLines } }
      : { code: 'THE_END' }
  switch (error.code) {
    case 'INVALID_OPENING_QUOTE':
      return { code: 'CSV_QUOTE_INSIDE', data: { place } }
    case 'CSV_INVALID_CLOSING_QUOTE':
      return { code: 'CSV_TEXT_BEHIND_QUOTE', data: { place } }
    case 'CSV_QUOTE_NOT_CLOSED':
      return { code: 'CSV_QUOTE_OPEN', data: { place } }
    case 'CSV_MAX_RECORD_SIZE':
      return {
        code: 'CSV_RECORD_TOO_LONG',
        data: { most: maxRecordCharacters, place, column: columnAt(Number(error.index)) },
      }
    default:
      return { code: 'CSV_MALFORMED', data: { place, code: error.code } }
  }
}

/**
 * Passes CSV text on and throws SourceError for a line that is too long. The parser limits the characters in cells, so a line
 * of separators alone would have no limit. The error names the line and its longest column; `columnAt` gives the column names
 * known so far.
 */
async function* withoutLongLines(
  text: AsyncIterable<string>,
  delimiter: string,
  columnAt: (index: number) => string | undefined,
): AsyncGenerator<string> {
  let line: string[] = []
  let length = 0
  let number = 1
  for await (const piece of text) {
    const first = piece.search(/[\r\n]/)
    const more = first === -1 ? piece.length : first
    length += more
    line.push(first === -1 ? piece : piece.slice(0, first))
    if (length > maxRecordCharacters) {
      const column = columnAt(longestCell(line.join(''), delimiter))
      const data = { most: maxRecordCharacters, line: number, column }
      throw new SourceError({ code: 'CSV_LINE_TOO_LONG', data })
    }
    if (first !== -1) {
      const last = Math.max(piece.lastIndexOf('\n'), piece.lastIndexOf('\r'))
      line = [piece.slice(last + 1)]
      length = piece.length - last - 1
      number += countOf(piece, piece.includes('\n') ? '\n' : '\r')
    }
    yield piece
  }
}

function countOf(text: string, character: string): number {
  let count = 0
  for (let at = text.indexOf(character); at !== -1; at = text.indexOf(character, at + 1)) count += 1
  return count
}

/** Approximate, for a message: a cell is quoted when it begins with a quote. */
function longestCell(line: string, delimiter: string): number {
  let longest = 0
  let most = -1
  let index = 0
  for (let from = 0; from <= line.length; index += 1) {
    const closing = line[from] === '"' ? line.indexOf(`"${delimiter}`, from + 1) : from
    const end = closing === -1 ? -1 : line.indexOf(delimiter, closing)
    const until = end === -1 ? line.length : end
    if (until - from > most) [longest, most] = [index, until - from]
    from = until + delimiter.length
  }
  return longest
}
