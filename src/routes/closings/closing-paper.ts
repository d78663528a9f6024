import type { Language } from '../../domain/language.ts'
import { wallClockOf } from '../../domain/time-zone.ts'
import type { ClosingView, LineView } from './closing-view.ts'

/** The lines of a closing for a spreadsheet in Spanish or Portuguese: with semicolons and decimal commas. */
export function closingCsv(closing: ClosingView, language: Language): string {
  const { lines } = closing
  const isEnglish = language === 'en'
  const amount = (point: string | null | undefined) =>
    isEnglish ? (point ?? '') : (point ?? '').replace('.', ',')
  const columns: [string, (line: LineView) => string | null | undefined][] = [
    ['kind', ({ kind }) => kind],
    ['external_reference', (line) => line.external_reference],
    ['order_id', (line) => line.order_id],
    ['payment_id', (line) => line.payment_id],
    ['here_amount', ({ here }) => amount(here?.amount)],
    ['here_refunded', ({ here }) => amount(here?.refunded)],
    ['here_method', ({ here }) => here?.method],
    ['here_caja_id', ({ here }) => here?.caja_id],
    ['here_at', ({ here }) => here?.at],
    ['there_amount', ({ there }) => amount(there?.amount)],
    ['there_refunded', ({ there }) => amount(there?.refunded)],
    ['there_method', ({ there }) => there?.method],
    ['there_caja_id', ({ there }) => there?.caja_id],
    ['there_at', ({ there }) => there?.at],
    ['message', ({ message }) => message],
    ['action', ({ action }) => action],
    ['closing', () => String(closing.number)],
    ['closing_from', () => closing.from],
    ['closing_to', () => closing.to],
  ]
  const row = (cells: (string | null | undefined)[]) => cells.map(cell).join(isEnglish ? ',' : ';')
  return [
    row(columns.map(([title]) => title)),
    ...lines.map((line) => row(columns.map(([, of]) => of(line)))),
    '',
  ].join('\r\n')
}

/** Identifies the closing also when a day has several of them, or one without lines. */
export function csvName({ number, from, to, time_zone: timeZone }: ClosingView): string {
  const at = (iso: string) => wallTime(iso, timeZone).replace(/[ :]/g, '-')
  return `closing-${number}-${at(from)}-${at(to)}.csv`
}

/** `2026-11-21 14:00`, in the store's time zone. */
function wallTime(iso: string, timeZone: string): string {
  return wallClockOf(timeZone).toWall(new Date(iso)).toISOString().slice(0, 16).replace('T', ' ')
}

/** Always quoted; a text that a spreadsheet would run as a formula is marked as text. */
function cell(value: string | null | undefined): string {
  const given = value ?? ''
  const isFormula = /^[=+\-@\t\r]/.test(given)
  return `"${(isFormula ? `'${given}` : given).replaceAll('"', '""')}"`
}

type Words = Record<
  | 'title'
  | 'day'
  | 'span'
  | 'place'
  | 'state'
  | 'here'
  | 'there'
  | 'medium'
  | 'declared'
  | 'difference'
  | 'charges'
  | 'refunds'
  | 'net'
  | 'lines'
  | 'none'
  | 'reference'
  | 'signed'
  | 'signature'
  | 'amendment',
  string
> & { states: Record<string, string> }

const words: Record<Language, Words> = {
  es: {
    title: 'Cierre',
    day: 'Día',
    span: 'Período',
    place: 'Caja o sucursal',
    state: 'Estado',
    here: 'Aquí',
    there: 'Mercado Pago',
    medium: 'Medio',
    declared: 'Contado',
    difference: 'Diferencia',
    charges: 'Cobros',
    refunds: 'Devoluciones',
    net: 'Neto',
    lines: 'Diferencias',
    none: 'Ninguna',
    reference: 'Referencia',
    signed: 'Firmado',
    signature: 'Firma y aclaración',
    amendment: 'Enmienda',
    states: {
      open: 'abierto',
      checking: 'en verificación',
      agreed: 'coincide',
      differs: 'con diferencias',
      unverified: 'sin verificar',
      signed: 'firmado',
    },
  },
  en: {
    title: 'Closing',
    day: 'Day',
    span: 'Time',
    place: 'Box or store',
    state: 'State',
    here: 'Here',
    there: 'Provider',
    medium: 'Medium',
    declared: 'Counted',
    difference: 'Difference',
    charges: 'Charges',
    refunds: 'Refunds',
    net: 'Net',
    lines: 'Differences',
    none: 'None',
    reference: 'Reference',
    signed: 'Signed',
    signature: 'Signature and name',
    amendment: 'Amendment',
    states: {
      open: 'open',
      checking: 'being checked',
      agreed: 'agreed',
      differs: 'differs',
      unverified: 'not verified',
      signed: 'signed',
    },
  },
  pt: {
    title: 'Fechamento',
    day: 'Dia',
    span: 'Período',
    place: 'Caixa ou loja',
    state: 'Estado',
    here: 'Aqui',
    there: 'Provedor',
    medium: 'Meio',
    declared: 'Contado',
    difference: 'Diferença',
    charges: 'Cobranças',
    refunds: 'Devoluções',
    net: 'Líquido',
    lines: 'Diferenças',
    none: 'Nenhuma',
    reference: 'Referência',
    signed: 'Assinado',
    signature: 'Assinatura e nome',
    amendment: 'Emenda',
    states: {
      open: 'aberto',
      checking: 'em verificação',
      agreed: 'confere',
      differs: 'com diferenças',
      unverified: 'não verificado',
      signed: 'assinado',
    },
  },
}

/** The closing as a page to print, with a line for the signature. */
export function closingPage(closing: ClosingView, language: Language): string {
  const say = words[language]
  const state = say.states[closing.state] ?? closing.state
  const result = closing.result && ` (${say.states[closing.result] ?? closing.result})`
  const at = (iso: string) => wallTime(iso, closing.time_zone)
  const title = `${say.title} ${closing.number} · ${closing.caja_id ?? closing.sucursal_id}`
  const facts: [string, string][] = [
    [say.day, closing.business_day],
    [say.span, `${at(closing.from)} – ${at(closing.to)} (${closing.time_zone})`],
    [say.place, closing.caja_id ?? closing.sucursal_id],
    [say.state, `${state}${result ?? ''}`],
    ...(closing.signed_at ? [[say.signed, closing.signed_at] as [string, string]] : []),
  ]
  const { totals } = closing
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="../../shared/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../../shared/css/base.css">
<link rel="stylesheet" href="../../shared/css/parts.css">
<link rel="stylesheet" href="../../shared/css/paper.css">
</head>
<body class="paper">
<main>
<h1>${escapeHtml(title)}</h1>
${table(
  [],
  facts.map(([name, value]) => [name, value]),
)}
<h2>${say.lines}</h2>
${closing.lines.length === 0 ? `<p>${say.none}</p>` : linesTable(closing.lines, say)}
${totals ? totalsTables(totals, say) : ''}
${closing.amendments
  .map(
    (amendment) =>
      `<h2>${say.amendment} ${amendment.number}</h2><p>${escapeHtml(amendment.reason)}</p>${linesTable(amendment.lines, say)}`,
  )
  .join('\n')}
<p class="signature">${say.signature}</p>
</main>
</body>
</html>
`
}

function linesTable(lines: readonly LineView[], say: Words): string {
  return table(
    ['', say.reference, say.here, say.there, ''],
    lines.map((line) => [
      line.kind,
      line.external_reference ?? line.payment_id ?? '',
      line.here?.amount ?? '–',
      line.there?.amount ?? '–',
      line.message,
    ]),
  )
}

function totalsTables(totals: NonNullable<ClosingView['totals']>, say: Words): string {
  const { here, there, refunds, net } = totals
  return [
    table(
      ['', say.charges, '', say.refunds, say.net],
      [
        [say.here, String(here.count), here.amount, here.refunded, ''],
        [say.there, String(there.count), there.amount, there.refunded, net ?? '–'],
      ],
    ),
    table(
      [say.medium, say.here, say.there, say.declared, say.difference],
      totals.media.map((entry) => [
        entry.medium,
        entry.here.amount,
        entry.there.amount,
        entry.declared ?? '–',
        entry.difference ?? '–',
      ]),
    ),
    `<p>${say.refunds}: ${refunds.count} · ${refunds.amount}</p>`,
  ].join('\n')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]) =>
    `<tr>${row.map((value) => `<${tag}>${escapeHtml(value)}</${tag}>`).join('')}</tr>`
  const top = head.length > 0 ? `<thead>${cells('th', head)}</thead>` : ''
  return `<table>${top}<tbody>${rows.map((row) => cells('td', row)).join('\n')}</tbody></table>`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`)
}
