/** Node types whose work is bounded by the value they look at, and that ask jsonata's guards at each step. */
const tameTypes = new Set([
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

/** The value itself, and what is given besides it; any other may be a function. */
const tameVariables = new Set(['', '$', 'pk'])

/** Functions whose time and result are in proportion to their arguments. */
const tameFunctions = new Set([
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
 * Whether an expression (its syntax tree) can run inside the process without a way to hold it up: nothing that builds
 * ranges, calls itself, uses regular expressions or passes functions around, and nothing this list does not know.
 */
export function isTame(node: unknown): boolean {
  if (Array.isArray(node)) return node.every(isTame)
  if (node === null || typeof node !== 'object') return true
  const { type, value } = node as { type?: unknown; value?: unknown }
  if (value instanceof RegExp) return false
  if ('focus' in node || 'index' in node || 'ancestor' in node || 'tuple' in node) return false
  if (type === 'variable') return tameVariables.has(String(value))
  if (type === 'function') return isTameCall(node)
  if (type === 'binary' && value === '..') return false
  if (type !== undefined && !tameTypes.has(String(type))) return false
  return Object.values(node).every(isTame)
}

function isTameCall(node: object): boolean {
  const { procedure, arguments: given } = node as { procedure?: unknown; arguments?: unknown }
  const { type, value } = (procedure ?? {}) as { type?: unknown; value?: unknown }
  if (type !== 'variable' || !tameFunctions.has(String(value))) return false
  const { procedure: _, arguments: __, type: ___, ...rest } = node as Record<string, unknown>
  return isTame(given) && isTame(Object.values(rest))
}
