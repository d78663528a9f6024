import { keyText } from '../item/item.ts'
import { invalidRecordReason, type SourceRow } from '../types.ts'

/**
 * Whether the record has this key. Databases compare loosely (case, trailing blanks, `'12abc' = 12` in MySQL), so a query may
 * also return records of other items. A record without a key field is kept, because the item reader reports it. An invalid
 * record is dropped.
 */
export function hasKey(row: SourceRow, fields: readonly string[], key: readonly string[]): boolean {
  if (invalidRecordReason(row) !== undefined) return false
  return fields.every((field, index) => {
    if (!Object.hasOwn(row, field)) return true
    return keyText(row[field]) === keyText(key[index])
  })
}

/** A key as one text: parts joined by `|`; `|` and backslash inside a part are escaped by a backslash. */
export function joinKey(values: readonly string[]): string {
  if (values.length === 1) return values[0] ?? ''
  return values.map((value) => value.replace(/[\\|]/g, '\\$&')).join('|')
}

/** A record's key as one text; null when a key field is missing or invalid. */
export function rowKey(row: SourceRow, fields: readonly string[]): string | null {
  const texts = fields.map((field) => (Object.hasOwn(row, field) ? keyText(row[field]) : null))
  return texts.every((text) => text !== null) ? joinKey(texts) : null
}
