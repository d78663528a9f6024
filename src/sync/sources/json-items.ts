import { noRecord, SourceError, type SourceRow, whyNoRecord } from '../types.ts'

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
 * The records of a list; an entry that is no object stands among them as one that is refused. Throws SourceError when it is no
 * list: nothing, null or an object in its place is how many servers tell a failure, and must not count as a source without records.
 * Also when it has entries and no object at all, which is the list of something else, unless the read `hadRecords` before.
 */
export function recordsOf(
  list: unknown,
  path: string | undefined,
  hadRecords = false,
): SourceRow[] {
  const place = path === undefined ? 'the answer' : `items (${path})`
  if (!Array.isArray(list)) throw new SourceError(`${place} is ${kindOf(list)}, not a list`)
  const refused = (entry: unknown, index: number) =>
    `record ${index + 1} of ${place} is ${kindOf(entry)}, not an object`
  if (list.length > 0 && !hadRecords && !list.some(isRecord)) {
    throw new SourceError(`no record of ${place} is an object: ${refused(list[0], 0)}`)
  }
  return list.map((entry, index) => (isRecord(entry) ? entry : noRecord(refused(entry, index))))
}

/** The same record; of an entry that is none the reason with what the caller knows of its place. */
export function placed(row: SourceRow, place: string): SourceRow {
  const reason = whyNoRecord(row)
  return reason === undefined ? row : noRecord(`${place} ${reason}`)
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
