import { hash as digest } from 'node:crypto'
import type { Reason } from '../../domain/flow-reasons.ts'
import { type DeleteNeeds, deleteNeeds, fieldsOfKey, madeFields } from '../mapping/delete-needs.ts'
import { shorten } from '../mapping/excerpt.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { compileMapping, MappingError } from '../mapping.ts'
import type { DestinationDefinition } from '../types.ts'

/** The destination is not to have the item; `why` says for what reason. */
export class Skip {
  readonly why: Reason

  constructor(why: Reason) {
    this.why = why
  }
}

export function isSkip(body: unknown): body is Skip {
  return body instanceof Skip
}

export type ItemBody = {
  /**
   * Rejects with MappingError when the mapping cannot turn the item into a body; a Skip when it is not to be sent. For a table
   * the body also has, as `undefined`, the fields that the item had when it was delivered, or that its mapping may give, and has no
   * longer. `kept` is what was kept of the body that was delivered last.
   */
  ofUpsert(item: Record<string, unknown>, kept?: unknown): Promise<unknown>
  /**
   * The body of a delete: what was kept of the delivered body, and beside it the fields that are made of the key alone. `item` has
   * the key only. Rejects with MappingError when the delete needs a field that is neither.
   */
  ofDelete(item: Record<string, unknown>, kept: unknown): Promise<unknown>
  /** What a later delete or change needs of a delivered body; undefined when that is nothing, or too large to be kept. */
  keptOf(body: unknown): unknown
}

/**
 * What tells a body from others, 43 characters. It counts the item's hash too: whoever delivers without
 * writing this down, as a version of the service before it, leaves one that fits no more.
 */
export function bodyHash(hash: string, body: unknown): string {
  return digest('sha256', `${hash} ${JSON.stringify(body)}`, 'base64url')
}

const mostKeptBytes = 16_384

/**
 * What a destination receives of an item, by its mapping.
 * @param key the fields of the item's key.
 * @param deletes whether the flow deletes at its destinations.
 * @throws ExpressionError when `map` or `filter` is no JSONata.
 */
export function compileItemBody(
  definition: DestinationDefinition,
  { key, deletes }: { key: readonly string[]; deletes: boolean },
): ItemBody {
  const { map, fields, filter } = definition
  const mapping = compileMapping({ map, fields })
  const wanted = filter === undefined ? undefined : compileExpression(filter)
  const needs: DeleteNeeds = deletes ? deleteNeeds(definition) : new Set()
  const ofKey = fieldsOfKey({ map, fields }, key)
  const made = madeFields({ map, fields })
  const isTable = definition.type === 'sql'
  const keyTellsAll = made !== undefined && [...made].every((name) => ofKey.includes(name))

  const madeOfKey = async (item: Record<string, unknown>) => {
    const rules = fields && Object.fromEntries(ofKey.map((name) => [name, fields[name] ?? name]))
    const own = rules ? compileMapping({ fields: rules }) : mapping
    const body = ofKey.length === 0 ? undefined : await orNothing(own.apply(item))
    return pick(body, new Set(ofKey))
  }

  return {
    async ofUpsert(item, kept) {
      if (wanted && (await answerOf(wanted, item)) !== true) {
        return new Skip({ code: 'FILTERED_OUT' })
      }
      const body = await mapping.apply(item)
      if (body === undefined || body === null) return new Skip({ code: 'MAPPED_TO_NOTHING' })
      return isTable && isObject(body) ? withVanished(body, made ?? namesIn(kept)) : body
    },
    async ofDelete(item, kept) {
      const isKept = kept !== undefined && kept !== null
      if (needs === 'all') {
        if (isKept) return kept
        if (keyTellsAll) return madeOfKey(item)
        throw notOnRecord('the body')
      }
      const body = { ...(await madeOfKey(item)), ...pick(kept, needs) }
      const missing = [...needs].filter((name) => !Object.hasOwn(body, name))
      if (missing.length > 0) throw notOnRecord(missing.join(', '))
      return body
    },
    keptOf(body) {
      // Where the mapping does not tell which columns it may give, those that were given have to be kept.
      const names = isTable && !made ? namesIn(body) : []
      if (needs !== 'all' && needs.size + names.length === 0) return undefined
      if (needs === 'all') return smallEnough(body)
      const own = { ...blank(needs), ...pick(body, needs) }
      return smallEnough({ ...blank(names), ...own }) ?? smallEnough(own)
    },
  }
}

function smallEnough(kept: unknown): unknown {
  return Buffer.byteLength(JSON.stringify(kept)) > mostKeptBytes ? undefined : kept
}

function blank(names: Iterable<string>): Record<string, null> {
  return Object.fromEntries([...names].map((name) => [name, null]))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The fields that have a value, null included. */
function namesIn(body: unknown): string[] {
  if (!isObject(body)) return []
  return Object.entries(body).flatMap(([name, value]) => (value === undefined ? [] : [name]))
}

function withVanished(
  body: Record<string, unknown>,
  names: Iterable<string>,
): Record<string, unknown> {
  const vanished = [...names].filter((name) => !Object.hasOwn(body, name))
  if (vanished.length === 0) return body
  return { ...body, ...Object.fromEntries(vanished.map((name) => [name, undefined])) }
}

function notOnRecord(fields: string): MappingError {
  return new MappingError({ code: 'NOT_DELIVERED_FIELDS', data: { fields } })
}

function pick(body: unknown, names: ReadonlySet<string>): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return {}
  const given = Object.entries(body).filter(
    ([name, value]) => names.has(name) && value !== undefined,
  )
  return Object.fromEntries(given)
}

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

async function orNothing(body: Promise<unknown>): Promise<unknown> {
  try {
    return await body
  } catch (error) {
    if (error instanceof MappingError) return undefined
    throw error
  }
}
