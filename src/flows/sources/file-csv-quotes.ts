/** Within quotes, a backslash is a letter (RFC 4180), or it escapes the next character (MySQL). */
export type Backslash = 'letter' | 'escape'

/** What MySQL writes behind a backslash for characters that would end a value or a line. */
const escaped: Readonly<Record<string, string>> = {
  '"': '""',
  '0': '\0',
  b: '\b',
  n: '\n',
  r: '\r',
  t: '\t',
  Z: '\x1a',
  // Null; the reader of cells knows it.
  N: '\\N',
}

/**
 * Rewrites quoted values so that a parser of RFC 4180 reads them: `="00042"`, Excel's formula for a text, and escapes of
 * MySQL. `meaning` is called once, at the first backslash within quotes.
 */
export async function* plainQuotes(
  text: AsyncIterable<string>,
  delimiter: string,
  meaning: () => Promise<Backslash>,
): AsyncGenerator<string> {
  let backslash: Backslash | undefined
  let isQuoted = false
  let before = ''
  let held = ''
  /** Whether a value begins behind these characters. */
  const beginsValue = (all: string, end: number): boolean => {
    const from = end - delimiter.length
    const left = from < 0 ? before + all.slice(0, end) : all.slice(from, end)
    return left === '' || left.endsWith(delimiter) || /[\r\n]$/.test(left)
  }
  for await (const piece of text) {
    const all = held + piece
    let made = ''
    let kept = 0
    let end = all.length
    let slash = all.indexOf('\\')
    for (let at = 0; ; ) {
      const quote = all.indexOf('"', at)
      if (slash !== -1 && slash < at) slash = all.indexOf('\\', at)
      const isEscape = slash !== -1 && isQuoted && (quote === -1 || slash < quote)
      if (isEscape && backslash !== 'letter') {
        backslash ??= await meaning()
        at = slash + 1
        if (backslash !== 'escape') continue
        const next = all[at]
        if (next === undefined) {
          end = slash
          break
        }
        made += all.slice(kept, slash) + (escaped[next] ?? next)
        at += 1
        kept = at
      } else if (quote !== -1) {
        if (!isQuoted && all[quote - 1] === '=' && beginsValue(all, quote - 1)) {
          made += all.slice(kept, quote - 1)
          kept = quote
        }
        isQuoted = !isQuoted
        at = quote + 1
      } else break
    }
    // The next piece may begin with the quote of a formula.
    if (!isQuoted && all.endsWith('=')) end -= 1
    held = all.slice(end)
    before = (before + all.slice(Math.max(0, end - delimiter.length), end)).slice(-delimiter.length)
    made += all.slice(kept, end)
    if (made !== '') yield made
  }
  if (held !== '') yield held
}
