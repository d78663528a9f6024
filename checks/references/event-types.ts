import { eventTypes } from '../../src/domain/event-types.ts'
import { FeedEvent } from '../../src/routes/events/feed-schemas.ts'

/** docs/reference/events.md */
export function eventsPage(): string {
  const kinds = Object.entries(eventTypes)
  const rows = kinds.map(
    ([type, { means, resource }]) => `| \`${type}\` | ${means} | ${resource} |`,
  )
  const examples = kinds.map(([type, { example }]) => `### ${type}\n\n${block(example)}`)
  return `# Events

For programmers of ERPs: what \`GET /events/feed\` answers. \`npm run docs:references\` writes this page from \`src/domain/event-types.ts\`. A
test compares it, and another one provokes each type.

| Type | What happened | Resource |
|---|---|---|
${rows.join('\n')}

\`POST /events/endpoints\` has the same events sent to an address: the body is the event with \`timestamp\`, which is equal to \`at\`. A message of the type
\`ping\` is a test and no event.

A change may be two events, such as \`order.paid\` and \`order.needs_decision\` of a payment that came late. A type that you do not know is a
newer one: read on.

## An event

${block(FeedEvent.meta()?.example)}

| Field | Meaning |
|---|---|
| \`id\` | Equal when the same event is read again: store it, and skip what you have |
| \`type\`, \`at\` | What happened, and when |
| \`client\`, \`sucursal_id\`, \`caja_id\` | Whose it is, by the ids of the ERP; null where it is of no store or box |
| \`resource\` | What it is about. Read its present state at \`url\`. \`version\` grows with each change; null where it has none |
| \`order_id\` | The order that it belongs to |
| \`changes\` | Each field that changed, \`from\` and \`to\`. Money is in integer cents. \`from\` is null of what is new |
| \`data\` | The resource after the change, as \`resource.url\` shows it, without texts for cashiers. Null where the event is thin |

## An example of \`changes\` of each type

${examples.join('\n\n')}
`
}

function block(value: unknown): string {
  return `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``
}
