import { type Reason, ReasonError, withTexts } from '../domain/flow-reasons.ts'
import type { Flow } from './definition/schema.ts'
import { excerpt, shorten } from './mapping/excerpt.ts'
import { compileExpression } from './mapping/expression.ts'
import { ExpressionError, lineAndColumn } from './mapping/expression-error.ts'
import { convertField } from './mapping/field-values.ts'

type Rules = Pick<Flow['destinations'][number], 'map' | 'fields'>
type Fields = NonNullable<Rules['fields']>

/**
 * The mapping cannot convert an item. `why` has the place, the cause and the item (300 characters). Another attempt would fail
 * in the same way, except after a timeout.
 */
export class MappingError extends ReasonError {
  override readonly name = 'MappingError'

  get outOfTime(): boolean {
    return this.cause instanceof ExpressionError && this.cause.outOfTime
  }
}

export type Mapping = {
  /** The body for an item as plain JSON values; undefined when `map` returns nothing. Rejects with MappingError. */
  apply(value: Record<string, unknown>): Promise<unknown>
}

/**
 * Compiles the mapping of a destination: `map` (JSONata, see `compileExpression`), `fields` (see `convertField`), or the item
 * unchanged. Throws ExpressionError when `map` is not valid JSONata.
 *
 * JSONata returns a list of one entry as that entry: `cajas.{ "id": caja }` is an object for a store with one box. `[cajas.{
 * "id": caja }]` is always a list.
 */
export function compileMapping({ map, fields }: Rules): Mapping {
  if (map !== undefined) return expressionMapping(map)
  if (fields !== undefined) return { apply: async (value) => applyFields(value, fields) }
  return { apply: async (value) => value }
}

function expressionMapping(map: string): Mapping {
  const expression = compileExpression(map)
  return {
    apply: async (value) => {
      let body: unknown
      try {
        body = await expression.evaluate(value)
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error
        const what = withTexts(error.why, (text) => shorten(text))
        const data = { ...placeIn(map, error.position), what, item: excerpt(value) }
        throw new MappingError({ code: 'MAP_FAILED', data }, { cause: error })
      }
      return body
    },
  }
}

function placeIn(map: string, position: number | undefined) {
  if (position === undefined) return {}
  const place = lineAndColumn(map, position)
  const text = map.split('\n')[place.line - 1]?.trim() ?? ''
  return { ...place, text: shorten(text, 120) }
}

function applyFields(value: Record<string, unknown>, fields: Fields): Record<string, unknown> {
  const body: Record<string, unknown> = {}
  const problems: Reason[] = []
  for (const [name, rule] of Object.entries(fields)) {
    const { from, type, optional } = typeof rule === 'string' ? { from: rule } : rule
    if (!Object.hasOwn(value, from)) {
      if (optional) body[name] = null
      else {
        const data = { name, field: JSON.stringify(from) }
        problems.push({ code: 'FIELDS_NO_FIELD', data })
      }
      continue
    }
    if (type === undefined) {
      body[name] = value[from]
      continue
    }
    const converted = convertField(value[from], type)
    if ('value' in converted) body[name] = converted.value
    else {
      const { expected } = converted
      const data = { name, field: from, value: excerpt(value[from], 60), expected }
      problems.push({ code: 'FIELDS_NOT_CONVERTED', data })
    }
  }
  if (problems.length === 0) return body
  throw new MappingError({ code: 'FIELDS_FAILED', data: { problems, item: excerpt(value) } })
}
