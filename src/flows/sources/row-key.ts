import type { Flow } from '../definition/schema.ts'
import { CanonicalError, createCanonicalizer } from '../item/canonical.ts'
import { joinKey, keyText } from '../item/item.ts'
import { invalidRecordReason, type SourceRow } from '../types.ts'

/** The text of a key field of a record; null for an invalid key value. */
type KeyReader = (row: SourceRow, field: string) => string | null

const asGiven: KeyReader = (row, field) => keyText(row[field])

/** Creates the reader that gives the text that items have as their key: `item.hash` may change it, as by `trim`. */
export function createKeyReader({ key, hash }: Pick<Flow['item'], 'key' | 'hash'>): KeyReader {
  const isAsGiven = !hash.trim && !key.some((field) => Object.hasOwn(hash.decimals, field))
  if (isAsGiven) return asGiven
  const canonical = createCanonicalizer(hash)
  return (row, field) => {
    try {
      return keyText(Object.values(canonical({ [field]: row[field] }).value)[0])
    } catch (error) {
      if (!(error instanceof CanonicalError)) throw error
      return asGiven(row, field)
    }
  }
}

/**
 * Whether the record has this key, as it is given or as `read` gives it. Databases compare loosely (case, trailing blanks,
 * `'12abc' = 12` in MySQL), so a query may also return records of other items. A record without a key field is kept,
 * because the item reader reports it. An invalid record is dropped.
 */
export function hasKey(
  row: SourceRow,
  fields: readonly string[],
  key: readonly string[],
  read: KeyReader = asGiven,
): boolean {
  if (invalidRecordReason(row) !== undefined) return false
  return fields.every((field, index) => {
    if (!Object.hasOwn(row, field)) return true
    const wanted = keyText(key[index])
    return asGiven(row, field) === wanted || read(row, field) === wanted
  })
}

/** A key as one text, as `:pk` in a query. A key of one part stays as it is. */
export function joinRowKey(values: readonly string[]): string {
  return values.length === 1 ? (values[0] ?? '') : joinKey(values)
}

/** A record's key as one text; null when a key field is missing or invalid. */
export function rowKey(
  row: SourceRow,
  fields: readonly string[],
  read: KeyReader = asGiven,
): string | null {
  const texts = fields.map((field) => (Object.hasOwn(row, field) ? read(row, field) : null))
  return texts.every((text) => text !== null) ? joinRowKey(texts) : null
}
