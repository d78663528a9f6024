import { type Reason, sentenceOf } from '../domain/flow-reasons.ts'
import type { Flow } from './definition/schema.ts'
import { excerpt, shorten } from './mapping/excerpt.ts'
import { compileExpression } from './mapping/expression.ts'
import { ExpressionError, lineAndColumn } from './mapping/expression-error.ts'
import { convertField } from './mapping/field-values.ts'

type Rules = Pick<Flow['destinations'][number], 'map' | 'fields'>
type Fields = NonNullable<Rules['fields']>

/**
 * An item that its mapping cannot turn into a body. `message` shows where and why, and the item (300 characters). Another
 * attempt would fail the same way, unless the mapping ran out of its time.
 */
export class MappingError extends Error {
  override readonly name = 'MappingError'
  readonly why: Reason

  constructor(why: Reason | string, options?: ErrorOptions) {
    const reason: Reason =
      typeof why === 'string' ? { code: 'MAPPING_FAILED', data: { said: why } } : why
    super(sentenceOf(reason, 'en'), options)
    this.why = reason
  }

  get outOfTime(): boolean {
    return this.cause instanceof ExpressionError && this.cause.outOfTime
  }
}

export type Mapping = {
  /** The body for an item, as plain JSON values; undefined when `map` gives nothing for it. Rejects with MappingError. */
  apply(value: Record<string, unknown>): Promise<unknown>
}

/**
 * The mapping of a destination: `map` (JSONata, see `compileExpression`), `fields` (see `convertField`), or the item
 * itself. Throws ExpressionError when `map` is no JSONata.
 *
 * The trap of JSONata: a list with one entry becomes that entry, so `cajas.{ "id": caja }` is an object for a store with
 * one box. Wrap it: `[cajas.{ "id": caja }]` is a list for none, one and many.
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
        throw new MappingError(
          `map failed${where(map, error.position)}: ${shorten(error.message)}; item: ${excerpt(value)}`,
          { cause: error },
        )
      }
      return body
    },
  }
}

function where(map: string, position: number | undefined): string {
  if (position === undefined) return ''
  const { line, column } = lineAndColumn(map, position)
  const text = map.split('\n')[line - 1]?.trim() ?? ''
  return ` at line ${line}, column ${column} (${shorten(text, 120)})`
}

function applyFields(value: Record<string, unknown>, fields: Fields): Record<string, unknown> {
  const body: Record<string, unknown> = {}
  const wrong: string[] = []
  for (const [name, rule] of Object.entries(fields)) {
    const { from, type, optional } = typeof rule === 'string' ? { from: rule } : rule
    if (!Object.hasOwn(value, from)) {
      if (optional) body[name] = null
      else wrong.push(`${name}: the item has no field ${JSON.stringify(from)}`)
      continue
    }
    if (type === undefined) {
      body[name] = value[from]
      continue
    }
    const converted = convertField(value[from], type)
    if ('value' in converted) body[name] = converted.value
    else wrong.push(`${name}: ${from} is ${excerpt(value[from], 60)}, not ${converted.expected}`)
  }
  if (wrong.length === 0) return body
  throw new MappingError(`fields failed: ${wrong.join('; ')}; item: ${excerpt(value)}`)
}
