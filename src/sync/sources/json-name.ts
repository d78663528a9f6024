const longestShown = 128

/**
 * The name that stands last before a value in a piece of JSON, for messages: ` in "photo"`, or nothing when there is none.
 * Quotes behind a backslash belong to a text that holds JSON itself.
 */
export function inLastName(text: string): string {
  for (let end = text.lastIndexOf('":'); end > 0; end = text.lastIndexOf('":', end - 1)) {
    const start = text.lastIndexOf('"', end - 1)
    if (start === -1) return ''
    const isText = text[end - 1] === '\\' || text[start - 1] === '\\'
    if (!isText) return ` in ${JSON.stringify(text.slice(start + 1, end).slice(0, longestShown))}`
  }
  return ''
}
