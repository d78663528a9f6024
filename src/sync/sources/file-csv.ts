import { pipeline, Readable } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { SourceError, type SourceRow } from '../types.ts'

/** Longer than any record of an ERP; a quote that is never closed would otherwise swallow the file into memory. */
const maxRecordCharacters = 4 * 1024 * 1024

export type CsvForm = { delimiter: string; decimalComma: boolean }

/**
 * The records of a CSV file with a header (RFC 4180; LF, CRLF or CR; empty lines do not count). All values are texts.
 * Throws SourceError for a header without a name or with a name twice, for a record of another length, and for quotes
 * that do not fit: such a file was cut off or has another delimiter.
 */
export async function* csvRecords(
  text: AsyncIterable<string>,
  { delimiter, decimalComma }: CsvForm,
): AsyncGenerator<SourceRow> {
  const parser = parse({
    delimiter,
    skip_empty_lines: true,
    max_record_size: maxRecordCharacters,
  })
  // The outcome reaches the loop below as the end or the error of the parser.
  pipeline(Readable.from(text), parser, () => undefined)
  const value = decimalComma ? withPoint : (cell: string) => cell
  let names: string[] | undefined
  try {
    for await (const cells of parser as AsyncIterable<string[]>) {
      if (!names) names = checkHeader(cells)
      // fromEntries, since an assignment to a column named __proto__ would not make a field.
      else yield Object.fromEntries(names.map((name, index) => [name, value(cells[index] ?? '')]))
    }
  } catch (error) {
    if (error instanceof CsvError) throw new SourceError(reasonOf(error))
    throw error
  } finally {
    parser.destroy()
  }
  if (!names) throw new SourceError('is empty: not even a header')
}

function checkHeader(cells: readonly string[]): string[] {
  const names = cells.map((cell) => cell.trim())
  for (const [index, name] of names.entries()) {
    if (name === '') throw new SourceError(`has no name for column ${index + 1} in its header`)
    if (names.indexOf(name) !== index) {
      throw new SourceError(`has the column ${JSON.stringify(name.slice(0, 128))} twice`)
    }
  }
  return names
}

const commaNumber = /^[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+$/

/**
 * "1.234,50" becomes "1234.50". A value without a comma stays as it is, since "1.234" may as well be a code: a column
 * that has both is left as it is and read by the type decimalComma of `fields`, which knows that it holds numbers.
 */
function withPoint(cell: string): string {
  const text = cell.trim()
  return commaNumber.test(text) ? text.replaceAll('.', '').replace(',', '.') : cell
}

/** csv-parse's own words, which quote no more than a character; `lines` is where the parser stood. */
function reasonOf(error: CsvError & { lines?: unknown }): string {
  const place = typeof error.lines === 'number' ? `line ${error.lines}` : 'the end'
  switch (error.code) {
    case 'CSV_RECORD_INCONSISTENT_FIELDS_LENGTH':
      return `has a record with another number of values than the header, at ${place}`
    case 'INVALID_OPENING_QUOTE':
      return `has a quote inside a value that is not quoted, at ${place}; such a value stands in quotes, and its own are doubled`
    case 'CSV_INVALID_CLOSING_QUOTE':
      return `has text behind a closing quote, at ${place}; a quote inside a quoted value is doubled`
    case 'CSV_QUOTE_NOT_CLOSED':
      return `has a quote that is not closed, at ${place}`
    case 'CSV_MAX_RECORD_SIZE':
      return `has a record longer than ${maxRecordCharacters} characters, at ${place}`
    default:
      return `is not well-formed CSV at ${place} (${error.code})`
  }
}
