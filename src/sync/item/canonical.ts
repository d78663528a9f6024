import { weightOf } from '../mapping/weight.ts'
import { UnreadableValue } from '../types.ts'
import { fixedDecimals } from './decimals.ts'
import { isoText } from './exact-time.ts'

export type HashRules = {
  /** Fields left out of the text but kept in the value; `a.b` is the field b of a, or of every entry of the list a. */
  ignore: readonly string[]
  trim: boolean
  emptyAsNull: boolean
  /** Field (as in `ignore`): count of decimals. */
  decimals: Readonly<Record<string, number>>
}

/** The record as plain JSON values with sorted keys, and its canonical JSON text without the ignored fields. */
export type Canonical = { value: Record<string, unknown>; text: string }

/** A record that has no canonical form; `message` names the field and the reason. */
export class CanonicalError extends Error {}

const maxDepth = 32
/** An item is hashed, mapped and written in one go each, on the thread that serves the tills. */
const maxCharacters = 1_048_576
const maxValues = 50_000
/** Of one record or object in it; more than any database allows in a table. */
const maxNames = 4_096
// Text without these is NFC, well formed and free of NUL: the common case is settled by one test.
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what is looked for
const needsCare = /\u0000|[\u0300-\uffff]/

type Field = {
  name: string
  /** The name as JSON text and a colon. */
  label: string
  path: string
  ignored: boolean
  decimals: number | undefined
}
type Part = { value: unknown; text: string }

/**
 * Makes the function that turns records into their canonical form: keys sorted by code unit, dates ISO UTC, text NFC,
 * numbers as JavaScript writes them (or fixed decimals as text), bigint as it is, bytes as base64, undefined
 * dropped. It throws CanonicalError for what JSON or the database cannot hold: NaN, Infinity, functions, lists with
 * holes, cycles (depth over 32), broken UTF-16, NUL, objects of a class, the field name __proto__, and for more than 50,000
 * values or 1 Mi characters.
 */
export function createCanonicalizer(rules: HashRules): (record: object) => Canonical {
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
      throw new CanonicalError(
        `the item is longer than ${maxCharacters} characters, most of them in ${largest(current)}; leave it out`,
      )
    }
    if (valueCount > maxValues) {
      throw new CanonicalError(
        `the item has more than ${maxValues} values, most of them in ${largest(current)}; is its key right?`,
      )
    }
  }

  const field = (name: string, parent: string): Field => {
    if (name === '__proto__') throw new CanonicalError('a field must not be called __proto__')
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

  /** `owner` is the field that has them; '' is the item itself. */
  const fieldsOf = (names: readonly string[], parent: string, owner: string): Named[] => {
    // Counted before they are sorted.
    if (names.length > maxNames) {
      const where = owner === '' ? 'the item' : `the field ${JSON.stringify(owner)}`
      throw new CanonicalError(`${where} has more than ${maxNames} fields`)
    }
    return sorted(names.map((name) => named(name, field(name, parent))))
  }

  const scalar = (value: string | number | bigint, place: Field): Part => {
    if (typeof value === 'number' && !Number.isFinite(value)) refuse(place.path, `is ${value}`)
    if (typeof value === 'string') count(value.length)
    let clean = typeof value === 'string' ? text(value, place.path) : value
    if (typeof clean === 'string') {
      if (rules.trim) clean = clean.trim()
      if (clean === '' && rules.emptyAsNull) return nothing
    }
    if (place.decimals !== undefined) {
      clean =
        fixedDecimals(clean, place.decimals) ??
        refuse(place.path, 'is no number with a decimal point, but hash.decimals names it')
    }
    if (typeof clean === 'number') {
      // Also for -0, which is written as 0 and compares as 0.
      const number = clean === 0 ? 0 : clean
      return { value: number, text: String(number) }
    }
    // Of a bigint, which is no number to compute with, the digits are what counts.
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
        return refuse(place.path, `is a ${typeof value}`)
    }
    if (value === null) return nothing
    if (value instanceof UnreadableValue) {
      return place.ignored ? nothing : refuse(place.path, value.reason)
    }
    if (depth > maxDepth) refuse(place.path, `is deeper than ${maxDepth} levels`)
    if (value instanceof Date) return date(value, place.path)
    if (value instanceof Uint8Array) {
      count(value.length)
      return quoted(Buffer.from(value).toString('base64'))
    }
    if (Array.isArray(value)) return list(value, place, depth)
    const prototype = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) {
      refuse(place.path, `is an object of the class ${prototype.constructor?.name}`)
    }
    const parent = nested ? place.path : ''
    const fields = fieldsOf(Object.keys(value), parent, place.path)
    return record(value as Record<string, unknown>, fields, depth)
  }

  const list = (values: unknown[], place: Field, depth: number): Part => {
    const parts: Part[] = []
    for (let index = 0; index < values.length; index++) {
      parts.push(part(values[index], place, depth + 1) ?? refuse(place.path, 'has a hole'))
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

  // The records of a source have the same columns in the same order: they are sorted once.
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

/** `source` is the name as the record has it, `field.name` the same in NFC. */
type Named = { source: string; field: Field }

function named(source: string, field: Field): Named {
  return { source, field }
}

function sorted(fields: Named[]): Named[] {
  fields.sort((left, right) => (left.field.name < right.field.name ? -1 : 1))
  for (let index = 1; index < fields.length; index++) {
    const { name, path } = (fields[index] as Named).field
    if (name === fields[index - 1]?.field.name) refuse(path, 'is there twice')
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
  if (value.includes('\0')) refuse(path, 'holds the character NUL')
  if (!value.isWellFormed()) refuse(path, 'holds half a character (invalid UTF-16)')
  return value.normalize('NFC')
}

function date(value: Date, path: string): Part {
  if (Number.isNaN(value.getTime())) return refuse(path, 'is no valid date')
  return quoted(isoText(value))
}

function quoted(value: string): Part {
  return { value, text: JSON.stringify(value) }
}

/** The field to look at when a record is too large. */
function largest(record: object): string {
  let name = ''
  let most = -1
  for (const [field, value] of Object.entries(record)) {
    const weight = weightOf(value, 2 * maxCharacters)
    if (weight > most) [name, most] = [field, weight]
  }
  return `the field ${JSON.stringify(name.slice(0, 128))}`
}

function refuse(path: string, reason: string): never {
  throw new CanonicalError(`the field ${JSON.stringify(path)} ${reason}`)
}
