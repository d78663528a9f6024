import { codeGroups } from '../../src/texts/published-codes.ts'
import { texts } from '../../src/texts/texts.ts'

const meanings: Readonly<Record<string, string>> = {
  PAUSED: '',
  POLL_FAILED: 'Any other reason of a poll.',
  SOURCE_FAILED: 'Any other reason of a source.',
  FILE_UNREADABLE: 'Any other reason of a file that is read.',
  ITEM_UNUSABLE: 'Any other reason of a record, an expression, or a request made from an item.',
  DELIVERY_REFUSED: 'Any other reason of a delivery.',
  SQL_REFUSED: 'Any other reason of a database that is written to.',
  TOKEN_FAILED: 'Any other reason of an access by OAuth.',
  ALERT_NOT_SENT: 'Any other reason of an alert.',
  DEFINITION_WRONG: 'Any other problem of a flow file.',
  REQUEST_REFUSED: 'Any other reason of a request that is refused.',
}

/** The page docs/reference/flows/reasons.md: each published code, and its sentence in both languages. */
export function reasonsPage(): string {
  const rows = codeGroups.flatMap(({ code, own }) => [
    ...own.map(
      (key) => `| \`${key}\` | ${cell(texts.en[key] ?? '')} | ${cell(texts.es[key] ?? '')} |`,
    ),
    ...(meanings[code] === '' ? [] : [`| \`${code}\` | ${meanings[code]} | |`]),
  ])
  return `# Reasons

Reference for programmers who read the control API of flows. \`npm run flows:schema\` writes this page.

Why a flow is paused, a poll failed, or a delivery failed or was skipped is a code with data. Answers give both in \`why\`, with the
sentence in the language of \`Accept-Language\` (Spanish, or else English):

\`\`\`json
{ "code": "NO_ANSWER", "data": { "seconds": 15 }, "message": "no answer within 15 s" }
\`\`\`

- Decide by \`code\`. Sentences may change, and so may those of \`error\`, \`reason\` and \`cause\` beside it, which are in English.
- \`{…}\` is a name in \`data\`; a part in brackets is there only where its data is known. \`{said}\` has the words of another program.
- A code with "any other" has no data. Its sentence says which it is.

| Code | English | Spanish |
|---|---|---|
${rows.join('\n')}
`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
