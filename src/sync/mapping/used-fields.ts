import type { Flow } from '../definition/schema.ts'
import { compileGuarded } from './guarded.ts'

type Destinations = readonly Pick<Flow['destinations'][number], 'map' | 'fields' | 'filter'>[]
type Node = Record<string, unknown> & { type?: unknown; value?: unknown }

/** Thrown where an expression may look at any field. */
class AllFields extends Error {}

/**
 * The fields of an item that its destinations are sent anything of, sorted; null for all, as where nothing is mapped or an
 * expression takes the item as a whole. Never too few: what is not understood counts as all.
 */
export function usedFields(destinations: Destinations): string[] | null {
  const used = new Set<string>()
  try {
    for (const { map, fields, filter } of destinations) {
      if (filter !== undefined) walk(compileGuarded(filter).ast as Node, true, used)
      if (map !== undefined) walk(compileGuarded(map).ast as Node, true, used)
      else if (fields === undefined) return null
      else {
        for (const rule of Object.values(fields)) {
          used.add(typeof rule === 'string' ? rule : rule.from)
        }
      }
    }
  } catch (error) {
    if (error instanceof AllFields) return null
    throw error
  }
  return [...used].sort()
}

/** The fields of an item that a part of an expression over it uses; null for all. */
export function fieldsUsedBy(node: unknown): ReadonlySet<string> | null {
  const used = new Set<string>()
  try {
    walk(node, true, used)
    return used
  } catch (error) {
    if (error instanceof AllFields) return null
    throw error
  }
}

/** Without arguments all other functions take what is looked at. */
const withoutInput = new Set(['now', 'millis', 'random'])
/** These take it for their first argument when they get one less. */
const firstMayBeInput = new Set(['lookup', 'each', 'sift', 'string'])

/** Notes what `node` uses. `atItem`: what is looked at is the item itself, not a part of it. */
function walk(node: unknown, atItem: boolean, used: Set<string>): void {
  if (node === undefined || node === null) return
  if (Array.isArray(node)) {
    for (const one of node) walk(one, atItem, used)
    return
  }
  if (typeof node !== 'object') return
  const one = node as Node
  // What binds to places in lists, or goes back up from them.
  if ('focus' in one || 'index' in one || 'ancestor' in one || 'tuple' in one) throw new AllFields()
  const type = String(one.type)
  const { value } = one
  switch (type) {
    case 'string':
    case 'number':
    case 'value':
    case 'regex':
      break
    case 'name':
      if (atItem) used.add(String(value))
      break
    case 'path':
      walkPath(one, atItem, used)
      break
    case 'variable':
      if ((atItem && value === '') || value === '$') throw new AllFields()
      // As a value it may be called with less than it needs.
      if (firstMayBeInput.has(String(value))) throw new AllFields()
      break
    case 'wildcard':
      if (atItem) throw new AllFields()
      break
    case 'condition':
      walk([one.condition, one.then, one.else], atItem, used)
      break
    case 'block':
      walk(one.expressions, atItem, used)
      break
    case 'binary':
    case 'bind':
      // The left side of a binding is the name it gets.
      walk(type === 'bind' ? one.rhs : [one.lhs, one.rhs], atItem, used)
      break
    case 'unary':
      walk(one.value === '{' ? one.lhs : [one.expressions, one.expression], atItem, used)
      break
    case 'lambda':
      // A signature may let the item stand for what is not given.
      if (one.signature !== undefined) throw new AllFields()
      walk(one.body, atItem, used)
      break
    case 'function':
      walkCall(one, atItem, used)
      break
    default:
      throw new AllFields()
  }
  partsOf(one, used)
}

/** Predicates, groups and orders are about what was found, not about the item. */
function partsOf(node: Node, used: Set<string>): void {
  for (const part of [node.stages, node.predicate]) {
    for (const stage of Array.isArray(part) ? part : []) {
      const { type, expr } = stage as { type?: unknown; expr?: unknown }
      if (type !== 'filter') throw new AllFields()
      walk(expr, false, used)
    }
  }
  const group = node.group as { lhs?: unknown } | undefined
  if (group) walk(group.lhs, false, used)
}

function walkPath(node: Node, atItem: boolean, used: Set<string>): void {
  const steps = node.steps as Node[]
  const [first, second] = steps
  const isItem =
    first?.type === 'variable' && (first.value === '$' || (atItem && first.value === ''))
  if (isItem) {
    if (second?.type !== 'name' || first?.stages || first?.predicate) throw new AllFields()
    used.add(String(second.value))
    partsOf(second, used)
    walk(steps.slice(2), false, used)
  } else {
    walk(first, atItem, used)
    walk(steps.slice(1), false, used)
  }
}

function walkCall(node: Node, atItem: boolean, used: Set<string>): void {
  const { type, value } = (node.procedure ?? {}) as Node
  if (type !== 'variable') throw new AllFields()
  const given = node.arguments as unknown[]
  const name = String(value)
  if (atItem && given.length === 0 && !withoutInput.has(name)) throw new AllFields()
  // `$string(true)` is no exception worth an own rule.
  if (atItem && given.length === 1 && name !== 'string' && firstMayBeInput.has(name)) {
    throw new AllFields()
  }
  walk(given, atItem, used)
}
