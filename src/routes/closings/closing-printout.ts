import { escapeHtml } from '../../http/html.ts'
import { methodWord } from '../../payments/closings/line-texts.ts'
import type { ClosingNames } from '../../payments/closings/list-charges.ts'
import type { Language } from '../../texts/language.ts'
import { localAmount } from '../../texts/local-amount.ts'
import { closingWords, localTime, type Say } from './closing-file.ts'
import type { ClosingView, LineView } from './closing-view.ts'

/** The closing as a page to print, with a line for the signature. */
export function closingPrintout(
  closing: ClosingView,
  { facts, names }: { facts: readonly [string, string][]; names: ClosingNames },
  language: Language,
): string {
  const say = closingWords(language)
  const title = `${say('title')} ${closing.number} · ${closing.caja_id ?? closing.sucursal_id}`
  const { totals } = closing
  const boxOf = (id: string | null) => (id === null ? '–' : (names.boxNames.get(id) ?? id))
  const isWholeStore = closing.caja_id === null
  const box = (name: string) => (isWholeStore ? [name] : [])
  const linesTable = (lines: readonly LineView[]) =>
    table(
      ['', say('at'), ...box(say('box')), say('reference'), say('here'), say('there'), ''],
      lines.map((line) => {
        const side = line.here ?? line.there
        return [
          say(`kind.${line.kind}`),
          side ? localTime(new Date(side.at), closing.time_zone) : '–',
          ...box(boxOf(side?.caja_id ?? null)),
          line.external_reference ?? line.payment_id ?? '',
          localAmount(line.here?.amount, language),
          localAmount(line.there?.amount, language),
          line.message,
        ]
      }),
    )
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
<h2>${say('lines')}</h2>
${closing.lines.length === 0 ? `<p>${say('none')}</p>` : linesTable(closing.lines)}
${totals ? totalsTables(totals, say, language) : ''}
${closing.amendments
  .map(
    (amendment) =>
      `<h2>${say('amendment')} ${amendment.number}</h2><p>${escapeHtml(amendment.reason)}</p>${linesTable(amendment.lines)}`,
  )
  .join('\n')}
<p class="signature">${say('signature')}</p>
</main>
</body>
</html>
`
}

function totalsTables(
  totals: NonNullable<ClosingView['totals']>,
  say: Say,
  language: Language,
): string {
  const amount = (point: string | null) => localAmount(point, language)
  const { here, there, refunds, net } = totals
  return [
    table(
      ['', say('charges'), say('amount'), say('refunds'), say('net')],
      [
        [say('here'), String(here.count), amount(here.amount), amount(here.refunded), ''],
        [
          say('there'),
          String(there.count),
          amount(there.amount),
          amount(there.refunded),
          amount(net),
        ],
      ],
      'sums',
    ),
    table(
      [say('medium'), say('here'), say('there'), say('declared'), say('difference')],
      totals.media.map((entry) => [
        methodWord(entry.medium, language),
        amount(entry.here.amount),
        amount(entry.there.amount),
        amount(entry.declared),
        amount(entry.difference),
      ]),
      'sums',
    ),
    `<p>${say('refunds')}: ${refunds.count} · ${amount(refunds.amount)}</p>`,
  ].join('\n')
}

/** `kind` is a class: `sums` has numbers in all columns but the first. */
function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  kind?: 'sums',
): string {
  const cells = (tag: string, row: readonly string[]) =>
    `<tr>${row.map((value) => `<${tag}>${escapeHtml(value)}</${tag}>`).join('')}</tr>`
  const top = head.length > 0 ? `<thead>${cells('th', head)}</thead>` : ''
  return `<table${kind ? ` class="${kind}"` : ''}>${top}<tbody>${rows.map((row) => cells('td', row)).join('\n')}</tbody></table>`
}
