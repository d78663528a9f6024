/**
 * Fills `{name}` of a text with its value, or a dash where it has none. A part in brackets is left out when a value that it
 * would hold is not known.
 */
export function fillSentence(
  text: string,
  values: Readonly<Record<string, string | undefined>>,
): string {
  const textOf = (name: string) => (Object.hasOwn(values, name) ? values[name] : undefined)
  const isKnown = (part: string) =>
    [...part.matchAll(/\{(\w+)\}/g)].every(([, name]) => textOf(name as string) !== undefined)
  return text
    .replace(/\[([^\]]*)\]/g, (_, part: string) => (isKnown(part) ? part : ''))
    .replace(/\{(\w+)\}/g, (_, name: string) => textOf(name) ?? '—')
}
