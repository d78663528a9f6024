import { reasonCodes, reasonTexts } from '../../src/domain/flow-reasons.ts'

/** The page docs/reference/flows/reasons.md, which lists every reason: the code, and its sentence in both languages. */
export function reasonsPage(): string {
  const rows = reasonCodes.map((code) => {
    const { en, es } = reasonTexts[code]
    return `| \`${code}\` | ${cell(en)} | ${cell(es)} |`
  })
  return `# Reasons

Reference for programmers who read the control API of flows. \`npm run flows:schema\` writes this page.

Why a flow is paused, a poll failed, or a delivery failed or was skipped is a code with data. Answers give both in \`why\`, with the
sentence in the language of \`Accept-Language\` (Spanish or English):

\`\`\`json
{ "code": "NO_ANSWER", "data": { "seconds": 15 }, "message": "no answer within 15 s" }
\`\`\`

- Decide by \`code\`. The sentences of \`error\`, \`reason\` and \`cause\` beside it are in English and may change.
- \`{…}\` is a name in \`data\`; a part in brackets is there only where its data is known. \`{said}\` has the words of another program.
- \`why\` is null where an earlier version recorded a sentence alone.

| Code | English | Spanish |
|---|---|---|
${rows.join('\n')}
`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
