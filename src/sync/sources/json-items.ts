import { SourceError, type SourceRow } from '../types.ts'

/** What stands at `path` (names joined by dots; the whole without one); undefined when a name on the way is missing. */
export function valueAt(document: unknown, path: string | undefined): unknown {
  if (path === undefined) return document
  let value = document
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/**
 * The records of a list. Throws SourceError when it is none: nothing, null or an object in place of the list is how many
 * servers tell a failure, and must not count as a source without records.
 */
export function recordsOf(list: unknown, path: string | undefined): SourceRow[] {
  const place = path === undefined ? 'the answer' : `items (${path})`
  if (!Array.isArray(list)) throw new SourceError(`${place} is ${kindOf(list)}, not a list`)
  const wrong = list.findIndex((record) => !isRecord(record))
  if (wrong !== -1) {
    const kind = kindOf(list[wrong])
    throw new SourceError(`record ${wrong + 1} of ${place} is ${kind}, not an object`)
  }
  return list
}

export function isRecord(value: unknown): value is SourceRow {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What a value is, in words, without showing it. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'missing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
