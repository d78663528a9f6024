import { hash } from 'node:crypto'
import { isoText } from '../../domain/exact-time.ts'
import type { Reason } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import { compileExpression, type Expression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { mayUseField } from '../mapping/used-fields.ts'
import { type Item, invalidRecordReason, type SourceRow } from '../types.ts'
import { CanonicalError, createCanonicalizer } from './canonical.ts'

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

/** No key contains it, because a backslash in a value is escaped. */
const formerMark = '\\was:'

/**
 * The key of the record of a former identity: what an item had before a change gave it another one. `identity`: the values that
 * name it at the destination.
 */
export function formerKey(pk: string, identity: readonly string[]): string {
  return `${pk}${formerMark}${joinKey(identity)}`
}

/** The key of the item, of a record of the item itself or of a former identity. */
export function itemKey(pk: string): string {
  if (!pk.includes(formerMark)) return pk
  const end = /^(?:[^\\]|\\[\\|])*(?=\\was:)/.exec(pk)
  return end ? end[0] : pk
}

/** The key fields of a deleted item; empty when the text does not have that many parts. */
export function keyRecord(names: readonly string[], pk: string): Record<string, string> {
  const values = splitKey(itemKey(pk), names.length) ?? []
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

type ReadItem =
  | { item: Item }
  /** Excluded by the filter. */
  | { skipped: Reason; pk: string }
  /** `pk` is null when the record has no usable key. `mayPass`: a later evaluation may succeed. */
  | { problem: { pk: string | null; why: Reason; mayPass?: true } }

/** Changes with the form of items. Then every item counts as changed by definition and not by its source. */
export const itemVersion = 'h1'

const form = 'h2'

export type ItemReader = {
  /** Never rejects because of a record's content. */
  read(row: SourceRow): Promise<ReadItem>
}

const maxKeyLength = 1_024
/** Databases index at most 2,704 bytes, including the names of a flow and a destination. */
const maxKeyBytes = 2_400

/**
 * Creates items from records by the flow's rules: canonical form, key, filter and hash. The hash is its form, a colon, and the
 * SHA-256 of the canonical text in base64url.
 */
export function createItemReader(
  flow: Pick<Flow, 'item'> & Partial<Pick<Flow, 'destinations'>>,
): ItemReader {
  const { key, filter } = flow.item
  const canonical = createCanonicalizer(flow.item.hash, mayUseField(flow))
  const condition = filter === undefined ? undefined : compileExpression(filter)

  const pkOf = (row: SourceRow): string | null => {
    const found = keyOf(key, row)
    return 'pk' in found ? found.pk : null
  }
  const makeItem = (row: SourceRow): ReadItem => {
    const refused = invalidRecordReason(row)
    if (refused !== undefined) return { problem: { pk: pkOf(row), why: refused } }
    let made: ReturnType<typeof canonical>
    try {
      made = canonical(row)
    } catch (error) {
      if (!(error instanceof CanonicalError)) throw error
      return { problem: { pk: pkOf(row), why: error.why } }
    }
    const found = keyOf(key, made.value)
    if ('why' in found) return { problem: { pk: null, why: found.why } }
    const { pk, key: values } = found
    return { item: { pk, key: values, value: made.value, hash: hashOf(made.text) } }
  }

  return {
    read: async (row) => {
      const made = makeItem(row)
      return condition && 'item' in made ? await filtered(made.item, condition) : made
    },
  }
}

function hashOf(text: string): string {
  return `${form}:${hash('sha256', text, 'base64url')}`
}

async function filtered(item: Item, condition: Expression): Promise<ReadItem> {
  const { pk } = item
  try {
    if ((await condition.evaluate(item.value)) === true) return { item }
    return { skipped: { code: 'ITEM_FILTER_FALSE' }, pk }
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    const why: Reason = { code: 'ITEM_FILTER_FAILED', data: { what: error.why } }
    return { problem: { pk, why, ...(error.outOfTime && { mayPass: true }) } }
  }
}

function keyOf(
  names: readonly string[],
  record: Record<string, unknown>,
): { pk: string; key: string[] } | { why: Reason } {
  const values: string[] = []
  for (const name of names) {
    const data = { field: JSON.stringify(name) }
    const value = Object.hasOwn(record, name) ? record[name] : undefined
    if (value === undefined || value === null) {
      return { why: { code: 'ITEM_KEY_MISSING', data } }
    }
    const text = keyText(value)
    if (text === null) return { why: { code: 'ITEM_KEY_NOT_SINGLE', data } }
    if (text.trim() === '') return { why: { code: 'ITEM_KEY_BLANK', data } }
    values.push(text)
  }
  const pk = joinKey(values)
  if (pk.length > maxKeyLength) {
    return { why: { code: 'ITEM_KEY_TOO_LONG', data: { most: maxKeyLength } } }
  }
  if (Buffer.byteLength(pk) > maxKeyBytes) {
    return { why: { code: 'ITEM_KEY_TOO_MANY_BYTES', data: { most: maxKeyBytes } } }
  }
  return { pk, key: values }
}
