import { isoText } from '../../domain/exact-time.ts'
import { type Reason, ReasonError } from '../../texts/reason.ts'
import { estimateJsonSize } from '../mapping/json-size.ts'
import { UnreadableValue } from '../types.ts'

export type HashRules = {
  /** Fields that stay in the value but are not in the text. `a.b` is field b of a, or of every entry of the list a. */
  ignore: readonly string[]
  trim: boolean
  emptyAsNull: boolean
  /** Number of decimals by field (written as in `ignore`). */
  decimals: Readonly<Record<string, number>>
}

/** The record as plain JSON values with sorted keys, and its canonical JSON text without the ignored fields. */
type Canonical = { value: Record<string, unknown>; text: string }

/** The record has no canonical form. */
export class CanonicalError extends ReasonError {}

const maxDepth = 32
/** An item is hashed, mapped and written in one step each, on the thread that serves the tills. */
const maxCharacters = 1_048_576
const maxValues = 50_000
/** Fields of one record or nested object; more than any database allows in a table. */
const maxNames = 4_096
// Text without these is NFC, well formed and free of NUL: the common case is settled by one test.
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what is looked for
const needsCare = /\u0000|[\u0300-\uffff]/

type Field = {
  name: string
  /** The name as JSON text, followed by a colon. */
  label: string
  path: string
  ignored: boolean
  decimals: number | undefined
}
type Part = { value: unknown; text: string }

/**
 * Creates the function that converts records to canonical form: keys sorted by code unit, dates in ISO UTC, text in NFC, bytes
 * as base64. Numbers are as JavaScript writes them, or text with fixed decimals; bigint stays; undefined fields are dropped.
 *
 * It throws CanonicalError for values that JSON or the database cannot store: NaN, Infinity, functions, sparse lists, cycles
 * (depth over 32), broken UTF-16, NUL, class instances and the field name __proto__. It also throws for more than 50,000
 * values or 1 Mi characters, and for an unreadable value of a field that is hashed or that `isUsed`.
 */
export function createCanonicalizer(
  rules: HashRules,
  isUsed: (field: string) => boolean = () => false,
): (record: object) => Canonical {
  const ignored = new Set(rules.ignore)
  const decimals = new Map(Object.entries(rules.decimals))
  const nested = [...ignored, ...decimals.keys()].some((name) => name.includes('.'))

  let current: object = {}
  let characters = 0
  let valueCount = 0
  const count = (length: number) => {
    characters += length
    valueCount += 1
    if (characters > maxCharacters) {
      throw new CanonicalError({
        code: 'ITEM_TOO_LONG',
        data: { most: maxCharacters, field: largest(current) },
      })
    }
    if (valueCount > maxValues) {
      throw new CanonicalError({
        code: 'ITEM_TOO_MANY_VALUES',
        data: { most: maxValues, field: largest(current) },
      })
    }
  }

  const field = (name: string, parent: string): Field => {
    if (name === '__proto__') throw new CanonicalError({ code: 'FIELD_NAME_RESERVED' })
    const path = parent === '' ? name : `${parent}.${name}`
    const clean = text(name, path)
    return {
      name: clean,
      label: `${JSON.stringify(clean)}:`,
      path,
      ignored: ignored.has(path),
      decimals: decimals.get(path),
    }
  }

  /** `owner` is the field that contains these names; '' is the item itself. */
  const fieldsOf = (names: readonly string[], parent: string, owner: string): Named[] => {
    // Checked before sorting.
    if (names.length > maxNames) {
      throw new CanonicalError(
        owner === ''
          ? { code: 'ITEM_TOO_MANY_FIELDS', data: { most: maxNames } }
          : {
              code: 'OBJECT_TOO_MANY_FIELDS',
              data: { field: JSON.stringify(owner), most: maxNames },
            },
      )
    }
    return sorted(names.map((name) => named(name, field(name, parent))))
  }

  const scalar = (value: string | number | bigint, place: Field): Part => {
    if (typeof value === 'number' && !Number.isFinite(value)) {
      refuse(place.path, { code: 'FIELD_NOT_FINITE', data: { value: String(value) } })
    }
    if (typeof value === 'string') count(value.length)
    let clean = typeof value === 'string' ? text(value, place.path) : value
    if (typeof clean === 'string') {
      if (rules.trim) clean = clean.trim()
      if (clean === '' && rules.emptyAsNull) return nothing
    }
    if (place.decimals !== undefined) {
      clean =
        fixedDecimals(clean, place.decimals) ?? refuse(place.path, { code: 'FIELD_NO_DECIMAL' })
    }
    if (typeof clean === 'number') {
      // This also changes -0, which is written as 0 and compares equal to 0.
      const number = clean === 0 ? 0 : clean
      return { value: number, text: String(number) }
    }
    // A bigint is not used for calculation, so its digits are hashed as text.
    return { value: clean, text: JSON.stringify(String(clean)) }
  }

  const part = (value: unknown, place: Field, depth: number): Part | undefined => {
    if (typeof value !== 'string') count(0)
    switch (typeof value) {
      case 'string':
      case 'number':
      case 'bigint':
        return scalar(value, place)
      case 'boolean':
        return { value, text: String(value) }
      case 'undefined':
        return undefined
      case 'object':
        break
      default:
        return refuse(place.path, { code: 'FIELD_IS', data: { type: typeof value } })
    }
    if (value === null) return nothing
    if (value instanceof UnreadableValue) {
      const isNeeded = !place.ignored || isUsed(place.path.split('.', 1)[0] as string)
      return isNeeded ? refuse(place.path, value.why) : nothing
    }
    if (depth > maxDepth) {
      refuse(place.path, { code: 'FIELD_TOO_DEEP', data: { most: maxDepth } })
    }
    if (value instanceof Date) return date(value, place.path)
    if (value instanceof Uint8Array) {
      count(value.length)
      return quoted(Buffer.from(value).toString('base64'))
    }
    if (Array.isArray(value)) return list(value, place, depth)
    const prototype = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) {
      const name = String(prototype.constructor?.name)
      refuse(place.path, { code: 'FIELD_OF_CLASS', data: { name } })
    }
    const parent = nested ? place.path : ''
    const fields = fieldsOf(Object.keys(value), parent, place.path)
    return record(value as Record<string, unknown>, fields, depth)
  }

  const list = (values: unknown[], place: Field, depth: number): Part => {
    const parts: Part[] = []
    for (let index = 0; index < values.length; index++) {
      parts.push(
        part(values[index], place, depth + 1) ?? refuse(place.path, { code: 'FIELD_WITH_HOLE' }),
      )
    }
    return {
      value: parts.map(({ value }) => value),
      text: `[${parts.map(({ text }) => text).join(',')}]`,
    }
  }

  const record = (values: Record<string, unknown>, fields: Named[], depth: number) => {
    const value: Record<string, unknown> = {}
    let text = ''
    for (const { source, field: place } of fields) {
      const made = part(values[source], place, depth + 1)
      if (made === undefined) continue
      value[place.name] = made.value
      if (place.ignored) continue
      text += text === '' ? place.label + made.text : `,${place.label}${made.text}`
    }
    return { value, text: `{${text}}` }
  }

  // The records of a source have the same columns in the same order, so the columns are sorted once.
  let columns: string[] = []
  let fields: Named[] = []
  return (given) => {
    current = given
    characters = 0
    valueCount = 0
    const names = Object.keys(given)
    if (!sameNames(names, columns)) {
      fields = fieldsOf(names, '', '')
      columns = names
    }
    return record(given as Record<string, unknown>, fields, 0)
  }
}

const nothing: Part = { value: null, text: 'null' }

/** `source` is the name as in the record, `field.name` the same in NFC. */
type Named = { source: string; field: Field }

function named(source: string, field: Field): Named {
  return { source, field }
}

function sorted(fields: Named[]): Named[] {
  fields.sort((left, right) => (left.field.name < right.field.name ? -1 : 1))
  for (let index = 1; index < fields.length; index++) {
    const { name, path } = (fields[index] as Named).field
    if (name === fields[index - 1]?.field.name) refuse(path, { code: 'FIELD_TWICE' })
  }
  return fields
}

function sameNames(left: readonly string[], right: readonly string[]): boolean {
  if (left.length !== right.length) return false
  for (let index = 0; index < left.length; index++) {
    if (left[index] !== right[index]) return false
  }
  return true
}

function text(value: string, path: string): string {
  if (!needsCare.test(value)) return value
  if (value.includes('\0')) refuse(path, { code: 'FIELD_WITH_NUL' })
  if (!value.isWellFormed()) refuse(path, { code: 'FIELD_BROKEN_UNICODE' })
  return value.normalize('NFC')
}

function date(value: Date, path: string): Part {
  if (Number.isNaN(value.getTime())) return refuse(path, { code: 'FIELD_NO_DATE' })
  return quoted(isoText(value))
}

function quoted(value: string): Part {
  return { value, text: JSON.stringify(value) }
}

/** The largest field of a record that is too large. */
function largest(record: object): string {
  let name = ''
  let most = -1
  for (const [field, value] of Object.entries(record)) {
    const weight = estimateJsonSize(value, 2 * maxCharacters)
    if (weight > most) [name, most] = [field, weight]
  }
  return JSON.stringify(name.slice(0, 128))
}

function refuse(path: string, what: Reason): never {
  throw new CanonicalError({ code: 'FIELD_REFUSED', data: { field: JSON.stringify(path), what } })
}

/** Limits the digits: calculating with a million digits takes seconds. */
const decimalText = /^([+-]?)(\d{0,1000})(?:\.(\d{0,1000}))?(?:[eE]([+-]?\d{1,3}))?$/

/**
 * The number as text with a fixed count of decimals, rounded half away from zero. It works on the digits, so that values
 * beyond a double stay exact. Undefined when the text is not a number with a decimal point.
 */
export function fixedDecimals(
  given: string | number | bigint,
  decimals: number,
): string | undefined {
  const match = decimalText.exec(String(given).trim())
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match ?? []
  if (!match || whole + fraction === '') return undefined
  const digits = whole + fraction
  // Position of the decimal point in `digits`; it may be outside of them.
  const point = whole.length + Number(exponent)
  const padded = point < 0 ? '0'.repeat(-point) + digits : digits
  const start = Math.max(point, 0)
  const kept = padded.padEnd(start + decimals, '0').slice(0, start + decimals)
  const next = padded[start + decimals] ?? '0'
  const rounded = BigInt(kept || '0') + (next >= '5' ? 1n : 0n)
  const text = rounded.toString().padStart(decimals + 1, '0')
  const minus = sign === '-' && rounded !== 0n ? '-' : ''
  if (decimals === 0) return minus + text
  return `${minus}${text.slice(0, -decimals)}.${text.slice(-decimals)}`
}
