import { compileMapping, MappingError } from '../mapping.ts'
import type { DestinationDefinition } from '../types.ts'

/** Rejects with MappingError when the mapping cannot turn the item into a body. */
export type ItemBody = (
  kind: 'upsert' | 'delete',
  item: Record<string, unknown>,
) => Promise<unknown>

/**
 * What a destination receives of an item, by its mapping. Of an item that is to be deleted often only the key is known:
 * then the body is what the mapping makes of that, or undefined when it needs more; destinations know the key anyhow.
 * Throws ExpressionError when `map` is no JSONata.
 */
export function compileItemBody({
  map,
  fields,
}: Pick<DestinationDefinition, 'map' | 'fields'>): ItemBody {
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
