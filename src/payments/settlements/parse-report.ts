import { pipeline, Readable } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import {
  centsOfReport,
  dayOfReport,
  reportZone,
  type TaxPart,
  taxesOfCell,
  timeOfReport,
} from './report-amounts.ts'
import { englishColumn } from './spanish-report-columns.ts'

/** An error in a report, for the person who uploaded it. */
export class ReportError extends Error {}

export type ReportKind = 'settlement' | 'release'

/** A line of a report. Amounts have the sign of the seller's balance: a fee is negative. */
export type ReportLine = {
  line: number
  report: ReportKind
  sourceId: string
  /** TRANSACTION_TYPE or RECORD_TYPE, as the report writes it. */
  type: string
  /** DESCRIPTION or TAX_DETAIL. */
  detail: string
  /** Null when the report has no such column. */
  at: Date | null
  mpOrderId: string | null
  externalReference: string | null
  /** These four are null when the report has no such column. */
  grossCents: number | null
  feeCents: number | null
  financingCents: number | null
  taxesCents: number | null
  taxes: TaxPart[]
  netCents: number
  releaseOn: string | null
  isReleased: boolean | null
  installments: number | null
  /** Other columns of amounts that are not zero, as the report writes them. */
  others: Record<string, string>
}

/** Far more than any line of a report; an unclosed quote would otherwise consume the file. */
const longestLine = 65_536
const mostColumns = 500
const delimiters = [',', ';', '|', '\t']

const required: Record<ReportKind, readonly string[]> = {
  settlement: ['SOURCE_ID', 'TRANSACTION_TYPE', 'TRANSACTION_AMOUNT', 'SETTLEMENT_NET_AMOUNT'],
  release: ['SOURCE_ID', 'RECORD_TYPE', 'NET_CREDIT_AMOUNT', 'NET_DEBIT_AMOUNT'],
}

/** Records of a release report that are movements, by the provider's glossary. */
const movements: ReadonlySet<string> = new Set(['release', 'block', 'unblock', 'fullblock'])

/** Records of a release report that are balances and sums, not movements. */
const balances: ReadonlySet<string> = new Set([
  'initial_available_balance',
  'subtotal',
  'total',
  'available_balance',
])

/** Amounts that are read by name, and those that repeat others or are not the seller's money. */
const knownAmounts: ReadonlySet<string> = new Set([
  'TRANSACTION_AMOUNT',
  'SETTLEMENT_NET_AMOUNT',
  'REAL_AMOUNT',
  'FEE_AMOUNT',
  'MP_FEE_AMOUNT',
  'FINANCING_FEE_AMOUNT',
  'TAXES_AMOUNT',
  'NET_CREDIT_AMOUNT',
  'NET_DEBIT_AMOUNT',
  'GROSS_AMOUNT',
  'BALANCE_AMOUNT',
])

/** Which columns a report of this kind lacks. */
export function missingColumns(report: ReportKind, columns: readonly string[]): string[] {
  return required[report].filter((name) => !columns.includes(name))
}

/**
 * The movements of a settlement or release report (CSV). It accepts a byte order mark, four separators and a decimal comma. Lists
 * of taxes may be JSON without quotes, in a quoted cell or bare between separators. `offset` is that of times without one.
 * `onHeader` receives the kind of the report, which may have no movement.
 *
 * @throws ReportError with the line: a file is read completely or not at all
 */
export async function* parseReport(
  text: AsyncIterable<string> | Iterable<string>,
  offset = reportZone,
  onHeader: (report: ReportKind) => void = () => undefined,
): AsyncGenerator<ReportLine> {
  const parts = toIterator(text)
  const { delimiter, rest } = await findDelimiter(parts)
  const parser = parse({
    delimiter,
    bom: true,
    skip_empty_lines: true,
    relax_column_count: true,
    relax_quotes: true,
    info: true,
    max_record_size: longestLine,
  })
  // The loop below gets the result as the end or the error of the parser.
  pipeline(Readable.from(doubleQuotes(rest, delimiter)), parser, () => undefined)
  let header: Header | undefined
  try {
    for await (const { record, info } of parser as AsyncIterable<Parsed>) {
      if (header === undefined) {
        header = headerOf(record)
        onHeader(header.report)
        continue
      }
      const cells = joinLists(record, delimiter, header.names.length)
      checkCells(header.names, cells, info.lines)
      const line = lineOf(header, cells, info.lines, offset)
      if (line) yield line
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    throw notWellFormed(error, header)
  } finally {
    parser.destroy()
  }
  if (header === undefined) throw new ReportError('The report is empty: not even a header')
}

const expectedInstead: Partial<Record<CsvError['code'], string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote that ends the value',
  CSV_INVALID_CLOSING_QUOTE: 'a separator after the quote that ends a value',
  INVALID_OPENING_QUOTE: 'a quote at the beginning of a value only',
  CSV_MAX_RECORD_SIZE: `a line of at most ${longestLine} characters`,
}

function notWellFormed(error: CsvError, header: Header | undefined): ReportError {
  const { lines, column } = error as { lines?: unknown; column?: unknown }
  const name = typeof column === 'number' ? (header?.names[column] ?? column + 1) : column
  const at = lines === undefined ? 'its end' : `line ${String(lines)}`
  const place = name === undefined ? at : `${at}, column ${String(name).slice(0, 64)}`
  const expected = expectedInstead[error.code] ?? `well-formed CSV (${error.code})`
  return new ReportError(`The report cannot be read at ${place}: expected ${expected}`)
}

type Parsed = { record: string[]; info: { lines: number } }
type Header = {
  report: ReportKind
  names: string[]
  place: ReadonlyMap<string, number>
  /** Whether names were Spanish: then values may be, too. */
  isTranslated: boolean
}

function toIterator(text: AsyncIterable<string> | Iterable<string>): AsyncIterator<string> {
  return (async function* () {
    yield* text
  })()
}

/** The separator of the first line, and the text from its beginning. */
async function findDelimiter(
  parts: AsyncIterator<string>,
): Promise<{ delimiter: string; rest: AsyncIterable<string> }> {
  let begun = ''
  while (!/[\r\n]/.test(begun) && begun.length < longestLine) {
    const { value, done } = await parts.next()
    if (done) break
    begun += value
  }
  const [first = ''] = begun.split(/[\r\n]/, 1)
  const counted = delimiters.map((delimiter) => ({
    delimiter,
    count: first.split(delimiter).length,
  }))
  const { delimiter } = counted.reduce((best, next) => (next.count > best.count ? next : best))
  return {
    delimiter,
    rest: (async function* () {
      yield begun
      yield* { [Symbol.asyncIterator]: () => parts }
    })(),
  }
}

function headerOf(cells: readonly string[]): Header {
  if (cells.length > mostColumns) throw new ReportError('The header has too many columns')
  const names = cells.map(englishColumn)
  const isTranslated = cells.some((cell, index) => cell.trim().toUpperCase() !== names[index])
  // A separator at the end of each line adds a column without a name.
  const place = new Map<string, number>()
  for (const [index, name] of names.entries()) {
    if (name === '') continue
    if (place.has(name))
      throw new ReportError(`The header has the column ${name.slice(0, 64)} twice`)
    place.set(name, index)
  }
  const report = place.has('RECORD_TYPE') ? 'release' : 'settlement'
  const missing = missingColumns(report, [...place.keys()])
  if (missing.length > 0) {
    throw new ReportError(
      `This is no settlement report with English headers and no release report with English or Spanish ones: ${missing.join(', ')} is missing`,
    )
  }
  return { report, names, place, isTranslated }
}

/**
 * The text with the quotes doubled inside quoted cells of JSON, as CSV requires: the provider writes `"[{"amount":"-1"}]"`. Such
 * a cell differs from a well-formed one: there a quote is doubled or ends the cell. It ends where the JSON ends. A cell with
 * another end stays as it is, and is refused later (`checkCells`).
 */
async function* doubleQuotes(
  text: AsyncIterable<string>,
  delimiter: string,
): AsyncGenerator<string> {
  let begun = ''
  for await (const part of text) {
    begun += part
    // JSON has no line ends of its own, so whole lines are enough.
    const end = Math.max(begun.lastIndexOf('\n'), begun.lastIndexOf('\r')) + 1
    if (end === 0 && begun.length <= longestLine) continue
    const whole = end === 0 ? begun.length : end
    yield doubleQuotesOfLines(begun.slice(0, whole), delimiter)
    begun = begun.slice(whole)
  }
  yield doubleQuotesOfLines(begun, delimiter)
}

function doubleQuotesOfLines(text: string, delimiter: string): string {
  const opening = new RegExp(`(?:^|[${delimiter}\\r\\n])"(?= *[[{])`, 'g')
  const isEnd = (at: number) =>
    at >= text.length || [delimiter, '\r', '\n'].includes(text.charAt(at))
  let doubled = ''
  let copiedTo = 0
  while (opening.exec(text)) {
    const from = opening.lastIndex
    const quote = text.indexOf('"', from)
    const isWellFormed = quote < 0 || text[quote + 1] === '"' || isEnd(quote + 1)
    const to = isWellFormed ? undefined : endOfJson(text, from)
    if (isWellFormed) continue
    if (to === undefined || text[to] !== '"' || !isEnd(to + 1)) {
      // Its line is refused, so nothing more of it needs to be read here.
      const lineEnd = text.slice(from, from + longestLine).search(/[\r\n]/)
      opening.lastIndex = from + (lineEnd < 0 ? longestLine : lineEnd)
      continue
    }
    doubled += `${text.slice(copiedTo, from)}${text.slice(from, to).replaceAll('"', '""')}`
    copiedTo = to
    opening.lastIndex = to + 1
  }
  return doubled + text.slice(copiedTo)
}

/** Where the JSON that begins at a position ends; undefined when it is not JSON. */
function endOfJson(text: string, from: number): number | undefined {
  const token = /"(?:[^"\\\r\n]|\\[^\r\n])*"|["[\]{}\r\n]/g
  token.lastIndex = from
  let depth = 0
  for (let match = token.exec(text); match; match = token.exec(text)) {
    const [found] = match
    if (found === '[' || found === '{') depth += 1
    else if (found === ']' || found === '}') depth -= 1
    else if (found.length === 1) return undefined
    if (depth === 0) return isJson(text.slice(from, token.lastIndex)) ? token.lastIndex : undefined
  }
  return undefined
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Refuses a line with ambiguous cells, or with another number of cells than the header. */
function checkCells(names: readonly string[], cells: readonly string[], line: number): void {
  const broken = cells.findIndex((cell) => /^\s*"\s*[[{]/.test(cell))
  if (broken >= 0) {
    const name = names[broken] || String(broken + 1)
    throw new ReportError(
      `Line ${line}, column ${name.slice(0, 64)}: expected JSON in quotes, up to a quote and a separator`,
    )
  }
  if (cells.length === names.length) return
  const [missing, last] = [names[cells.length], names.findLast((name) => name !== '')]
  const wanted =
    missing === undefined
      ? `none after ${last}`
      : `a value for ${missing || `column ${cells.length + 1}`}`
  throw new ReportError(
    `Line ${line} has ${cells.length} values, and the header ${names.length}: expected ${wanted}`,
  )
}

/** A bare list between separators is split at its own commas: its pieces are joined again. */
function joinLists(cells: string[], delimiter: string, columns: number): string[] {
  if (cells.length <= columns) return cells
  const joined: string[] = []
  let open: string | undefined
  for (const cell of cells) {
    const text: string = open === undefined ? cell : `${open}${delimiter}${cell}`
    const isOpen = text.trimStart().startsWith('[') && !text.trimEnd().endsWith(']')
    open = isOpen ? text : undefined
    if (!isOpen) joined.push(text)
  }
  if (open !== undefined) joined.push(open)
  return joined
}

function lineOf(
  { report, names, place, isTranslated }: Header,
  cells: readonly string[],
  line: number,
  offset: string,
): ReportLine | undefined {
  const text = (name: string) => cells[place.get(name) ?? -1]?.trim() ?? ''
  const fail = (name: string, expected: string, got: string): never => {
    throw new ReportError(
      `Line ${line} has a ${name} that cannot be read: expected ${expected} (got "${got.slice(0, 64)}")`,
    )
  }
  const cents = (name: string) =>
    centsOfReport(text(name)) ?? fail(name, 'an amount such as 1234.50', text(name))
  const centsIfThere = (name: string) => (place.has(name) ? cents(name) : null)
  const firstOf = (...columns: string[]) => columns.map(text).find((cell) => cell !== '') ?? ''
  const times = ['TRANSACTION_DATE', 'DATE', 'SETTLEMENT_DATE']
  const time = firstOf(...times)
  const failTime = () =>
    fail(
      `date in ${times.find((name) => text(name) !== '')}`,
      'a time such as 2026-11-21T10:30:00.000-04:00',
      time,
    )
  const at = time === '' ? null : (timeOfReport(time, offset) ?? failTime())
  const taxes = text('TAXES_DISAGGREGATED')
  const released = text('IS_RELEASED').toLowerCase()
  const installments = /^\d{1,3}$/.test(text('INSTALLMENTS')) ? Number(text('INSTALLMENTS')) : null
  const common = {
    line,
    report,
    sourceId: text('SOURCE_ID'),
    at,
    mpOrderId: text('ORDER_MP') || null,
    externalReference: text('EXTERNAL_REFERENCE') || null,
    financingCents: centsIfThere('FINANCING_FEE_AMOUNT'),
    taxesCents: centsIfThere('TAXES_AMOUNT'),
    taxes:
      taxesOfCell(taxes) ??
      fail('TAXES_DISAGGREGATED', 'a list of taxes, each with an amount', taxes),
    installments,
    others: othersOf(names, cells),
  }
  if (report === 'settlement') {
    return asAccountMoves({
      ...common,
      type: text('TRANSACTION_TYPE'),
      detail: text('TAX_DETAIL'),
      grossCents: cents('TRANSACTION_AMOUNT'),
      feeCents: centsIfThere('FEE_AMOUNT'),
      netCents: cents('SETTLEMENT_NET_AMOUNT'),
      releaseOn: dayOfReport(text('MONEY_RELEASE_DATE'), offset),
      isReleased: released === '' ? null : /^(true|yes|1|si|sí)$/.test(released),
    })
  }
  const type = text('RECORD_TYPE').toLowerCase()
  if (balances.has(type)) return undefined
  // An unknown word may be a balance, which must not count as moved money.
  if (isTranslated && !movements.has(type)) {
    fail('RECORD_TYPE', `one of ${[...movements, ...balances].join(', ')}`, type)
  }
  return asAccountMoves({
    ...common,
    type: text('RECORD_TYPE'),
    detail: text('DESCRIPTION'),
    grossCents: text('GROSS_AMOUNT') === '' ? null : cents('GROSS_AMOUNT'),
    feeCents: centsIfThere('MP_FEE_AMOUNT'),
    netCents: cents('NET_CREDIT_AMOUNT') - cents('NET_DEBIT_AMOUNT'),
    releaseOn: dayOfReport(text('DATE'), offset),
    isReleased: true,
  })
}

/**
 * No page documents the sign of fees. Where they are given as positive deductions, they are negated: only then the net is right,
 * or a fee of a positive sale makes sense.
 */
function asAccountMoves(line: ReportLine): ReportLine {
  const { grossCents, feeCents, financingCents, taxesCents, netCents, taxes } = line
  const parts = [feeCents ?? 0, financingCents ?? 0, taxesCents ?? 0]
  const kept = parts.reduce((sum, cents) => sum + cents, 0)
  const gross = grossCents ?? 0
  const isMoved = gross + kept === netCents
  const isTaken = gross - kept === netCents || (gross > 0 && parts.every((cents) => cents >= 0))
  const turned = isTaken && !isMoved ? ({ ...line, ...turn(line) } as const) : line
  const named = taxes.reduce((sum, { cents }) => sum + cents, 0)
  // The list may have the opposite sign of the sum.
  const isContrary = named !== 0 && named === -(turned.taxesCents ?? named)
  const isUnsigned = named > 0 && turned.taxesCents === null && gross > 0
  return isContrary || isUnsigned
    ? { ...turned, taxes: taxes.map((tax) => ({ ...tax, cents: 0 - tax.cents })) }
    : turned
}

function turn({ feeCents, financingCents, taxesCents }: ReportLine) {
  const turned = (cents: number | null) => (cents === null ? null : 0 - cents)
  return {
    feeCents: turned(feeCents),
    financingCents: turned(financingCents),
    taxesCents: turned(taxesCents),
  }
}

function othersOf(names: readonly string[], cells: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name, index) => {
      const text = cells[index]?.trim() ?? ''
      const isListed =
        name.endsWith('_AMOUNT') && !knownAmounts.has(name) && centsOfReport(text) !== 0
      return isListed ? [[name.slice(0, 64), text.slice(0, 64)]] : []
    }),
  )
}
