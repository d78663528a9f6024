import { compileGuarded } from './guarded.ts'

type Node = Record<string, unknown> & { type?: unknown; value?: unknown }

/**
 * The item's fields that an expression names. Fields under `$exists` are omitted, because they may be missing. Access by other
 * means, such as `$lookup` or `$each`, is not detected.
 */
export function itemFields(expression: string): string[] {
  const named = new Set<string>()
  const optional = new Set<string>()
  visit(compileGuarded(expression).ast, true, { named, optional })
  return [...named].filter((field) => !optional.has(field))
}

type Found = { named: Set<string>; optional: Set<string> }

/** Names in these parts of a node refer to what the path found and not to the item. */
const aboutFound = new Set(['stages', 'predicate', 'group'])

/** `atItem`: names refer to fields of the item itself. */
function visit(node: unknown, atItem: boolean, found: Found): void {
  if (Array.isArray(node)) {
    for (const one of node) visit(one, atItem, found)
    return
  }
  if (typeof node !== 'object' || node === null || node instanceof RegExp) return
  const one = node as Node
  if (one.type === 'path') {
    visitPath(one, atItem, found)
    return
  }
  if (one.type === 'name' && atItem) found.named.add(String(one.value))
  const asksWhether = (one.procedure as Node | undefined)?.value === 'exists'
  const into = asksWhether ? { ...found, named: found.optional } : found
  for (const [key, part] of Object.entries(one)) {
    visit(part, atItem && !aboutFound.has(key), into)
  }
}

function visitPath(path: Node, atItem: boolean, found: Found): void {
  const [first, second, ...rest] = path.steps as (Node | undefined)[]
  const isItem =
    first?.type === 'variable' && (first.value === '$' || (atItem && first.value === ''))
  visit(first, atItem, found)
  visit(second, isItem, found)
  visit(rest, false, found)
  visit(path.group, false, found)
}
