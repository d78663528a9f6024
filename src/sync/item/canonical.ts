import { fixedDecimals } from './decimals.ts'

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
 * numbers as JavaScript writes them (or fixed decimals as text), bigint as exact text, bytes as base64, undefined
 * dropped. It throws CanonicalError for what JSON or the database cannot hold: NaN, Infinity, functions, lists with
 * holes, cycles (depth over 32), broken UTF-16, NUL, objects of a class, the field name __proto__.
 */
export function createCanonicalizer(rules: HashRules): (record: object) => Canonical {
  const ignored = new Set(rules.ignore)
  const decimals = new Map(Object.entries(rules.decimals))
  const nested = [...ignored, ...decimals.keys()].some((name) => name.includes('.'))

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

  const scalar = (value: string | number | bigint, place: Field): Part => {
    if (typeof value === 'number' && !Number.isFinite(value)) refuse(place.path, `is ${value}`)
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
    const exact = String(clean)
    return { value: exact, text: JSON.stringify(exact) }
  }

  const part = (value: unknown, place: Field, depth: number): Part | undefined => {
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
    if (depth > maxDepth) refuse(place.path, `is deeper than ${maxDepth} levels`)
    if (value instanceof Date) return date(value, place.path)
    if (value instanceof Uint8Array) return quoted(Buffer.from(value).toString('base64'))
    if (Array.isArray(value)) return list(value, place, depth)
    const prototype = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) {
      refuse(place.path, `is an object of the class ${prototype.constructor?.name}`)
    }
    const parent = nested ? place.path : ''
    const fields = sorted(Object.keys(value).map((name) => named(name, field(name, parent))))
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
    const names = Object.keys(given)
    if (!sameNames(names, columns)) {
      fields = sorted(names.map((name) => named(name, field(name, ''))))
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
  return quoted(value.toISOString())
}

function quoted(value: string): Part {
  return { value, text: JSON.stringify(value) }
}

function refuse(path: string, reason: string): never {
  throw new CanonicalError(`the field ${JSON.stringify(path)} ${reason}`)
}
