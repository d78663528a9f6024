import { shorten } from '../mapping/excerpt.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { compileMapping, MappingError } from '../mapping.ts'
import type { DestinationDefinition } from '../types.ts'

/** The destination is not to have the item; `skipped` says why. */
export class Skip {
  readonly skipped: string

  constructor(skipped: string) {
    this.skipped = skipped
  }
}

export function isSkip(body: unknown): body is Skip {
  return body instanceof Skip
}

/** Rejects with MappingError when the mapping cannot turn the item into a body; a Skip when it is not to be sent. */
export type ItemBody = (
  kind: 'upsert' | 'delete',
  item: Record<string, unknown>,
) => Promise<unknown>

/**
 * What a destination receives of an item, by its mapping. Of an item that is to be deleted often only the key is known:
 * then the body is what the mapping makes of that, or undefined when it needs more; destinations know the key anyhow.
 * Throws ExpressionError when `map` or `filter` is no JSONata.
 */
export function compileItemBody({ filter, ...rules }: BodyRules): ItemBody {
  const body = compileBody(rules)
  const wanted = filter === undefined ? undefined : compileExpression(filter)
  return async (kind, item) => {
    if (kind === 'delete') return await body(kind, item)
    if (wanted && (await answerOf(wanted, item)) !== true) {
      return new Skip('the filter of the destination leaves it out')
    }
    const made = await body(kind, item)
    return made === undefined || made === null ? new Skip('the mapping gives nothing for it') : made
  }
}

type BodyRules = Pick<DestinationDefinition, 'map' | 'fields' | 'filter'>

async function answerOf(
  filter: ReturnType<typeof compileExpression>,
  item: Record<string, unknown>,
): Promise<unknown> {
  try {
    return await filter.evaluate(item)
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    throw new MappingError(`filter failed: ${shorten(error.message)}`, { cause: error })
  }
}

function compileBody({ map, fields }: Omit<BodyRules, 'filter'>): ItemBody {
  const mapping = compileMapping({ map, fields })
  if (fields !== undefined) {
    const sources = Object.entries(fields).map(
      ([name, rule]) => [name, typeof rule === 'string' ? rule : rule.from, rule] as const,
    )
    return async (kind, item) => {
      if (kind === 'upsert') return await mapping.apply(item)
      const known = sources.filter(([, from]) => Object.hasOwn(item, from))
      if (known.length === 0) return undefined
      const rules = Object.fromEntries(known.map(([name, , rule]) => [name, rule]))
      return await orNothing(compileMapping({ fields: rules }).apply(item))
    }
  }
  return async (kind, item) => {
    const body = mapping.apply(item)
    return await (kind === 'upsert' ? body : orNothing(body))
  }
}

async function orNothing(body: Promise<unknown>): Promise<unknown> {
  try {
    return await body
  } catch (error) {
    if (error instanceof MappingError) return undefined
    throw error
  }
}
