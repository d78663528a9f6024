import { hash } from 'node:crypto'
import type { KeptBody } from '../../db/column-types.ts'
import { canonicalJson, isRecord } from '../../domain/json.ts'
import { type Reason, ReasonError } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import { convertField } from '../mapping/convert-field-types.ts'
import { excerpt, shorten } from '../mapping/excerpt.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError, lineAndColumn, shortReason } from '../mapping/expression-error.ts'
import { madeFields, usesWholeBody } from '../mapping/named-values.ts'
import { mayUseField } from '../mapping/used-fields.ts'
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
        const data = {
          ...placeIn(map, error.position),
          ...{ what, ...nullsIn(value, map), item: excerpt(value) },
        }
        throw new MappingError({ code: 'MAP_FAILED', data }, { cause: error })
      }
      return body
    },
  }
}

/** A column that may be NULL is the usual cause. */
function nullsIn(value: Record<string, unknown>, map: string): { nulls?: Reason[] } {
  const mayUse = mayUseField({ item: {}, destinations: [{ map }] })
  const nulls = Object.keys(value)
    .filter((field) => value[field] === null && mayUse(field))
    .map((field): Reason => ({ code: 'FIELD_NULL', data: { field } }))
  return nulls.length === 0 ? {} : { nulls }
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
   * fields are present as `undefined`: those of the last delivered body or of the mapping.
   */
  ofUpsert(item: Record<string, unknown>, delivered?: KeptBody | null): Promise<unknown>
  /**
   * The body of a delete: the delivered one. Fields that are not on record are there if `item`, which has only the key, has
   * them as they are. Throws MappingError if a request sends the body as a whole, and that is not on record.
   */
  ofDelete(item: Record<string, unknown>, delivered: KeptBody | null): unknown
  /** What is stored of a delivered body. */
  keptOf(body: unknown): KeptBody | undefined
}

/** Identifies a body, whatever the order of its fields: 16 bytes in base64url. */
export function bodyDigest(body: unknown): string {
  return hash('sha256', canonicalJson(body), 'base64url').slice(0, 22)
}

const mostKeptBytes = 16_384
/** Of a larger body. Keys, codes and numbers of receivers are shorter, texts and pictures are not. */
const mostFieldBytes = 256

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
  const made = madeFields({ map, fields })
  const isTable = definition.type === 'sql'
  const deletesByWhole = deletes && sendsWholeBody(definition)
  return {
    async ofUpsert(item, delivered) {
      if (wanted && (await answerOf(wanted, item)) !== true) {
        return new Skip({ code: 'FILTERED_OUT' })
      }
      const body = await mapping.apply(item)
      if (body === undefined || body === null) return new Skip({ code: 'MAPPED_TO_NOTHING' })
      if (!isTable || !isRecord(body)) return body
      return withVanished(body, made ?? namesIn(wholeOf(delivered) ?? partOf(delivered)))
    },
    ofDelete(item, delivered) {
      const whole = wholeOf(delivered)
      if (whole !== undefined) return whole
      if (deletesByWhole) throw new MappingError({ code: 'NOT_DELIVERED_BODY' })
      const known = Object.entries(partOf(delivered)).filter(([, value]) => value !== null)
      return { ...fieldsOfKey(item, key, { map, fields }), ...Object.fromEntries(known) }
    },
    keptOf(body) {
      if (deletes) return wholeOrPart(body)
      // The mapping does not say which columns it may give, so the columns it gave are stored.
      if (!isTable || made) return undefined
      return ifItFits({ part: Object.fromEntries(namesIn(body).map((name) => [name, null])) })
    },
  }
}

/** Whether a delete, or a look-up before it, sends the delivered body as a whole. */
function sendsWholeBody(definition: DestinationDefinition): boolean {
  if (definition.type !== 'http' || !definition.delete) return false
  return [definition.delete, ...(definition.find ?? [])].some(usesWholeBody)
}

function wholeOrPart(body: unknown): KeptBody | undefined {
  const kept = ifItFits({ whole: body })
  if (kept || !isRecord(body)) return kept
  const fields = Object.entries(body).map(([name, value]) => {
    return [name, fitsIn(mostFieldBytes, value) ? value : null]
  })
  return ifItFits({ part: Object.fromEntries(fields) })
}

function ifItFits(kept: KeptBody): KeptBody | undefined {
  return fitsIn(mostKeptBytes, kept) ? kept : undefined
}

/** The database refuses JSON with broken Unicode. */
function fitsIn(bytes: number, value: unknown): boolean {
  const text = JSON.stringify(value) ?? ''
  return Buffer.byteLength(text) <= bytes && !/\\u0000|\\ud[89a-f]/i.test(text)
}

function wholeOf(delivered: KeptBody | null | undefined): unknown {
  return delivered && 'whole' in delivered ? delivered.whole : undefined
}

function partOf(delivered: KeptBody | null | undefined): Readonly<Record<string, unknown>> {
  return delivered && 'part' in delivered ? delivered.part : {}
}

/** The fields of a body that are the item's key as it is. What a `map` makes of it is not known. */
function fieldsOfKey(
  item: Record<string, unknown>,
  key: readonly string[],
  { map, fields }: Rules,
): Record<string, unknown> {
  if (map !== undefined) return {}
  if (fields === undefined) return item
  const ofKey = Object.entries(fields).filter(([, rule]) =>
    key.includes(typeof rule === 'string' ? rule : rule.from),
  )
  return applyFields(item, Object.fromEntries(ofKey))
}

/** The fields that have a value, including null. */
function namesIn(body: unknown): string[] {
  if (!isRecord(body)) return []
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
