import { ExpressionError } from './expression-error.ts'

const maxDepth = 64
/** Characters of all texts and names, plus eight per value. */
const maxSize = 1_048_576
const perValue = 8

/**
 * The result of an expression as plain JSON values: jsonata's objects have no prototype, and its lists have extra properties.
 * Values that JSON cannot represent are refused. An undefined result stays undefined; undefined fields are dropped.
 */
export function plainCopy(value: unknown): unknown {
  let size = 0
  const count = (more: number) => {
    size += more
    if (size > maxSize) {
      throw new ExpressionError({ code: 'RESULT_TOO_LARGE', data: { most: maxSize } })
    }
  }
  const copy = (part: unknown, depth: number): unknown => {
    if (depth > maxDepth) {
      throw new ExpressionError({ code: 'RESULT_TOO_DEEP', data: { most: maxDepth } })
    }
    count(perValue)
    switch (typeof part) {
      case 'string':
        count(part.length)
        return part
      case 'number':
        if (Number.isFinite(part)) return part
        throw new ExpressionError({ code: 'RESULT_NO_NUMBER', data: { value: String(part) } })
      case 'boolean':
      case 'undefined':
        return part
      case 'object':
        break
      default:
        throw new ExpressionError({ code: 'RESULT_KIND', data: { type: typeof part } })
    }
    if (part === null) return null
    if (Array.isArray(part)) return part.map((entry) => copy(entry, depth + 1) ?? null)
    if ('_jsonata_lambda' in part || '_jsonata_function' in part) {
      throw new ExpressionError({ code: 'RESULT_FUNCTION' })
    }
    const fields: Record<string, unknown> = {}
    for (const [name, field] of Object.entries(part)) {
      if (name === '__proto__') throw new ExpressionError({ code: 'RESULT_NAME_RESERVED' })
      count(name.length)
      const copied = copy(field, depth + 1)
      if (copied !== undefined) fields[name] = copied
    }
    return fields
  }
  return copy(value, 0)
}
