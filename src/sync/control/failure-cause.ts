const gap = '…'

/** Under these names an answer in JSON says what is wrong; its other texts are about the item. */
const tellingNames =
  /^(?:errors?|err|message|msg|code|type|reason|detail|details|description|title|field|mensaje|motivo|codigo|código|detalle|campo)$/i

/** Also where the text was cut off before its end. */
const quotedTexts = /"((?:[^"\\]|\\.)*)(?:"(\s*:)?|$)/g
const otherQuotes = /«[^»]*»|“[^”]*”|`[^`]*`|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu
/** Whatever has a digit: numbers, prices, times, ids. Statuses and codes, which tell the cause, are left. */
const withDigits =
  /(?<told>(?:^HTTP|\bSQLSTATE|\berror) )?(?<![\p{L}\p{N}])(?:[\p{L}_]+[-./])*[\p{L}\p{N}_]*\p{N}[\p{L}\p{N}_]*(?:[-.,:/][\p{L}\p{N}_]+)*/gu
const shortestKeyPart = 3

/**
 * What went wrong, without what is of one item: its key, other ids, numbers and quoted texts. Deliveries that failed with the
 * same status and the same cause are one group. Names of JSON stay, and its texts where their name says that they tell.
 */
export function causeOf(error: string, pk: string): string {
  const parts = [pk, ...pk.split('|')]
    .filter(({ length }) => length >= shortestKeyPart)
    .sort((one, next) => next.length - one.length)
  const keyless = parts.reduce((text, part) => text.replaceAll(part, gap), error)
  return withoutQuoted(keyless)
    .replace(otherQuotes, gap)
    .replace(withDigits, (found, told: string | undefined) => (told === undefined ? gap : found))
    .replace(/…(?:[-_.,:/]?…)+/g, gap)
}

/** Texts in double quotes: of JSON by the names before them, of all else without exception. */
function withoutQuoted(text: string): string {
  const isJson = /[{[]\s*"/.test(text)
  let name = ''
  return text.replace(quotedTexts, (found, words: string, colon: string | undefined) => {
    if (isJson && colon !== undefined) {
      name = words
      return found
    }
    return isJson && tellingNames.test(name) ? found : gap
  })
}
