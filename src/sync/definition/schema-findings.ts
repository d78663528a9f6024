import type { z } from 'zod'
import { keyText, type Path, type PathFinding } from './findings.ts'
import { flowJsonSchema, type JsonSchema, schemasAt, valueAt } from './json-schema.ts'
import { didYouMean, nearest } from './nearest.ts'
import type { Finding } from './references.ts'

type Issue = z.core.$ZodIssue

let known: { schema: JsonSchema; homes: Map<string, string[]> } | undefined

function knownKeys() {
  if (known) return known
  const schema = flowJsonSchema()
  known = { schema, homes: homesOfKeys(schema) }
  return known
}

/** More would not be read. */
const maxUnknownKeys = 50

/**
 * Zod's issues in the words of an operator, with the likely fix. No finding repeats a value of the file: it may be a
 * secret in the wrong place.
 */
export function schemaFindings(issues: readonly Issue[], file: unknown): PathFinding[] {
  const findings = issues.flatMap((issue) => findingsOf(issue, file, []))
  const misspelt = new Set(
    findings.flatMap(({ path, meant }) => (meant ? [keyText([...path.slice(0, -1), meant])] : [])),
  )
  // The misspelt key is the fault; that the right one is missing follows from it.
  return findings
    .filter(({ path, isMissing }) => !isMissing || !misspelt.has(keyText(path)))
    .map(({ meant, isMissing, ...finding }) => finding)
}

/** `meant` is the key that a misspelt one stands for. */
type SchemaFinding = PathFinding & Wording
type Wording = Finding & { meant?: string | undefined; isMissing?: boolean }

function findingsOf(issue: Issue, file: unknown, under: Path): SchemaFinding[] {
  const path: Path = [...under, ...(issue.path as (string | number)[])]
  const given = valueAt(file, path)
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.slice(0, maxUnknownKeys).map((key) => ({
        path: [...path, key],
        isKey: true,
        ...unknownKey(key, path, file),
      }))
    case 'invalid_key':
      return [{ path, isKey: true, message: issue.issues[0]?.message ?? 'is not a usable key' }]
    case 'invalid_type':
      return [{ path, ...wrongType(issue.expected, given, issue.message) }]
    case 'invalid_value':
      return [{ path, ...wrongChoice(issue.values.map(String), given) }]
    case 'invalid_union': {
      if ('options' in issue && issue.options) {
        return [{ path, ...wrongChoice(issue.options.map(String), given) }]
      }
      if (given === undefined) return [{ path, ...missing }]
      return ofAlternatives(issue, file, path, given)
    }
    case 'custom':
      return [{ path, message: issue.message, ...hintOf(issue) }]
    case 'too_small':
    case 'too_big':
      return [{ path, message: rangeMessage(issue) }]
    default:
      return [{ path, message: issue.message }]
  }
}

/** Of several forms, the one that was meant is the one whose faults lie inside it; else all that can be said is both. */
function ofAlternatives(
  issue: Extract<Issue, { code: 'invalid_union' }>,
  file: unknown,
  path: Path,
  given: unknown,
): SchemaFinding[] {
  const meant = issue.errors.filter((issues) => !issues.some(isOtherForm))
  const [only] = meant
  if (meant.length === 1 && only) return only.flatMap((one) => findingsOf(one, file, path))
  const hint = given === null ? { hint: emptyHint } : {}
  return [{ path, message: issue.message, ...hint }]
}

function isOtherForm({ code, path }: Issue): boolean {
  return path.length === 0 && (code === 'invalid_type' || code === 'invalid_value')
}

function hintOf({ params }: Extract<Issue, { code: 'custom' }>): { hint?: string } {
  const hint: unknown = params?.hint
  return typeof hint === 'string' ? { hint } : {}
}

const missing = { message: 'is missing', isMissing: true }

const emptyHint = 'give it a value, or leave the key out'

const typeNames: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a group of keys',
  record: 'a group of keys',
  array: 'a list',
}

function wrongType(expected: string, given: unknown, message: string): Wording {
  if (given === undefined) return missing
  const own = message.startsWith('Invalid input') ? undefined : message
  const found = kindOf(given)
  const finding = { message: own ?? `must be ${typeNames[expected] ?? expected}, not ${found}` }
  const hint = typeHint(expected, given)
  return hint === undefined ? finding : { ...finding, hint }
}

function typeHint(expected: string, given: unknown): string | undefined {
  if (given === null) return emptyHint
  const isPlain = typeof given === 'number' || typeof given === 'boolean'
  if (expected === 'string') {
    if (isPlain) return 'put it in quotes'
    if (typeof given === 'object') return 'put it in quotes, or on its own lines after |'
  }
  if (expected === 'array') return 'write [a, b], or a line with - for each entry'
  if (expected === 'boolean' && typeof given === 'string') return 'write true or false, no quotes'
  if (['number', 'int'].includes(expected) && typeof given === 'string') {
    return 'write the number, no quotes'
  }
  return undefined
}

function kindOf(value: unknown): string {
  if (value === null) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  return typeNames[typeof value] ?? typeof value
}

function wrongChoice(options: readonly string[], given: unknown): Wording {
  const list = options.join(', ')
  if (given === undefined) {
    return { ...missing, hint: options.length === 1 ? `write ${list}` : `one of ${list}` }
  }
  const message = options.length === 1 ? `must be ${list}` : `must be one of ${list}`
  const hint = typeof given === 'string' ? didYouMean(given, options) : undefined
  return hint === undefined ? { message } : { message, hint }
}

function rangeMessage(issue: Extract<Issue, { code: 'too_small' | 'too_big' }>): string {
  if (/^must /.test(issue.message)) return issue.message
  const isSmall = issue.code === 'too_small'
  const limit = String(isSmall ? issue.minimum : issue.maximum)
  if (issue.origin === 'array') {
    return isSmall ? `must have at least ${entries(limit)}` : `must have at most ${entries(limit)}`
  }
  if (issue.origin === 'string') {
    if (isSmall) return limit === '1' ? 'must not be empty' : `must be at least ${limit} characters`
    return `must be at most ${limit} characters`
  }
  if (isSmall) return `must be ${issue.inclusive ? 'at least' : 'more than'} ${limit}`
  return `must be ${issue.inclusive ? 'at most' : 'less than'} ${limit}`
}

function entries(limit: string): string {
  return `${limit} ${limit === '1' ? 'entry' : 'entries'}`
}

function unknownKey(key: string, path: Path, file: unknown): Wording {
  const message = 'is not a known key'
  const { schema, homes } = knownKeys()
  const here = schemasAt(schema, file, path).flatMap((one) => Object.keys(one.properties ?? {}))
  const names = [...new Set(here)]
  const meant = nearest(key, names)
  if (meant !== undefined) return { message, hint: `did you mean ${meant}?`, meant }
  // A key of another kind of source or destination is at home in the same place.
  const at = keyText(path).replace(/\[\d+\]/g, '[]')
  const home = homes.get(key)?.find((one) => one !== at)
  if (home !== undefined) return { message, hint: `it belongs to ${home}` }
  return names.length > 0 ? { message, hint: `known here: ${names.join(', ')}` } : { message }
}

/** Where keys of a name are at home, nearest to the top first. */
function homesOfKeys(schema: JsonSchema): Map<string, string[]> {
  const homes = new Map<string, string[]>()
  let level: { at: string; schema: JsonSchema }[] = [{ at: '', schema }]
  while (level.length > 0) {
    const below: typeof level = []
    for (const { at, schema: one } of level) {
      for (const option of one.anyOf ?? one.oneOf ?? []) below.push({ at, schema: option })
      if (one.items) below.push({ at: `${at}[]`, schema: one.items })
      for (const [name, property] of Object.entries(one.properties ?? {})) {
        below.push({ at: at === '' ? name : `${at}.${name}`, schema: property })
        homes.set(name, [...(homes.get(name) ?? []), at === '' ? 'the top of the file' : at])
      }
    }
    level = below
  }
  return homes
}
