import type { Flow } from '../definition/schema.ts'
import type { HttpDefinition } from '../types.ts'
import { compileJsonata } from './evaluate-jsonata.ts'
import { ExpressionError } from './expression-error.ts'

type HttpRequest = Pick<NonNullable<HttpDefinition['delete']>, 'url' | 'headers' | 'body'>
type Node = { type?: unknown; value?: unknown; [name: string]: unknown }

/** Names directly under `body` or `remembered`; `all`: any of them. */
export type UsedNames = 'all' | ReadonlySet<string>

/** Whether a request takes the mapped body as a whole. Without a body of its own, most methods send the mapped one. */
export function usesWholeBody({ method, body }: { method: string; body?: string | undefined }) {
  if (body === undefined) return method !== 'GET' && method !== 'DELETE'
  return namesUnder(body, 'body') === 'all'
}

/** The names under `body` or `remembered` that a request uses. */
export function usedIn(
  { url, headers, body }: HttpRequest,
  root: 'body' | 'remembered',
): UsedNames {
  const names = new Set(namesInAddress(url, root))
  for (const { template } of Object.values(headers)) {
    for (const name of placeholdersIn(template, root)) names.add(name)
  }
  const inBody = body === undefined ? new Set<string>() : namesUnder(body, root)
  if (inBody === 'all') return 'all'
  for (const name of inBody) names.add(name)
  return names
}

/** The names under `body` or `remembered` in an address. */
export function namesInAddress(url: HttpRequest['url'], root: 'body' | 'remembered'): string[] {
  return placeholdersIn(url.reveal(), root)
}

/** The names in `{body.name}` or `{remembered.name}` placeholders of a text. */
function placeholdersIn(text: string, root: 'body' | 'remembered'): string[] {
  const found = text.matchAll(/\{\+?(body|remembered)\.([^{}]{1,128})\}/g)
  return [...found].flatMap(([, kind, name = '']) => (kind === root ? [name] : []))
}

/** The names directly under `root` that an expression uses; `all` when the expression is not understood. */
function namesUnder(expression: string, root: string): UsedNames {
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

/** The fields that a mapping makes; undefined when they depend on the item. */
export function madeFields({
  map,
  fields,
}: Pick<Flow['destinations'][number], 'map' | 'fields'>): ReadonlySet<string> | undefined {
  if (map === undefined) return fields && new Set(Object.keys(fields))
  const ast = astOf(map)
  if (ast?.type !== 'unary' || ast.value !== '{' || !Array.isArray(ast.lhs)) return undefined
  const names = (ast.lhs as [Node, unknown][]).map(([name]) => name)
  if (names.some(({ type }) => type !== 'string')) return undefined
  return new Set(names.map(({ value }) => String(value)))
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
