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
