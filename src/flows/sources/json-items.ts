import { isRecord } from '../../domain/json.ts'
import { kindOf, type Reason } from '../../texts/reason.ts'
import { invalidRecord, invalidRecordReason, SourceError, type SourceRow } from '../types.ts'

/** The value at `path` (names joined by dots; the whole document without a path); undefined when a name is missing. */
export function valueAtNames(document: unknown, path: string | undefined): unknown {
  if (path === undefined) return document
  let value = document
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/**
 * The records of a list. An entry that is not an object becomes an invalid record.
 *
 * Throws SourceError when the value is not a list: many servers report a failure as null, nothing or an object, which must not
 * count as zero records. Also throws when no entry is an object, unless the read `hadRecords` before.
 */
export function recordsOf(
  list: unknown,
  path: string | undefined,
  hadRecords = false,
): SourceRow[] {
  const place: Reason =
    path === undefined ? { code: 'THE_ANSWER' } : { code: 'THE_ITEMS', data: { path } }
  if (!Array.isArray(list)) {
    throw new SourceError({ code: 'LIST_MISPLACED', data: { place, kind: kindOf(list) } })
  }
  const refused = (entry: unknown, index: number): Reason => ({
    code: 'ENTRY_NO_OBJECT',
    data: { record: index + 1, place, kind: kindOf(entry) },
  })
  if (list.length > 0 && !hadRecords && !list.some(isRecord)) {
    throw new SourceError({ code: 'NO_ENTRY_OBJECT', data: { place, what: refused(list[0], 0) } })
  }
  return list.map((entry, index) =>
    isRecord(entry) ? entry : invalidRecord(refused(entry, index)),
  )
}

/** Returns records unchanged. For an invalid record, adds its place to the reason. */
export function withPlace(atPlace: (why: Reason) => Reason): (row: SourceRow) => SourceRow {
  return (row) => {
    const why = invalidRecordReason(row)
    return why === undefined ? row : invalidRecord(atPlace(why))
  }
}
