/** Node types with work in proportion to their value, which call jsonata's limits at each step. */
const boundedTypes = new Set([
  'path',
  'name',
  'string',
  'number',
  'value',
  'binary',
  'unary',
  'condition',
  'block',
  'function',
  'wildcard',
  'filter',
])

/** The value itself and given variables. Any other variable may be a function. */
const boundedVariables = new Set(['', '$', 'pk'])

/** Functions with time and result in proportion to their arguments. */
const boundedFunctions = new Set([
  ...[
    'exists',
    'number',
    'string',
    'boolean',
    'not',
    'type',
    'count',
    'sum',
    'max',
    'min',
    'average',
  ],
  ...['trim', 'uppercase', 'lowercase', 'length', 'substring', 'substringBefore', 'substringAfter'],
  ...['contains', 'abs', 'floor', 'ceil', 'round', 'now', 'millis', 'lookup'],
])

/**
 * Whether an expression (its syntax tree) is safe to run in the main thread. It must not build ranges, call itself, use
 * regular expressions or pass functions. Unknown nodes and functions are not safe.
 */
export function hasBoundedCost(node: unknown): boolean {
  if (Array.isArray(node)) return node.every(hasBoundedCost)
  if (node === null || typeof node !== 'object') return true
  const { type, value } = node as { type?: unknown; value?: unknown }
  if (value instanceof RegExp) return false
  if ('focus' in node || 'index' in node || 'ancestor' in node || 'tuple' in node) return false
  if (type === 'variable') return boundedVariables.has(String(value))
  if (type === 'function') return isBoundedCall(node)
  if (type === 'binary' && value === '..') return false
  if (type !== undefined && !boundedTypes.has(String(type))) return false
  return Object.values(node).every(hasBoundedCost)
}

function isBoundedCall(node: object): boolean {
  const { procedure, arguments: given } = node as { procedure?: unknown; arguments?: unknown }
  const { type, value } = (procedure ?? {}) as { type?: unknown; value?: unknown }
  if (type !== 'variable' || !boundedFunctions.has(String(value))) return false
  const { procedure: _, arguments: __, type: ___, ...rest } = node as Record<string, unknown>
  return hasBoundedCost(given) && hasBoundedCost(Object.values(rest))
}
