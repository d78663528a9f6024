const gap = '…'

/** Fields of a JSON answer that state the error. */
const causeNames =
  /^(?:errors?|err|messages?|msg|code|reason|details?|mensaje|motivo|codigo|código|detalle)$/i
/** These state it too, but not inside an item that the answer repeats. */
const outerCauseNames = /^(?:type|description|title|field|campo)$/i

/** JSON texts, also cut-off ones, with the brackets around them. */
const jsonParts = /"((?:[^"\\]|\\.)*)(?:"(\s*:)?|$)|[{}[\]]/g
const quotedTexts = /"(?:[^"\\]|\\.)*(?:"|$)/g
const otherQuotes = /«[^»]*»|“[^”]*”|`[^`]*`|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu
/** Ids are recognized by the name before them, because they may look like words. */
const namedIds =
  /\b((?:request|trace|correlation|transaction|incident)(?:[ _-]?id)?\s*[:=#]\s*)[\w+/.-]+=*/gi

/** Letters of languages that put a space between words and numbers. */
const letter = '[\\p{L}--[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}]]'
/**
 * Words and numbers with the characters that join them. After these names they are statuses and codes, which state
 * the cause.
 */
const joined = new RegExp(
  String.raw`(?<coded>(?:^HTTP|\bSQLSTATE|\berror) )?(?<![${letter}\p{N}])[${letter}\p{N}_]+(?:[\-.,:\/+][${letter}\p{N}_]+)*={0,2}`,
  'gv',
)
/** Ids of letters only: words do not change between upper and lower case repeatedly. */
const longWords = /(?<![\p{L}\p{N}])[A-Za-z_-]{12,}(?![\p{L}\p{N}])/gu
const changesOfId = 1 / 3

/**
 * Dates written in words, matched only beside numbers, because some names are other words too. Built on first use: it
 * takes 10 ms.
 */
let writtenTimes: { after: RegExp; before: RegExp } | undefined

function timesInWords(): { after: RegExp; before: RegExp } {
  const names = timeNames(['es', 'en', 'pt', 'de', 'fr', 'it'])
  const besideGap = String.raw`(?:${names.join('|')}|AM|PM|[ap]\.\s?m\.)\.?`
  return {
    after: new RegExp(
      String.raw`…(?:[\s,.\/\-]+(?:de |of |às |a las |um |à )*(?:${besideGap}|…)(?![\p{L}\p{N}]))+`,
      'gu',
    ),
    before: new RegExp(
      String.raw`(?<![\p{L}\p{N}])(?:${besideGap},?[\s\/\-]+(?:de |den |le |el )*)+…`,
      'gu',
    ),
  }
}

const shortestKeyPart = 3

/**
 * The error without the parts of one item or moment: its key, other ids, numbers, times and quoted texts. Deliveries
 * with the same status and cause form a group. Names in JSON stay, and texts of fields that state the error.
 */
export function causeOf(error: string, pk: string): string {
  writtenTimes ??= timesInWords()
  return withoutQuoted(withoutKey(error, pk))
    .replace(otherQuotes, gap)
    .replace(namedIds, `$1${gap}`)
    .replace(joined, (found, coded: string | undefined) => (coded ? found : withoutDigits(found)))
    .replace(longWords, (word) => (isId(word) ? gap : word))
    .replace(/…(?:[-_.,:/+]?…)+/g, gap)
    .replace(writtenTimes.before, gap)
    .replace(writtenTimes.after, gap)
}

/** Removes the key, plain or percent-encoded, in any case. A key as short as a word must stand alone. */
function withoutKey(error: string, pk: string): string {
  const parts = [pk, ...pk.split('|')].filter((part) => part !== '')
  const spellings = new Set(parts.flatMap((part) => [part, encoded(part)]))
  const patterns = [...spellings]
    .sort((one, next) => next.length - one.length)
    .map((part) => {
      const text = escaped(part)
      if (part.length >= shortestKeyPart) return text
      return String.raw`(?<![\p{L}\p{N}])${text}(?![\p{L}\p{N}])`
    })
  return patterns.length === 0 ? error : error.replace(new RegExp(patterns.join('|'), 'giu'), gap)
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}

function encoded(text: string): string {
  return text.isWellFormed() ? encodeURIComponent(text) : text
}

/** A part with a digit is a number, price, time or id, with the letters before it. */
function withoutDigits(found: string): string {
  const at = found.search(/\p{N}/u)
  if (at === -1) return found
  const before = found.slice(0, at)
  return found.slice(0, Math.max(before.lastIndexOf(','), before.lastIndexOf(':')) + 1) + gap
}

function isId(word: string): boolean {
  let changes = 0
  for (let at = 1; at < word.length; at += 1) {
    const [one = '', next = ''] = [word[at - 1], word[at]]
    if (/[a-z]/.test(one) !== /[a-z]/.test(next)) changes += 1
  }
  return changes >= word.length * changesOfId
}

/** Removes texts in double quotes: in JSON by the names before them, elsewhere all. */
function withoutQuoted(text: string): string {
  if (!/[{[]\s*"/.test(text)) return text.replace(quotedTexts, gap)
  let name = ''
  /** For each object and list around: whether it may contain fields that state the error. */
  const around: boolean[] = []
  const isOutside = () => around.at(-1) ?? true
  return text.replace(jsonParts, (found, words: string | undefined, colon: string | undefined) => {
    if (found === '{' || found === '[') {
      around.push(isOutside() && (name === '' || causeNames.test(name)))
      if (found === '{') name = ''
    } else if (found === '}' || found === ']') {
      around.pop()
    } else if (colon !== undefined) {
      name = words ?? ''
    } else {
      const isCause = causeNames.test(name) || (isOutside() && outerCauseNames.test(name))
      return isCause ? found : gap
    }
    return found
  })
}

/** Names of months and days, long and short, longest first. */
function timeNames(locales: readonly string[]): string[] {
  const names = locales.flatMap((locale) =>
    (['long', 'short'] as const).flatMap((length) => {
      const day = new Intl.DateTimeFormat(locale, { weekday: length, timeZone: 'UTC' })
      const month = new Intl.DateTimeFormat(locale, { month: length, timeZone: 'UTC' })
      return Array.from({ length: 12 }, (_, index) => {
        return [day.format(Date.UTC(2024, 0, index + 1)), month.format(Date.UTC(2024, index))]
      }).flat()
    }),
  )
  return [...new Set(names)]
    .sort((one, next) => next.length - one.length)
    .map((one) => escaped(one))
}
