import { stringify } from 'csv-stringify/sync'
import writeWorkbook, { type SheetData } from 'write-excel-file/node'
import type { Language } from '../../domain/language.ts'
import { type StoredSum, signedPointFromCents } from '../../domain/money.ts'
import { wallClockOf } from '../../domain/time-zone.ts'
import type { ClosingNames, ListedCharge } from '../../payments/closings/list-charges.ts'
import type { ClosingRow } from '../../repositories/closings/closing-queries.ts'
import { closingTexts, methodWord, type Words } from './closing-texts.ts'

/** What a file of a closing is made from. */
export type ClosingFile = {
  closing: ClosingRow
  names: ClosingNames
  charges: readonly ListedCharge[]
}

type Value =
  | { kind: 'text'; text: string }
  | { kind: 'cents'; cents: number | null }
  | { kind: 'number'; number: number | null }
  | { kind: 'time'; at: Date }

type Column = {
  title: string
  width: number
  isNumber?: true
  value: (charge: ListedCharge) => Value
}

const text = (given: string | null | undefined): Value => ({ kind: 'text', text: given ?? '' })
const cents = (given: number | null | undefined): Value => ({ kind: 'cents', cents: given ?? null })

/** The columns of both files, with titles in the reader's language. */
function columnsOf({ closing, names }: ClosingFile, say: Words): Column[] {
  const store = names.storeName ?? closing.sucursal_id
  const boxOf = (id: string | null) => (id === null ? '' : (names.boxNames.get(id) ?? id))
  return [
    { title: say.at, width: 17, value: ({ at }) => ({ kind: 'time', at }) },
    { title: say.store, width: 22, value: () => text(store) },
    { title: say.box, width: 16, value: ({ cajaId }) => text(boxOf(cajaId)) },
    { title: say.reference, width: 22, value: ({ reference }) => text(reference) },
    { title: say.medium, width: 14, value: ({ method }) => text(methodWord(method, say)) },
    {
      title: say.installments,
      width: 8,
      isNumber: true,
      value: ({ installments }) => ({ kind: 'number', number: installments }),
    },
    { title: say.amount, width: 14, isNumber: true, value: ({ here }) => cents(here?.cents) },
    {
      title: say.refunded,
      width: 14,
      isNumber: true,
      value: ({ here }) => cents(here?.refundedCents),
    },
    {
      title: say.thereAmount,
      width: 14,
      isNumber: true,
      value: ({ there }) => cents(there?.cents),
    },
    {
      title: say.thereRefunded,
      width: 14,
      isNumber: true,
      value: ({ there }) => cents(there?.refundedCents),
    },
    { title: say.net, width: 14, isNumber: true, value: ({ there }) => cents(there?.netCents) },
    { title: say.difference, width: 20, value: ({ line }) => text(line && say.kinds[line.kind]) },
    { title: say.orderId, width: 38, value: ({ orderId }) => text(orderId) },
    { title: say.paymentId, width: 18, value: ({ paymentId }) => text(paymentId) },
  ]
}

/**
 * All charges of a closing for a spreadsheet: UTF-8 with a mark at its begin, semicolons and decimal commas (English: commas and points),
 * times by the clock of the store. A text that a spreadsheet would run as a formula is marked as text.
 */
export function closingCsv(file: ClosingFile, language: Language): string {
  const columns = columnsOf(file, closingTexts[language])
  const isEnglish = language === 'en'
  const written = (value: Value): string => {
    if (value.kind === 'text') return value.text
    if (value.kind === 'time') return localTime(value.at, file.closing.time_zone)
    if (value.kind === 'number') return value.number === null ? '' : String(value.number)
    const point = value.cents === null ? '' : signedPointFromCents(value.cents)
    return isEnglish ? point : point.replace('.', ',')
  }
  const titles = columns.map(({ title }) => title)
  const rows = file.charges.map((charge) =>
    columns.map(({ value }) => guarded(value(charge), written)),
  )
  return stringify([titles, ...rows], {
    bom: true,
    delimiter: isEnglish ? ',' : ';',
    quoted: true,
    quoted_empty: true,
    record_delimiter: 'windows',
  })
}

/** Amounts and times are written here, and a minus before an amount is no formula. */
function guarded(value: Value, written: (value: Value) => string): string {
  const given = written(value)
  return value.kind === 'text' && /^[=+\-@\t\r]/.test(given) ? `'${given}` : given
}

/** The same as a workbook: a sheet with what the closing is and its totals, and one with every charge. */
export async function closingWorkbook(file: ClosingFile, language: Language): Promise<Buffer> {
  const say = closingTexts[language]
  const columns = columnsOf(file, say)
  // Two lines, over the numbers on the right.
  const head = columns.map(({ title, isNumber }) => ({
    value: title,
    fontWeight: 'bold' as const,
    wrap: true,
    height: 32,
    ...(isNumber && { align: 'right' as const }),
  }))
  const rows = file.charges.map((charge) =>
    columns.map(({ value }) => cellOf(value(charge), file.closing.time_zone)),
  )
  const facts: SheetData = closingFacts(file, language).map(([title, value]) => [
    { value: title, fontWeight: 'bold' },
    { value, type: String },
  ])
  const sheets = [
    {
      sheet: say.title,
      data: [...facts, [], ...totalRows(file, say)],
      columns: [{ width: 24 }, ...Array(5).fill({ width: 18 })],
      orientation: 'landscape' as const,
    },
    {
      sheet: say.charges,
      data: [head, ...rows],
      columns: columns.map(({ width }) => ({ width })),
      stickyRowsCount: 1,
      orientation: 'landscape' as const,
    },
  ]
  // Without a font of their own bold cells have another one than the rest.
  return writeWorkbook(sheets, {
    fontFamily: 'Calibri',
    fontSize: 11,
    features: [onePageWide],
  }).toBuffer()
}

/** On paper all columns are on one page. */
const onePageWide = {
  files: {
    transform: {
      'xl/worksheets/sheet{id}.xml': {
        transform: (content: string) =>
          content
            .replace(/<worksheet[^>]*>/, '$&<sheetPr><pageSetUpPr fitToPage="1"/></sheetPr>')
            .replace('<pageSetup ', '<pageSetup fitToWidth="1" fitToHeight="0" '),
      },
    },
  },
}

const moneyFormat = '#,##0.00'

function cellOf(value: Value, timeZone: string) {
  switch (value.kind) {
    case 'text':
      // The type keeps a text that looks like a formula a text.
      return value.text === '' ? null : { value: value.text, type: String }
    case 'number':
      return value.number === null ? null : { value: value.number, type: Number }
    case 'cents':
      return moneyCell(value.cents)
    case 'time':
      return {
        value: wallClockOf(timeZone).toWall(value.at),
        type: Date,
        format: 'dd/mm/yyyy hh:mm',
        align: 'left' as const,
      }
    default:
      return value satisfies never
  }
}

function moneyCell(sum: StoredSum | null) {
  if (sum === null) return null
  return { value: Number(signedPointFromCents(sum)), type: Number, format: moneyFormat }
}

function totalRows({ closing: { totals } }: ClosingFile, say: Words): SheetData {
  if (!totals) return []
  const { here, there, media } = totals
  // Over the numbers, which stand on the right.
  const bold = (value: string, place: number) => ({
    value,
    fontWeight: 'bold' as const,
    ...(place > 0 && { align: 'right' as const }),
  })
  return [
    ['', say.charges, say.amount, say.refunded, say.net].map(bold),
    [say.here, here.count, moneyCell(here.cents), moneyCell(here.refundedCents), null],
    [
      say.there,
      there.count,
      moneyCell(there.cents),
      moneyCell(there.refundedCents),
      moneyCell(there.netCents),
    ],
    [],
    [say.medium, say.here, say.there, say.declared].map(bold),
    ...media.map(({ medium, here, there, declaredCents }) => [
      methodWord(medium, say),
      moneyCell(here.cents),
      moneyCell(there.cents),
      moneyCell(declaredCents),
    ]),
  ]
}

/** What a closing is of, in words and by the clock of its store: for the sheet and the workbook. */
export function closingFacts(
  { closing, names }: Pick<ClosingFile, 'closing' | 'names'>,
  language: Language,
): [string, string][] {
  const say = closingTexts[language]
  const at = (when: Date) => localTime(when, closing.time_zone)
  const state = say.states[closing.state] ?? closing.state
  const result = closing.result ? ` (${say.states[closing.result] ?? closing.result})` : ''
  const [year, month, day] = closing.business_day.split('-')
  const box = closing.caja_id
  const named = (name: string | null | undefined, id: string) =>
    name === null || name === undefined || name.includes(id) ? (name ?? id) : `${name} (${id})`
  return [
    [say.client, closing.client],
    [say.store, named(names.storeName, closing.sucursal_id)],
    ...(box === null ? [] : [[say.box, named(names.boxNames.get(box), box)] as [string, string]]),
    [say.day, `${day}/${month}/${year}`],
    [say.span, `${at(closing.from_at)} – ${at(closing.to_at)} (${closing.time_zone})`],
    [say.state, `${state}${result}`],
    ...(closing.signed_at
      ? ([
          [say.signed, at(closing.signed_at)],
          [say.signedBy, names.signedBy ?? say.administrator],
        ] as [string, string][])
      : []),
  ]
}

/** Identifies the closing also when a day has several of them, or one without charges. */
export function fileName(closing: ClosingRow, ending: 'csv' | 'xlsx'): string {
  const { number, from_at: from, to_at: to, time_zone: timeZone } = closing
  const at = (when: Date) =>
    wallClockOf(timeZone).toWall(when).toISOString().slice(0, 16).replace(/[T:]/g, '-')
  return `closing-${number}-${at(from)}-${at(to)}.${ending}`
}

/** `21/11/2026 14:00`, by the clock of the store. */
export function localTime(at: Date, timeZone: string): string {
  const [date = '', time] = wallClockOf(timeZone).toWall(at).toISOString().slice(0, 16).split('T')
  const [year, month, day] = date.split('-')
  return `${day}/${month}/${year} ${time}`
}

const formats = new Map<Language, Intl.NumberFormat>()

/** `18.034,40` of an amount of the API; `–` for none. Intl takes the digits as text, so nothing is rounded. */
export function localAmount(point: string | null | undefined, language: Language): string {
  if (point === null || point === undefined) return '–'
  const locale = { es: 'es-AR', en: 'en', pt: 'pt-BR' }[language]
  const known = formats.get(language)
  const format = known ?? new Intl.NumberFormat(locale, { minimumFractionDigits: 2 })
  if (!known) formats.set(language, format)
  return format.format(point as Intl.StringNumericLiteral)
}
