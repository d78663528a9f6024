import type { Flow } from '../definition/schema.ts'
import { shorten } from '../mapping/excerpt.ts'
import { type SourceRow, whyNoRecord } from '../types.ts'

/** Of a value; `digits` is a text that is a number. Nulls and empty texts have none. */
export type Kind = 'number' | 'digits' | 'text' | 'boolean' | 'time' | 'bytes' | 'list' | 'object'

/** `firm`: all records had it, wherever enough of them were read together; null while there were never enough. */
type FieldShape = { kinds: Kind[]; firm: boolean | null }

/** How the records of a source look. `records` were read at once, at most. */
export type Shape = { records: number; fields: Record<string, FieldShape> }

/** How records do not look as they did. */
export type ShapeFinding =
  | { kind: 'gone'; field: string }
  | { kind: 'type'; field: string; was: Kind[]; is: Kind }

/** What does not look as it did. */
export type Finding =
  | ShapeFinding
  | { kind: 'changed'; items: number; known: number; maxPercent: number }

export type ShapeWatch = {
  /** What of these records does not look as it did. */
  look(rows: readonly SourceRow[]): ShapeFinding[]
  /** The shape as it is known once what was looked at has been let through. */
  learned(): Shape
}

export type ShapeRules = {
  /** The fields that are looked at; null are all. */
  fields: readonly string[] | null
  /** The records of a table all have the same fields, and the values of a field one type. */
  isTable: boolean
  /** The same, but for the types: in a file all is text. */
  isSheet: boolean
} & Pick<Flow['drift'], 'columns' | 'types'>

/** So many of a batch, spread over it: more would tell nothing new and take time of every poll. */
const sampled = 200
/** Of records that need not be alike, so many tell something about all of them; fewer only where there are no more. */
const enough = { least: 3, most: 10 }
const firmShare = 0.9
/** More are no columns; it is kept with the flow. */
const mostFields = 1_000
const longestField = 200
const digits = /^[+-]?\d+(?:[.,]\d+)*$/

type Counted = { present: number; kinds: Map<Kind, number> }
type Seen = { kinds: Set<Kind>; batches: number; isGone: boolean }

/**
 * Compares how records look with `known`, what earlier reads have shown. Small numbers of records tell nothing where those of
 * a source need not be alike.
 */
export function createShapeWatch(known: Shape | undefined, rules: ShapeRules): ShapeWatch {
  const { isTable, isSheet } = rules
  const seen = new Map<string, Seen>()
  let records = 0
  /** Batches that say whether a field is firm. */
  let batches = 0

  const least = isTable || isSheet ? 1 : enough.least
  const needed = Math.min(Math.max(known?.records ?? 0, enough.least), enough.most)
  const neededForGone = isTable || isSheet ? 1 : needed

  const seenOf = (field: string): Seen => {
    const one = seen.get(field) ?? { kinds: new Set<Kind>(), batches: 0, isGone: false }
    seen.set(field, one)
    return one
  }

  const judge = (field: string, rows: number, counted: Counted | undefined): ShapeFinding[] => {
    const before = known && Object.hasOwn(known.fields, field) ? known.fields[field] : undefined
    if (!before) return []
    if (!counted) {
      if (before.firm !== true || rows < neededForGone) return []
      seenOf(field).isGone = true
      return rules.columns === 'hold' ? [{ kind: 'gone', field }] : []
    }
    if (rules.types === 'ignore' || before.kinds.length === 0) return []
    const values = [...counted.kinds.values()].reduce((sum, count) => sum + count, 0)
    const isNew = ([kind, count]: [Kind, number]) => {
      const isOfText = isText(kind) && before.kinds.every(isText)
      const least = isTable && !isOfText ? 1 : needed
      return !before.kinds.includes(kind) && count >= least && count * 2 > values
    }
    const [found] = [...counted.kinds].find(isNew) ?? []
    // Numbers among texts are texts.
    if (!found || (found === 'digits' && before.kinds.includes('text'))) return []
    return [{ kind: 'type', field, was: before.kinds, is: found }]
  }

  return {
    look(all) {
      const rows = all.filter((row) => whyNoRecord(row) === undefined)
      const step = Math.max(1, Math.ceil(rows.length / sampled))
      const counts = new Map<string, Counted>()
      let looked = 0
      for (let place = 0; place < rows.length; place += step) {
        looked += 1
        count(rows[place] ?? {}, rules.fields, counts)
      }
      records += rows.length
      if (looked === 0) return []
      if (looked >= least) batches += 1
      for (const [field, { present, kinds }] of counts) {
        const one = seenOf(field)
        for (const kind of kinds.keys()) one.kinds.add(kind)
        if (looked >= least && present >= looked * firmShare) one.batches += 1
      }
      const fields = new Set([...Object.keys(known?.fields ?? {}), ...counts.keys()])
      const isWatched = (field: string) => rules.fields?.includes(field) ?? true
      return [...fields]
        .filter(isWatched)
        .flatMap((field) => judge(field, looked, counts.get(field)))
    },
    learned() {
      const fields: Shape['fields'] = {}
      const names = new Set([...Object.keys(known?.fields ?? {}), ...seen.keys()])
      for (const field of [...names].slice(0, mostFields)) {
        const before = known && Object.hasOwn(known.fields, field) ? known.fields[field] : undefined
        const now = seen.get(field)
        if (now?.isGone && now.batches === 0) continue
        const firm = batches === 0 ? null : (now?.batches ?? 0) === batches
        fields[field] = {
          kinds: [...new Set([...(before?.kinds ?? []), ...(now?.kinds ?? [])])].sort(),
          firm: firm === null ? (before?.firm ?? null) : firm && before?.firm !== false,
        }
      }
      return { records: Math.max(known?.records ?? 0, records), fields }
    },
  }
}

function count(
  row: SourceRow,
  fields: readonly string[] | null,
  counts: Map<string, Counted>,
): void {
  for (const field of fields ?? Object.keys(row)) {
    if (!counts.has(field) && (counts.size >= mostFields || !isKept(field))) continue
    const value = Object.hasOwn(row, field) ? row[field] : undefined
    if (value === undefined) continue
    const one = counts.get(field) ?? { present: 0, kinds: new Map<Kind, number>() }
    counts.set(field, one)
    one.present += 1
    const kind = kindOf(value)
    if (kind) one.kinds.set(kind, (one.kinds.get(kind) ?? 0) + 1)
  }
}

/** Records with other names are refused elsewhere, or have names that stand for data. */
function isKept(field: string): boolean {
  const isStorable = field.isWellFormed() && !field.includes('\0')
  return isStorable && field !== '__proto__' && field.length <= longestField
}

function kindOf(value: unknown): Kind | undefined {
  switch (typeof value) {
    case 'number':
    case 'bigint':
      return 'number'
    case 'boolean':
      return 'boolean'
    case 'string':
      if (value.trim() === '') return undefined
      return digits.test(value.trim()) ? 'digits' : 'text'
    case 'object':
      if (value === null) return undefined
      if (value instanceof Date) return 'time'
      if (value instanceof Uint8Array) return 'bytes'
      return Array.isArray(value) ? 'list' : 'object'
    default:
      return undefined
  }
}

function isText(kind: Kind): boolean {
  return kind === 'text' || kind === 'digits'
}

/** What was found, in a language. */
export type FindingWords = {
  kinds: Readonly<Record<Kind, string>>
  or: string
  gone(field: string): string
  type(field: string, was: string, is: string): string
  changed(items: number, known: number, percent: string, most: number): string
}

const english: FindingWords = {
  kinds: {
    number: 'a number',
    digits: 'a number as text',
    text: 'text',
    boolean: 'true or false',
    time: 'a time',
    bytes: 'bytes',
    list: 'a list',
    object: 'an object',
  },
  or: 'or',
  gone: (field) => `the field ${field} is gone`,
  type: (field, was, is) => `the field ${field} was ${was} and is ${is}`,
  changed: (items, known, percent, most) =>
    `${items} of ${known} items changed at once (${percent} %, more than ${most} %)`,
}

const longestReason = 1_000
const longestName = 100

/** What was found, for people. */
export function reasonOf(findings: readonly Finding[], words = english): string {
  const texts = findings.map((one) => {
    switch (one.kind) {
      case 'gone':
        return words.gone(nameOf(one.field))
      case 'type': {
        const was = one.was.map((kind) => words.kinds[kind]).join(` ${words.or} `)
        return words.type(nameOf(one.field), was, words.kinds[one.is])
      }
      default: {
        const percent = ((one.items / one.known) * 100).toFixed(1)
        return words.changed(one.items, one.known, percent, one.maxPercent)
      }
    }
  })
  return shorten(texts.join('; '), longestReason)
}

function nameOf(field: string): string {
  return JSON.stringify(shorten(field, longestName))
}

/** Whether the one was let through with the others: a share counts by its items, not here. */
export function isAmong(finding: Finding, approved: readonly Finding[]): boolean {
  return approved.some((one) => {
    if (finding.kind === 'changed' || one.kind === 'changed') return false
    if (one.kind !== finding.kind || one.field !== finding.field) return false
    return one.kind === 'gone' || finding.kind === 'gone' || one.is === finding.is
  })
}
