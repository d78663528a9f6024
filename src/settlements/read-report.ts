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

/** What is wrong with a report, for whoever handed it in. */
export class ReportError extends Error {}

export type ReportKind = 'settlement' | 'release'

/** A line of a report. Amounts are signed as the seller's account moves: a fee is negative. */
export type ReportLine = {
  line: number
  report: ReportKind
  sourceId: string
  /** TRANSACTION_TYPE or RECORD_TYPE, in the report's own word. */
  type: string
  /** DESCRIPTION or TAX_DETAIL. */
  detail: string
  /** When it was; null when the report has no such column. */
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

export type ReportOptions = {
  /** The offset of times that carry none; GMT-4 is the provider's. */
  offset?: string
}

/** Far beyond any line of a report; a quote that is never closed would otherwise swallow the file. */
const longestLine = 65_536
const mostColumns = 500
const delimiters = [',', ';', '|', '\t']

const required: Record<ReportKind, readonly string[]> = {
  settlement: ['SOURCE_ID', 'TRANSACTION_TYPE', 'TRANSACTION_AMOUNT', 'SETTLEMENT_NET_AMOUNT'],
  release: ['SOURCE_ID', 'RECORD_TYPE', 'NET_CREDIT_AMOUNT', 'NET_DEBIT_AMOUNT'],
}

/** Records of a release report that are balances and sums, not movements. */
const balances: ReadonlySet<string> = new Set([
  'initial_available_balance',
  'total',
  'available_balance',
])

/** Amounts that are read by name, and those that say the same again or are no part of the seller's money. */
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

/** Whether the columns are enough for a report of a kind to be read. */
export function missingColumns(report: ReportKind, columns: readonly string[]): string[] {
  return required[report].filter((name) => !columns.includes(name))
}

/**
 * The movements of a settlement or release report (CSV), whichever of its quirks the file has: a byte order mark, one of four
 * separators, a decimal comma, and lists of taxes that are JSON without quotes, in a quoted cell or bare between separators.
 * Throws ReportError, naming the line: a file is read wholly or not at all.
 */
export async function* readReport(
  text: AsyncIterable<string> | Iterable<string>,
  { offset = reportZone }: ReportOptions = {},
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
  // The outcome reaches the loop below as the end or the error of the parser.
  pipeline(Readable.from(rest), parser, () => undefined)
  let header: Header | undefined
  try {
    for await (const { record, info } of parser as AsyncIterable<Parsed>) {
      if (header === undefined) {
        header = headerOf(record)
        continue
      }
      const cells = joinLists(record, delimiter, header.names.length)
      if (cells.length !== header.names.length) {
        throw new ReportError(
          `Line ${info.lines} has ${cells.length} values, and the header ${header.names.length}`,
        )
      }
      const line = lineOf(header, cells, info.lines, offset)
      if (line) yield line
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    const at = 'lines' in error ? `line ${String(error.lines)}` : 'its end'
    throw new ReportError(`The report is not well-formed CSV at ${at} (${error.code})`)
  } finally {
    parser.destroy()
  }
  if (header === undefined) throw new ReportError('The report is empty: not even a header')
}

type Parsed = { record: string[]; info: { lines: number } }
type Header = { report: ReportKind; names: string[]; place: ReadonlyMap<string, number> }

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
  const names = cells.map((cell) => cell.trim().toUpperCase())
  // A separator at the end of each line makes one more, without a name.
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
      `This is no settlement and no release report with English headers: ${missing.join(', ')} is missing`,
    )
  }
  return { report, names, place }
}

/** A list that stands bare between separators is cut at its own commas: its pieces are joined again. */
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
  { report, names, place }: Header,
  cells: readonly string[],
  line: number,
  offset: string,
): ReportLine | undefined {
  const text = (name: string) => cells[place.get(name) ?? -1]?.trim() ?? ''
  const fail = (name: string): never => {
    throw new ReportError(`Line ${line} has a ${name} that cannot be read`)
  }
  const cents = (name: string) => centsOfReport(text(name)) ?? fail(name)
  const centsIfThere = (name: string) => (place.has(name) ? cents(name) : null)
  const firstOf = (...columns: string[]) => columns.map(text).find((cell) => cell !== '') ?? ''
  const time = firstOf('TRANSACTION_DATE', 'DATE', 'SETTLEMENT_DATE')
  const at = time === '' ? null : (timeOfReport(time, offset) ?? fail('date'))
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
    taxes: taxesOfCell(text('TAXES_DISAGGREGATED')) ?? fail('TAXES_DISAGGREGATED'),
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
  if (balances.has(text('RECORD_TYPE').toLowerCase())) return undefined
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
 * No page says how fees are signed. Where they stand as what was taken, and not as what the account moved by, they are turned
 * round: that is what makes the net, or what a fee of a sale above zero can only mean.
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
  // The list may be signed the other way than the sum.
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
      const isTold =
        name.endsWith('_AMOUNT') && !knownAmounts.has(name) && centsOfReport(text) !== 0
      return isTold ? [[name.slice(0, 64), text.slice(0, 64)]] : []
    }),
  )
}
