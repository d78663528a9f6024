import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { settings } from '../../src/app/config-schema.ts'
import { errorCatalogue, retryMeanings } from '../../src/errors/app-error.ts'
import { type Cause, causes } from '../../src/fleet/causes.ts'
import { conditions } from '../../src/notifications/notification-conditions.ts'
import { en } from '../../src/texts/en.ts'
import { causeRules } from './cause-rules.ts'

export const generated = '`npm run docs:references` writes this page.'

/** A table in Markdown. */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const line = (cells: readonly (string | number)[]) =>
    `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}

export const code = (text: string) => `\`${text}\``

/** The page docs/reference/settings.md. */
export function settingsPage(): string {
  const rows = settings.map(({ name, default: value, meaning }) => [
    code(name),
    value || 'none',
    meaning,
  ])
  return `# Settings

Reference for administrators. ${generated} \`.env.example\` has the same settings as a file to copy.

- Each setting is an environment variable. A \`.env\` file in the working folder is read too.
- A wrong value stops the start. One message names every wrong variable and its allowed values.
- An empty value counts as unset. The log names a variable that is nearly a setting.
- In \`.env\`, quote a value that contains \`#\`.
- A password in \`DATABASE_URL\` or \`SMTP_URL\` may contain any character, as it is or percent-encoded.

${table(['Variable', 'Default', 'Meaning'], rows)}
`
}

/** The page docs/reference/errors.md, of both APIs. */
export function errorsPage(): string {
  const rows = Object.entries(errorCatalogue).map(([name, { status, retry, text, action }]) => [
    code(name),
    status,
    code(retry),
    text,
    action,
  ])
  return `# Errors

Reference for programmers of an ERP. ${generated}

## Payment API

An error has \`error\`, \`code\` and \`request_id\`. Errors of routes that move money also have \`outcome\`, \`retry_safe\`
and \`retry\`. Decide by \`retry\`, \`outcome\` and \`code\`; the sentence in \`error\` may change.

\`\`\`json
{
  "error": "The request has values that are not allowed",
  "code": "VALIDATION_ERROR",
  "request_id": "bb56a2f1-6aae-46ac-982e-9dcd3581d08e",
  "details": [{ "path": "amount", "message": "must be greater than 0" }],
  "outcome": "not_charged",
  "retry_safe": false,
  "retry": "after_change"
}
\`\`\`

### Send it again?

${table(
  ['`retry`', 'What the till does'],
  Object.entries(retryMeanings).map(([name, meaning]) => [code(name), meaning]),
)}

\`retry_safe\` is about money alone: whether the same request again can never charge or refund twice. It is \`true\` for an unknown box,
although no repetition helps. Where it is \`false\`, \`retry\` is never \`same_request\`.

### Codes

The column \`retry\` is that of a request with \`retry_safe: true\`. With \`false\`, \`no\` replaces \`same_request\`.

${table(['Code', 'Status', '`retry`', 'Meaning', 'What the till does'], rows)}

## Flow control API

An error has one field, \`{"error": "…"}\`. Wrong values are 400 there, not 422. Other statuses are the ones above.
Why a flow is paused, or a delivery failed, is a code: see [reasons](flows/reasons.md).
`
}

type Rule = {
  alert: string
  for?: string
  labels: { severity: string }
  annotations: { summary: string; action: string }
}

const notified = {
  attention: 'from `attention`',
  down: 'from `down`',
  intended: 'no: an operator did it',
  never: 'no',
} as const

/** The page docs/reference/alerts.md: rules of Prometheus, and causes that the service itself reports. */
export function alertsPage(): string {
  const file = new URL('../../ops/prometheus/alerts.yml', import.meta.url)
  const { groups } = parse(readFileSync(file, 'utf8')) as { groups: { rules: Rule[] }[] }
  const rules = groups
    .flatMap((group) => group.rules)
    .map((rule) => [
      code(rule.alert),
      rule.labels.severity,
      rule.for ?? '0s',
      rule.annotations.summary,
      rule.annotations.action,
    ])
  const words = Object.keys(causes) as Cause[]
  const own = words.map((cause) => [
    code(cause),
    en[`fleet.${cause}`],
    causes[cause] === null ? 'none' : code(causes[cause] ?? ''),
    causeRules[cause],
    notified[conditions[cause]],
  ])
  return `# Alerts

Reference for operators. ${generated} [Monitor the service](../how-to/monitor.md) says how to receive them.

## Causes

\`GET /health/fleet\`, the dashboard and the service's own alerts name one of these causes. \`action\` is the next step.
A part in brackets is shown only when its value is known. A later charge or read shows that a cause is over.

${table(['Cause', 'Message', '`action`', 'From when, until when', 'Alert'], own)}

## What a webhook gets

\`ALERT_WEBHOOK_URL\` gets \`{type, timestamp, data}\`, signed as [Standard Webhooks](https://www.standardwebhooks.com/) when
\`ALERT_WEBHOOK_SECRET\` is set. So does a webhook of a flow, with its \`secret\`. A message may arrive twice, with the same \`webhook-id\`.

| \`type\` | \`data\` |
|---|---|
| \`fleet.trouble\`, \`fleet.recovered\` | \`cause\`, \`action\`, \`subjects\`, \`more\`, \`dependents\` |
| \`flow.failed\`, \`flow.failed.reminder\`, \`flow.recovered\` | \`flow\`, \`destination\`, \`since\`; \`open\`, \`examples\`, \`retry\` |
| \`orphans.found\`, \`orphans.settled\` | \`orphans\` with \`id\`, \`client\`, \`caja_id\`, \`payment_id\`, \`amount\`, \`at\`, \`state\`; \`surplus_of\` of a second payment |
| \`chargebacks.opened\`, \`chargebacks.documents_due\`, \`chargebacks.decided\` | \`chargebacks\` with \`case_id\`, \`payment_id\`, \`amount\`, \`state\`, \`documents_due_at\` |
| \`service.database_down\`, \`service.database_recovered\` | \`since\` |
| \`fleet.test\`, \`flow.test\` | nothing; the \`flow\` |

## Rules for Prometheus

\`ops/prometheus/alerts.yml\` has these rules.

${table(['Alert', 'Severity', 'After', 'Meaning', 'What to do'], rules)}
`
}

/** One listener's metrics in the text format of Prometheus. */
export type Scrape = { listener: string; text: string }

/** The page docs/reference/metrics.md, from what each listener answers. */
export function metricsPage(scrapes: readonly Scrape[]): string {
  const sections = scrapes.map(({ listener, text }) => {
    const types = new Map(
      [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]),
    )
    const rows = [...text.matchAll(/^# HELP (tillbridge_\S+) (.*)$/gm)]
      .map(([, name = '', help = '']) => [code(name), types.get(name) ?? '', help])
      .sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
    return `## ${listener}\n\n${table(['Metric', 'Type', 'Meaning'], rows)}\n`
  })
  return `# Metrics

Reference for operators. ${generated} [Monitor the service](../how-to/monitor.md) says how to scrape them.

- Counters and histograms count what one process did since its start: sum them over the processes.
- Gauges show what is in the database, the same from each process: take the largest.
- No metric has a client or an order as a label.
- The metrics of Node itself (\`nodejs_…\`, \`process_…\`) come with those of port 3000.

${sections.join('\n')}`
}

/** The page docs/reference/commands.md, from what each command prints with `--help`. */
export function commandsPage(helps: readonly { script: string; help: string }[]): string {
  const sections = helps.map(
    ({ script, help }) => `## ${script}\n\n\`\`\`text\n${help.trimEnd()}\n\`\`\`\n`,
  )
  return `# Commands

Reference for administrators. ${generated} Each command prints its part with \`--help\`.

Commands read the same [settings](settings.md) as the service. Run them as its user.

${sections.join('\n')}`
}
