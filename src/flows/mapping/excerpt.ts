/** A value as JSON text of at most `max` characters, for messages about a mapping's input and result. */
export function excerpt(value: unknown, max = 300): string {
  return shorten(JSON.stringify(value) ?? 'nothing', max)
}

/** The text, or its start and an ellipsis. Never splits a character. */
export function shorten(text: string, max = 300): string {
  return text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`
}
