/**
 * Fills `{name}` of a text with its value, or a dash where it has none. A part in brackets that holds a name is left out when the
 * value is not known; other brackets stay.
 */
export function fillSentence(
  text: string,
  values: Readonly<Record<string, string | undefined>>,
): string {
  const textOf = (name: string) => (Object.hasOwn(values, name) ? values[name] : undefined)
  const isKnown = (part: string) =>
    [...part.matchAll(/\{(\w+)\}/g)].every(([, name]) => textOf(name as string) !== undefined)
  return text
    .replace(/\[([^[\]]*\{\w+\}[^[\]]*)\]/g, (_, part: string) => (isKnown(part) ? part : ''))
    .replace(/\{(\w+)\}/g, (_, name: string) => textOf(name) ?? '—')
}
