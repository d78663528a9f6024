import { hash } from 'node:crypto'
import { type Reason, ReasonError } from '../../domain/flow-reasons.ts'
import { canonicalJson } from '../../domain/json.ts'
import type { Flow } from '../definition/schema.ts'
import { convertField } from '../mapping/convert-field-types.ts'
import { type DeleteNeeds, deleteNeeds, fieldsOfKey, madeFields } from '../mapping/delete-fields.ts'
import { excerpt, shorten } from '../mapping/excerpt.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError, lineAndColumn, shortReason } from '../mapping/expression-error.ts'
import type { DestinationDefinition } from '../types.ts'

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
        const what = shortReason(error)
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

/** The destination must not get the item, for the reason `why`. */
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
   * Rejects with MappingError if the mapping fails. Returns a Skip if the item must not be sent. For a table, removed
   * fields are present as `undefined`: those of the last delivered body or of the mapping. `kept` is the stored part
   * of that body.
   */
  ofUpsert(item: Record<string, unknown>, kept?: unknown): Promise<unknown>
  /**
   * The body of a delete: the stored part of the delivered body, and fields made from the key. `item` has only the
   * key. Rejects with MappingError if a needed field is in neither.
   */
  ofDelete(item: Record<string, unknown>, kept: unknown): Promise<unknown>
  /** The part of a delivered body that a later delete or change needs; undefined if it is empty or too large. */
  keptOf(body: unknown): unknown
}

/** Identifies a body, whatever the order of its fields: 16 bytes in base64url. */
export function bodyDigest(body: unknown): string {
  return hash('sha256', canonicalJson(body), 'base64url').slice(0, 22)
}

const mostKeptBytes = 16_384

/**
 * Compiles the mapping of an item for a destination.
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
      // The mapping does not say which columns it may give, so the columns it gave are stored.
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

/** The fields that have a value, including null. */
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
    throw new MappingError(
      { code: 'FILTER_FAILED', data: { what: shortReason(error) } },
      { cause: error },
    )
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
