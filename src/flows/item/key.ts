import { isoText } from './exact-time.ts'

/**
 * The text of a key field, whatever its origin: in NFC, without trailing blanks, which pad a CHAR column. Null for an invalid
 * key value.
 */
export function keyText(value: unknown): string | null {
  if (typeof value === 'string') return withoutBlanksAtEnd(value.normalize('NFC'))
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') {
    return String(value)
  }
  if (value instanceof Date && !Number.isNaN(value.getTime())) return isoText(value)
  return null
}

/** A key given as one text, with each part normalized by keyText. */
export function givenKey(pk: string): string {
  const text = pk.normalize('NFC')
  return text.includes(' ') ? text.split(' |').map(withoutBlanksAtEnd).join('|') : text
}

/** A regular expression would need quadratic time for many blanks. */
function withoutBlanksAtEnd(text: string): string {
  let end = text.length
  while (text[end - 1] === ' ') end -= 1
  return text.slice(0, end)
}

/** Joins key values by `|`; `|` and `\` in a value are escaped by a backslash. */
export function joinKey(values: readonly string[]): string {
  return values.map((value) => value.replace(/[\\|]/g, '\\$&')).join('|')
}

/** The key fields of a deleted item; empty when the text does not have that many parts. */
export function keyRecord(names: readonly string[], pk: string): Record<string, string> {
  const values = splitKey(pk, names.length) ?? []
  return Object.fromEntries(values.map((value, index) => [names[index] ?? '', value]))
}

/** Splits a text of joinKey; undefined when it does not have `count` values. */
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
