/** A URL-encoded form as a record without a prototype; a repeated name gives the list of its values. */
export function parseForm(text: string): Record<string, unknown> {
  const fields: Record<string, unknown> = Object.create(null)
  const params = new URLSearchParams(text)
  for (const name of params.keys()) {
    const values = params.getAll(name)
    fields[name] = values.length === 1 ? values[0] : values
  }
  return fields
}

/** One text of a query or form; undefined when it is absent or repeated. */
export function oneText(source: unknown, name: string): string | undefined {
  if (typeof source !== 'object' || source === null || !Object.hasOwn(source, name))
    return undefined
  const value: unknown = Reflect.get(source, name)
  return typeof value === 'string' ? value : undefined
}
