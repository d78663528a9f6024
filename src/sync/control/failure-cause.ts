const gap = '…'

/** Under these names an answer in JSON says what is wrong. */
const telling =
  /^(?:errors?|err|messages?|msg|code|reason|details?|mensaje|motivo|codigo|código|detalle)$/i
/** These do so too, but not within the item that an answer repeats. */
const tellingOutside = /^(?:type|description|title|field|campo)$/i

/** Texts of JSON, also where they were cut off before their end, and what they stand in. */
const jsonParts = /"((?:[^"\\]|\\.)*)(?:"(\s*:)?|$)|[{}[\]]/g
const quotedTexts = /"(?:[^"\\]|\\.)*(?:"|$)/g
const otherQuotes = /«[^»]*»|“[^”]*”|`[^`]*`|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu
/** Known by the name before it, since it may look like a word. */
const namedIds =
  /\b((?:request|trace|correlation|transaction|incident)(?:[ _-]?id)?\s*[:=#]\s*)[\w+/.-]+=*/gi

/** Of languages that put a space between words and numbers. */
const letter = '[\\p{L}--[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}]]'
/** Words and numbers with what joins them to one. Those after these names are statuses and codes, which tell the cause. */
const joined = new RegExp(
  String.raw`(?<told>(?:^HTTP|\bSQLSTATE|\berror) )?(?<![${letter}\p{N}])[${letter}\p{N}_]+(?:[\-.,:\/+][${letter}\p{N}_]+)*={0,2}`,
  'gv',
)
/** Ids of mere letters; words do not change between capitals and small letters all the time. */
const longWords = /(?<![\p{L}\p{N}])[A-Za-z_-]{12,}(?![\p{L}\p{N}])/gu
const changesOfId = 1 / 3

/** As dates are written in words; only beside numbers, since some of them are other words too. Made when first needed: it takes 10 ms. */
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
 * What went wrong, without what is of one item or one moment: its key, other ids, numbers, times and quoted texts. Deliveries
 * that failed with the same status and the same cause are one group. Names of JSON stay, and its texts where their name says
 * that they tell.
 */
export function causeOf(error: string, pk: string): string {
  writtenTimes ??= timesInWords()
  return withoutQuoted(withoutKey(error, pk))
    .replace(otherQuotes, gap)
    .replace(namedIds, `$1${gap}`)
    .replace(joined, (found, told: string | undefined) => (told ? found : withoutDigits(found)))
    .replace(longWords, (word) => (isId(word) ? gap : word))
    .replace(/…(?:[-_.,:/+]?…)+/g, gap)
    .replace(writtenTimes.before, gap)
    .replace(writtenTimes.after, gap)
}

/** As it is and percent-encoded, in whatever case; what is as short as a word only where it stands alone. */
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

/** Whatever has a digit is a number, a price, a time or an id, together with the letters that it begins with. */
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

/** Texts in double quotes: of JSON by the names before them, of all else without exception. */
function withoutQuoted(text: string): string {
  if (!/[{[]\s*"/.test(text)) return text.replace(quotedTexts, gap)
  let name = ''
  /** Of each object and list around: whether what tells may stand in it. */
  const around: boolean[] = []
  const isOutside = () => around.at(-1) ?? true
  return text.replace(jsonParts, (found, words: string | undefined, colon: string | undefined) => {
    if (found === '{' || found === '[') {
      around.push(isOutside() && (name === '' || telling.test(name)))
      if (found === '{') name = ''
    } else if (found === '}' || found === ']') {
      around.pop()
    } else if (colon !== undefined) {
      name = words ?? ''
    } else {
      const tells = telling.test(name) || (isOutside() && tellingOutside.test(name))
      return tells ? found : gap
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
