import type { Flow } from '../definition/schema.ts'
import { compileJsonata } from './evaluate-jsonata.ts'

type Rules = { item: Pick<Flow['item'], 'filter'>; destinations?: readonly DestinationRules[] }
type DestinationRules = Pick<Flow['destinations'][number], 'filter' | 'map' | 'fields'>
type Node = Record<string, unknown> & { type?: unknown; value?: unknown }

/**
 * Returns whether a filter or mapping may use a field of the item. When in doubt it may. A destination without mapping uses
 * all fields.
 */
export function mayUseField({ item, destinations = [] }: Rules): (field: string) => boolean {
  const names = new Set<string>()
  let usesAll = false
  for (const { map, fields } of destinations) {
    if (map === undefined && fields === undefined) usesAll = true
    for (const rule of Object.values(fields ?? {})) {
      names.add(typeof rule === 'string' ? rule : rule.from)
    }
  }
  const expressions = [item, ...destinations].flatMap((one) => [
    one.filter,
    'map' in one ? one.map : undefined,
  ])
  for (const text of expressions) {
    if (typeof text === 'string' && !addNames(compileJsonata(text).ast, names)) usesAll = true
  }
  return (field) => usesAll || names.has(field)
}

/** Without an argument, these functions take the item. */
const takeItem = new Set(['each', 'keys', 'lookup', 'sift', 'spread', 'string'])

/** Adds all names and texts of an expression. Returns false when it may use fields without naming them. */
function addNames(node: unknown, names: Set<string>): boolean {
  if (Array.isArray(node)) return node.every((one) => addNames(one, names))
  if (typeof node !== 'object' || node === null || node instanceof RegExp) return true
  const { type, value, procedure } = node as Node
  if (type === 'name' || type === 'string') names.add(String(value))
  if (type === 'variable' && (value === '' || value === '$')) return false
  if (['wildcard', 'descendant', 'parent'].includes(String(type))) return false
  if (takeItem.has(String((procedure as Node | undefined)?.value))) return false
  return Object.values(node).every((one) => addNames(one, names))
}
