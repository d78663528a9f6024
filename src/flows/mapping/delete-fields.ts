import type { Flow } from '../definition/schema.ts'
import type { HttpDefinition } from '../types.ts'
import { compileJsonata } from './evaluate-jsonata.ts'
import { ExpressionError } from './expression-error.ts'

type Destination = Flow['destinations'][number]
type BodyRules = Pick<Destination, 'map' | 'fields'>
type HttpRequest = Pick<NonNullable<HttpDefinition['delete']>, 'url' | 'headers' | 'body'>
type Node = { type?: unknown; value?: unknown; [name: string]: unknown }

/** Fields of the delivered body that a delete needs; `all`: the whole body. */
export type DeleteNeeds = 'all' | ReadonlySet<string>

const storeKey = ['external_id']
const posKey = ['store_external_id', 'external_id']

/** What a delete at the destination needs of the delivered body. */
export function deleteNeeds(destination: Destination): DeleteNeeds {
  switch (destination.type) {
    case 'sql':
      return new Set(destination.upsertKey)
    case 'payments.stores':
      return new Set(storeKey)
    case 'payments.pos':
      return new Set(posKey)
    case 'file':
      return new Set()
    case 'http':
      return httpNeeds(destination)
    default:
      return destination satisfies never
  }
}

function httpNeeds({ delete: remove, find = [] }: HttpDefinition): DeleteNeeds {
  if (!remove) return new Set()
  if (remove.body === undefined && sendsBody(remove.method)) return 'all'
  if (find.some((one) => one.body === undefined && sendsBody(one.method))) return 'all'
  const used = [remove, ...find].map((one) => usedIn(one, 'body'))
  if (used.includes('all')) return 'all'
  return new Set(used.flatMap((one) => [...one]))
}

/** Whether a request of this method without a body of its own sends the mapped one. */
export function sendsBody(method: string): boolean {
  return method !== 'GET' && method !== 'DELETE'
}

/** The names under `body` or `remembered` that a request uses. */
export function usedIn(
  { url, headers, body }: HttpRequest,
  root: 'body' | 'remembered',
): DeleteNeeds {
  const names = new Set(placeholdersIn(url.reveal(), root))
  for (const { template } of Object.values(headers)) {
    for (const name of placeholdersIn(template, root)) names.add(name)
  }
  const inBody = body === undefined ? new Set<string>() : namesUnder(body, root)
  if (inBody === 'all') return 'all'
  for (const name of inBody) names.add(name)
  return names
}

/** The names in `{body.name}` or `{remembered.name}` placeholders of a text. */
export function placeholdersIn(text: string, root: 'body' | 'remembered'): string[] {
  const found = text.matchAll(/\{\+?(body|remembered)\.([^{}]{1,128})\}/g)
  return [...found].flatMap(([, kind, name = '']) => (kind === root ? [name] : []))
}

/** The names directly under `root` that an expression uses; `all` when the expression is not understood. */
export function namesUnder(expression: string, root: string): DeleteNeeds {
  const names = new Set<string>()
  const visit = (node: unknown): boolean => {
    if (Array.isArray(node)) return node.every(visit)
    if (typeof node !== 'object' || node === null || node instanceof RegExp) return true
    const one = node as Node
    if (one.type === 'variable' && (one.value === '' || one.value === '$')) return false
    if (['wildcard', 'descendant', 'parent'].includes(String(one.type))) return false
    const { steps, ...rest } = one
    if (!Array.isArray(steps)) return Object.values(one).every(visit)
    const [first, second] = steps as Node[]
    if (first?.type === 'name' && first.value === root) {
      if (second?.type !== 'name') return false
      names.add(String(second.value))
    }
    return visit(steps) && Object.values(rest).every(visit)
  }
  const ast = astOf(expression)
  return visit(ast) ? names : 'all'
}

/** The fields that the mapping creates; undefined when they depend on the item. */
export function madeFields(rules: BodyRules): ReadonlySet<string> | undefined {
  if (rules.map === undefined) return rules.fields && new Set(Object.keys(rules.fields))
  const entries = entriesOf(rules.map)
  return entries && new Set(entries.map(([name]) => name))
}

/** The fields of the body that are built from the item's key only. */
export function fieldsOfKey({ map, fields }: BodyRules, key: readonly string[]): string[] {
  const isKey = (name: string) => key.includes(name)
  if (map !== undefined) {
    return (entriesOf(map) ?? []).flatMap(([name, value]) => {
      const used = fieldsMaking(value as Node)
      return used?.length && used.every(isKey) ? [name] : []
    })
  }
  if (fields === undefined) return [...key]
  return Object.entries(fields).flatMap(([name, rule]) =>
    isKey(typeof rule === 'string' ? rule : rule.from) ? [name] : [],
  )
}

/** The item's fields in a value that consists only of names, constants, operators and calls; otherwise undefined. */
function fieldsMaking(node: Node): string[] | undefined {
  const name = nameOf(node)
  if (name !== undefined) return [name]
  const fields = partsOf(node)?.map(fieldsMaking)
  return fields?.every((part) => part !== undefined) ? fields.flat() : undefined
}

/** The item's field that a node names; undefined for other nodes. */
function nameOf({ type, steps, ...more }: Node): string | undefined {
  const [step, ...others] = type === 'path' ? (steps as Node[]) : []
  if (step?.type !== 'name' || others.length > 0) return undefined
  const isPlain = [step, more].every((one) => narrowing.every((part) => one[part] === undefined))
  return isPlain ? String(step.value) : undefined
}

/** Node properties that filter, group or bind. */
const narrowing = ['stages', 'predicate', 'group', 'focus', 'index', 'ancestor', 'tuple']
/** With one argument fewer, these functions take the item as the first. */
const takeItem = ['lookup', 'each', 'sift']

function partsOf(node: Node): Node[] | undefined {
  switch (node.type) {
    case 'string':
    case 'number':
    case 'value':
      return []
    case 'binary':
      return [node.lhs as Node, node.rhs as Node]
    case 'function': {
      const { type, value } = node.procedure as Node
      const given = node.arguments as Node[]
      const isPlain = type === 'variable' && !takeItem.includes(String(value))
      return isPlain && given.length > 0 ? given : undefined
    }
    default:
      return undefined
  }
}

/** The entries of a map that is a single object with constant names. */
function entriesOf(map: string): [string, unknown][] | undefined {
  const ast = astOf(map)
  if (ast?.type !== 'unary' || ast.value !== '{' || !Array.isArray(ast.lhs)) return undefined
  const entries: [string, unknown][] = []
  for (const [name, value] of ast.lhs as [Node, unknown][]) {
    if (name.type !== 'string') return undefined
    entries.push([String(name.value), value])
  }
  return entries
}

/** Undefined for invalid JSONata, which has its own finding. */
function astOf(expression: string): Node | undefined {
  try {
    return compileJsonata(expression).ast as Node
  } catch (error) {
    if (error instanceof ExpressionError) return undefined
    throw error
  }
}
