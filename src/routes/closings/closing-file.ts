import { setImmediate as nextTurn } from 'node:timers/promises'
import { stringify } from 'csv-stringify/sync'
import { signedPointFromCents } from '../../domain/money.ts'
import { wallClockOf } from '../../domain/time-zone.ts'
import { methodWord } from '../../payments/closings/line-texts.ts'
import type { ClosingNames, ListedCharge } from '../../payments/closings/list-charges.ts'
import type { ClosingRow } from '../../repositories/closings/closing-queries.ts'
import type { Language } from '../../texts/language.ts'
import { type TextKey, textIn } from '../../texts/texts.ts'

/** What the file of a closing is made from. */
export type ClosingFile = {
  closing: ClosingRow
  names: ClosingNames
  charges: readonly ListedCharge[]
}

type Word = Extract<TextKey, `closing.${string}`> extends `closing.${infer Name}` ? Name : never
/** The word of a closing's page and file, in the reader's language. */
export type Say = (word: Exclude<Word, `line.${string}`>) => string

export function closingWords(language: Language): Say {
  return (word) => textIn(language, `closing.${word}`)
}

type Value =
  | { kind: 'text'; text: string }
  | { kind: 'cents'; cents: number | null }
  | { kind: 'number'; number: number | null }
  | { kind: 'time'; at: Date }

type Column = { title: string; value: (charge: ListedCharge) => Value }

const text = (given: string | null | undefined): Value => ({ kind: 'text', text: given ?? '' })
const cents = (given: number | null | undefined): Value => ({ kind: 'cents', cents: given ?? null })

/** The columns, with titles in the reader's language. */
function columnsOf({ closing, names }: ClosingFile, language: Language): Column[] {
  const say = closingWords(language)
  const store = names.storeName ?? closing.sucursal_id
  const boxOf = (id: string | null) => (id === null ? '' : (names.boxNames.get(id) ?? id))
  return [
    { title: say('at'), value: ({ at }) => ({ kind: 'time', at }) },
    { title: say('store'), value: () => text(store) },
    { title: say('box'), value: ({ cajaId }) => text(boxOf(cajaId)) },
    { title: say('reference'), value: ({ reference }) => text(reference) },
    { title: say('medium'), value: ({ method }) => text(methodWord(method, language)) },
    {
      title: say('installments'),
      value: ({ installments: number }) => ({ kind: 'number', number }),
    },
    { title: say('amount'), value: ({ here }) => cents(here?.cents) },
    { title: say('refunded'), value: ({ here }) => cents(here?.refundedCents) },
    { title: say('thereAmount'), value: ({ there }) => cents(there?.cents) },
    { title: say('thereRefunded'), value: ({ there }) => cents(there?.refundedCents) },
    { title: say('net'), value: ({ there }) => cents(there?.netCents) },
    { title: say('difference'), value: ({ line }) => text(line && say(`kind.${line.kind}`)) },
    { title: say('orderId'), value: ({ orderId }) => text(orderId) },
    { title: say('paymentId'), value: ({ paymentId }) => text(paymentId) },
  ]
}

/** 100 rows take about a millisecond of the event loop. */
const rowsOfPart = 100

/**
 * All charges of a closing for a spreadsheet: UTF-8 with a mark at its begin, semicolons and decimal commas (English: commas and points),
 * times by the clock of the store. A text that a spreadsheet would run as a formula is marked as text. It is made in parts, between
 * which other requests go on, and no further once the client has disconnected.
 */
export async function* closingCsv(file: ClosingFile, language: Language): AsyncGenerator<string> {
  const columns = columnsOf(file, language)
  const isEnglish = language === 'en'
  const written = (value: Value): string => {
    if (value.kind === 'text') return value.text
    if (value.kind === 'time') return localTime(value.at, file.closing.time_zone)
    if (value.kind === 'number') return value.number === null ? '' : String(value.number)
    const point = value.cents === null ? '' : signedPointFromCents(value.cents)
    return isEnglish ? point : point.replace('.', ',')
  }
  const linesOf = (rows: string[][], bom: boolean) =>
    stringify(rows, {
      bom,
      delimiter: isEnglish ? ',' : ';',
      quoted: true,
      quoted_empty: true,
      record_delimiter: 'windows',
    })
  yield linesOf([columns.map(({ title }) => title)], true)
  for (let from = 0; from < file.charges.length; from += rowsOfPart) {
    await nextTurn()
    const part = file.charges.slice(from, from + rowsOfPart)
    const rows = part.map((charge) => columns.map(({ value }) => guarded(value(charge), written)))
    yield linesOf(rows, false)
  }
}

/** Amounts and times are written here, and a minus before an amount is no formula. */
function guarded(value: Value, written: (value: Value) => string): string {
  const given = written(value)
  return value.kind === 'text' && /^[=+\-@\t\r]/.test(given) ? `'${given}` : given
}

/** What a closing is of, in words and by the clock of its store: for the printed page. */
export function closingFacts(
  { closing, names }: Pick<ClosingFile, 'closing' | 'names'>,
  language: Language,
): [string, string][] {
  const say = closingWords(language)
  const at = (when: Date) => localTime(when, closing.time_zone)
  const state = say(`state.${closing.state}`)
  const result = closing.result ? ` (${say(`state.${closing.result}`)})` : ''
  const [year, month, day] = closing.business_day.split('-')
  const box = closing.caja_id
  const named = (name: string | null | undefined, id: string) =>
    name === null || name === undefined || name.includes(id) ? (name ?? id) : `${name} (${id})`
  return [
    [say('client'), closing.client],
    [say('store'), named(names.storeName, closing.sucursal_id)],
    ...(box === null
      ? []
      : [[say('box'), named(names.boxNames.get(box), box)] as [string, string]]),
    [say('day'), `${day}/${month}/${year}`],
    [say('span'), `${at(closing.from_at)} – ${at(closing.to_at)} (${closing.time_zone})`],
    [say('state'), `${state}${result}`],
    ...(closing.signed_at
      ? ([
          [say('signed'), at(closing.signed_at)],
          [say('signedBy'), names.signedBy ?? say('administrator')],
        ] as [string, string][])
      : []),
  ]
}

/** Identifies the closing also when a day has several of them, or one without charges. */
export function fileName(closing: ClosingRow): string {
  const { number, from_at: from, to_at: to, time_zone: timeZone } = closing
  const at = (when: Date) =>
    wallClockOf(timeZone).toWall(when).toISOString().slice(0, 16).replace(/[T:]/g, '-')
  return `closing-${number}-${at(from)}-${at(to)}.csv`
}

/** `21/11/2026 14:00`, by the clock of the store. */
export function localTime(at: Date, timeZone: string): string {
  const [date = '', time] = wallClockOf(timeZone).toWall(at).toISOString().slice(0, 16).split('T')
  const [year, month, day] = date.split('-')
  return `${day}/${month}/${year} ${time}`
}
