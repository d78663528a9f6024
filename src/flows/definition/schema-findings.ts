import type { z } from 'zod'
import type { Reason } from '../../texts/reason.ts'
import { nearestWord } from './did-you-mean.ts'
import { type Path, type PathFinding, pathText } from './findings.ts'
import { flowJsonSchema, type JsonSchema, schemasAt, valueAt } from './json-schema.ts'
import type { Finding } from './secret-references.ts'
import { findingIn } from './value-schemas.ts'

type Issue = z.core.$ZodIssue

let known: { schema: JsonSchema; validPlaces: Map<string, string[]> } | undefined

function knownKeys() {
  if (known) return known
  const schema = flowJsonSchema()
  known = { schema, validPlaces: validPlacesOfKeys(schema) }
  return known
}

/** Users would not read more. */
const maxUnknownKeys = 50

/**
 * Converts Zod's issues to findings for operators, with the likely correction. No finding contains a value of the file,
 * because it may be a misplaced secret.
 */
export function schemaFindings(issues: readonly Issue[], file: unknown): PathFinding[] {
  const findings = issues.flatMap((issue) => findingsOf(issue, file, []))
  const misspelt = new Set(
    findings.flatMap(({ path, meant }) => (meant ? [pathText([...path.slice(0, -1), meant])] : [])),
  )
  // A misspelt key is the error; the finding that the correct key is missing is redundant.
  return findings
    .filter(({ path, isMissing }) => !isMissing || !misspelt.has(pathText(path)))
    .map(({ meant, isMissing, ...finding }) => finding)
}

/** `meant` is the correct spelling of a misspelt key. */
type SchemaFinding = PathFinding & Wording
type Wording = Finding & { meant?: string | undefined; isMissing?: boolean }

/** The findings of one Zod issue; `under` is the path of the value that was checked. */
export function findingsOf(issue: Issue, file: unknown, under: Path): SchemaFinding[] {
  const path: Path = [...under, ...(issue.path as (string | number)[])]
  const given = valueAt(file, path)
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.slice(0, maxUnknownKeys).map((key) => ({
        path: [...path, key],
        isKey: true,
        ...unknownKey(key, path, file),
      }))
    case 'invalid_key': {
      const own = findingIn(issue.issues[0]?.message ?? '')
      return [{ path, isKey: true, ...(own ?? { why: { code: 'UNUSABLE_KEY' } }) }]
    }
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
    case 'too_small':
    case 'too_big':
      return [{ path, ...(findingIn(issue.message) ?? { why: beyondRange(issue) }) }]
    default:
      return [{ path, ...findingOf(issue) }]
  }
}

/**
 * If only one alternative has errors below its top level, that one was meant and its errors are shown. Otherwise one general
 * finding.
 */
function ofAlternatives(
  issue: Extract<Issue, { code: 'invalid_union' }>,
  file: unknown,
  path: Path,
  given: unknown,
): SchemaFinding[] {
  const meant = issue.errors.filter((issues) => !issues.some(isOtherForm))
  const [only] = meant
  if (meant.length === 1 && only) return only.flatMap((one) => findingsOf(one, file, path))
  return [{ path, ...findingOf(issue), ...(given === null && { hint: emptyHint }) }]
}

function isOtherForm({ code, path }: Issue): boolean {
  return path.length === 0 && (code === 'invalid_type' || code === 'invalid_value')
}

/** The finding in the message, else Zod's own message. */
function findingOf({ message }: Issue): Finding {
  return findingIn(message) ?? { why: { code: 'NOT_VALID', data: { said: message } } }
}

const missing: Wording = { why: { code: 'KEY_MISSING' }, isMissing: true }

const emptyHint: Reason = { code: 'GIVE_A_VALUE' }

const typeNames: Readonly<Record<string, Reason>> = {
  string: { code: 'TYPE_TEXT' },
  number: { code: 'KIND_NUMBER' },
  int: { code: 'TYPE_WHOLE_NUMBER' },
  boolean: { code: 'TYPE_BOOLEAN' },
  object: { code: 'TYPE_GROUP' },
  record: { code: 'TYPE_GROUP' },
  array: { code: 'KIND_LIST' },
}

function wrongType(expected: string, given: unknown, message: string): Wording {
  if (given === undefined) return missing
  const data = { expected: typeNames[expected] ?? expected, found: typeOf(given) }
  const own = findingIn(message) ?? { why: { code: 'WRONG_TYPE', data } }
  return { ...own, hint: typeHint(expected, given) }
}

function typeHint(expected: string, given: unknown): Reason | undefined {
  if (given === null) return emptyHint
  const isPlain = typeof given === 'number' || typeof given === 'boolean'
  if (expected === 'string') {
    if (isPlain) return { code: 'WRITE_IN_QUOTES' }
    if (typeof given === 'object') return { code: 'WRITE_IN_QUOTES_OR_LINES' }
  }
  if (expected === 'array') return { code: 'WRITE_A_LIST' }
  if (expected === 'boolean' && typeof given === 'string') return { code: 'WRITE_TRUE_OR_FALSE' }
  if (['number', 'int'].includes(expected) && typeof given === 'string') {
    return { code: 'WRITE_THE_NUMBER' }
  }
  return undefined
}

function typeOf(value: unknown): Reason | string {
  if (value === null) return { code: 'KIND_NOTHING' }
  if (Array.isArray(value)) return { code: 'KIND_LIST' }
  return typeNames[typeof value] ?? typeof value
}

function wrongChoice(options: readonly string[], given: unknown): Wording {
  const list = options.join(', ')
  const isOne = options.length === 1
  const oneOf: Reason = { code: 'ONE_OF', data: { options: list } }
  if (given === undefined) {
    return { ...missing, hint: isOne ? { code: 'WRITE_WORD', data: { word: list } } : oneOf }
  }
  const hint = typeof given === 'string' ? choiceHint(given, options) : undefined
  return { why: { code: 'WRONG_CHOICE', data: { options: isOne ? list : oneOf } }, hint }
}

function choiceHint(given: string, options: readonly string[]): Reason | undefined {
  const word = nearestWord(given, options)
  if (word === undefined) return undefined
  return { code: word === given ? 'WRITE_WITHOUT_QUOTES' : 'MEANT', data: { word } }
}

function beyondRange(issue: Extract<Issue, { code: 'too_small' | 'too_big' }>): Reason {
  const isSmall = issue.code === 'too_small'
  const limit = String(isSmall ? issue.minimum : issue.maximum)
  if (issue.origin === 'array') {
    const entries: Reason =
      limit === '1' ? { code: 'ONE_ENTRY' } : { code: 'ENTRIES', data: { count: limit } }
    return { code: isSmall ? 'TOO_FEW_ENTRIES' : 'TOO_MANY_ENTRIES', data: { entries } }
  }
  if (issue.origin === 'string') {
    if (isSmall && limit === '1') return { code: 'MUST_NOT_BE_EMPTY' }
    return { code: isSmall ? 'AT_LEAST_CHARACTERS' : 'AT_MOST_CHARACTERS', data: { limit } }
  }
  if (isSmall) return { code: issue.inclusive ? 'AT_LEAST' : 'MORE_THAN', data: { limit } }
  return { code: issue.inclusive ? 'AT_MOST' : 'LESS_THAN', data: { limit } }
}

function unknownKey(key: string, path: Path, file: unknown): Wording {
  const unknown = (data: { meant?: string; home?: Reason | string; known?: string }): Finding => ({
    why: { code: 'UNKNOWN_KEY', data },
  })
  const { schema, validPlaces } = knownKeys()
  const here = schemasAt(schema, file, path).flatMap((one) => Object.keys(one.properties ?? {}))
  const names = [...new Set(here)]
  const meant = nearestWord(key, names)
  if (meant !== undefined) return { ...unknown({ meant }), meant }
  // Kinds of sources and destinations have different keys in the same place, so that place is no hint.
  const at = pathText(path).replace(/\[\d+\]/g, '[]')
  const place = validPlaces.get(key)?.find((one) => one !== at)
  if (place !== undefined) {
    return unknown({ home: place === topOfFile ? { code: 'TOP_OF_FILE' } : place })
  }
  return unknown(names.length > 0 ? { known: names.join(', ') } : {})
}

const topOfFile = ''

/** The places where each key name is valid, the highest level first. */
function validPlacesOfKeys(schema: JsonSchema): Map<string, string[]> {
  const validPlaces = new Map<string, string[]>()
  let level: { at: string; schema: JsonSchema }[] = [{ at: '', schema }]
  while (level.length > 0) {
    const below: typeof level = []
    for (const { at, schema: one } of level) {
      for (const option of one.anyOf ?? one.oneOf ?? []) below.push({ at, schema: option })
      if (one.items) below.push({ at: `${at}[]`, schema: one.items })
      for (const [name, property] of Object.entries(one.properties ?? {})) {
        below.push({ at: at === '' ? name : `${at}.${name}`, schema: property })
        validPlaces.set(name, [...(validPlaces.get(name) ?? []), at === '' ? topOfFile : at])
      }
    }
    level = below
  }
  return validPlaces
}
