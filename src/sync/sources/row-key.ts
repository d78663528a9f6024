import { keyText } from '../item/key.ts'
import { type SourceRow, whyNoRecord } from '../types.ts'

/**
 * Whether the record belongs to the item: a database may compare loosely (case, trailing blanks, `'12abc' = 12` in
 * MySQL), and the records of another item must not be sent for this one. A record without a key field is kept, since
 * only the reader of items can say what is wrong with it; what is no record belongs to no item.
 */
export function hasKey(row: SourceRow, fields: readonly string[], key: readonly string[]): boolean {
  if (whyNoRecord(row) !== undefined) return false
  return fields.every((field, index) => {
    if (!Object.hasOwn(row, field)) return true
    return keyText(row[field]) === keyText(key[index])
  })
}

/** A key as one text: parts joined by a pipe, with a backslash before a pipe or backslash inside a part. */
export function joinKey(values: readonly string[]): string {
  if (values.length === 1) return values[0] ?? ''
  return values.map((value) => value.replace(/[\\|]/g, '\\$&')).join('|')
}

/** The key of a record as one text; null when a key field is missing or cannot be part of a key. */
export function rowKey(row: SourceRow, fields: readonly string[]): string | null {
  const texts = fields.map((field) => (Object.hasOwn(row, field) ? keyText(row[field]) : null))
  return texts.every((text) => text !== null) ? joinKey(texts) : null
}
