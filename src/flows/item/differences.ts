import type { z } from 'zod'
import { isRecord } from '../../domain/json.ts'
import type { Model } from '../api/api-model.ts'
import type { Changes, DifferenceSchema } from '../api/item-schemas.ts'
import { excerpt, shorten } from '../mapping/excerpt.ts'

/** Values are shortened; an absent value is undefined. */
type Difference = z.output<typeof DifferenceSchema>

const longestValue = 300
const plainName = /^[\p{L}_$][\p{L}\p{N}_$-]*$/u

/**
 * The fields that differ between two versions of an item, in the order of their names: at most `most`, with the total count.
 * Lists are compared by position.
 */
export function differencesOf(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  most: number,
): { fields: Difference[]; total: number } {
  const fields: Difference[] = []
  let total = 0
  const note = (difference: Difference) => {
    total += 1
    if (total <= most) fields.push(difference)
  }
  compare('', before, after, note)
  return { fields, total }
}

type Content = Readonly<Record<string, unknown>>

/** Comparison of two versions of an item. `differences` is empty unless `compared`. */
type ItemComparison = NonNullable<Model<typeof Changes>>

/** Compares two versions. `before` is undefined when none is stored, and null when it was too large to store. */
export function compareVersions(
  before: Content | null | undefined,
  after: Content | null,
): ItemComparison {
  if (before === undefined) return { comparison: 'first', ...nothing }
  if (before === null || after === null) return { comparison: 'too_large', ...nothing }
  const { fields, total } = differencesOf(before, after, differencesShown)
  return { comparison: 'compared', differences: fields, differenceCount: total }
}

const nothing = { differences: [], differenceCount: 0 }
const differencesShown = 50

type Note = (difference: Difference) => void

function compare(field: string, from: unknown, to: unknown, note: Note): void {
  if (Array.isArray(from) && Array.isArray(to)) {
    for (let place = 0; place < Math.max(from.length, to.length); place++) {
      const has = [place < from.length, place < to.length] as const
      compareField(`${field}[${place}]`, has, from[place], to[place], note)
    }
  } else if (isRecord(from) && isRecord(to)) {
    for (const name of [...new Set([...Object.keys(from), ...Object.keys(to)])].sort()) {
      const has = [Object.hasOwn(from, name), Object.hasOwn(to, name)] as const
      compareField(pathOf(field, name), has, from[name], to[name], note)
    }
  } else if (from !== to) {
    note({ field, change: 'changed', from: shown(from), to: shown(to) })
  }
}

function compareField(
  field: string,
  [had, has]: readonly [boolean, boolean],
  from: unknown,
  to: unknown,
  note: Note,
): void {
  if (had && has) compare(field, from, to, note)
  else if (has) note({ field, change: 'added', to: shown(to) })
  else note({ field, change: 'removed', from: shown(from) })
}

function pathOf(parent: string, name: string): string {
  if (!plainName.test(name)) return `${parent}[${JSON.stringify(name)}]`
  return parent === '' ? name : `${parent}.${name}`
}

/** The value, or the start of a long one as text. */
function shown(value: unknown): unknown {
  if (typeof value === 'string') return shorten(value, longestValue)
  if (typeof value !== 'object' || value === null) return value
  const text = excerpt(value, longestValue)
  return text.endsWith('…') ? text : value
}
