import { t, word } from '../shared/i18n.js'

/** What the service says of a flow, in English, by its forms; `{1}` of a text is what stood in the first place. */
const forms = [
  ['attempts', /^(\d+) of the last (\d+) attempts failed, the last one with: (.*)$/s],
  ['noFile', /^(?:file source: )?there is no file (.*) to read$/],
  ['gone', /^the field (".*") is gone$/],
  ['type', /^the field (".*") was (.*) and is (.*)$/],
  ['many', /^(\d+) of (\d+) items changed at once \(([\d.]+) %, more than ([\d.]+) %\)$/],
]

/** The same in the reader's language, where its form is known; words of somebody else stay as they are. */
export function said(text) {
  const [, held = '', reasons = text] = /^(held: )?(.*)$/s.exec(text)
  const told = reasons.split('; ').map(inWords).join('; ')
  return held ? t('said.held', { reason: told }) : told
}

function inWords(text) {
  for (const [key, form] of forms) {
    const [match, ...parts] = form.exec(text) ?? []
    if (match === undefined) continue
    const words = parts.map((part) =>
      part
        .split(' or ')
        .map((one) => word('said', one))
        .join(t('said.or')),
    )
    return t(`said.${key}`, { ...[match, ...words] })
  }
  return text
}
