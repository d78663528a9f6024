import { isoText } from './exact-time.ts'

/**
 * The text of a key field, wherever the key comes from: NFC, without blanks at its end, which a CHAR column fills up to its length.
 * Null for what cannot be part of a key.
 */
export function keyText(value: unknown): string | null {
  if (typeof value === 'string') return withoutBlanksAtEnd(value.normalize('NFC'))
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') {
    return String(value)
  }
  if (value instanceof Date && !Number.isNaN(value.getTime())) return isoText(value)
  return null
}

/** A key that somebody gives as one text, with each part as keyText gives it. */
export function givenKey(pk: string): string {
  const text = pk.normalize('NFC')
  return text.includes(' ') ? text.split(' |').map(withoutBlanksAtEnd).join('|') : text
}

/** By hand, since a regular expression looks at each of many blanks again and again. */
function withoutBlanksAtEnd(text: string): string {
  let end = text.length
  while (text[end - 1] === ' ') end -= 1
  return text.slice(0, end)
}

/** Key values as one text: joined by `|`, with `|` and `\` inside a value escaped by a backslash. */
export function joinKey(values: readonly string[]): string {
  return values.map((value) => value.replace(/[\\|]/g, '\\$&')).join('|')
}

/** The key fields of an item, for a delete; none when the text is no key of that many fields. */
export function keyRecord(names: readonly string[], pk: string): Record<string, string> {
  const values = splitKey(pk, names.length) ?? []
  return Object.fromEntries(values.map((value, index) => [names[index] ?? '', value]))
}

/** The values again; undefined for a text that joinKey cannot have made of that many values. */
export function splitKey(pk: string, count: number): string[] | undefined {
  if (!/[\\|]/.test(pk)) return count === 1 ? [pk] : undefined
  const values: string[] = []
  let value = ''
  for (let index = 0; index < pk.length; index++) {
    if (pk[index] === '|') {
      values.push(value)
      value = ''
      continue
    }
    if (pk[index] === '\\') {
      index++
      if (pk[index] !== '\\' && pk[index] !== '|') return undefined
    }
    value += pk[index]
  }
  values.push(value)
  return values.length === count ? values : undefined
}
