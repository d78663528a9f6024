import { hash } from 'node:crypto'
import type { Flow } from '../definition/schema.ts'
import { compileExpression, type Expression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { type Item, type SourceRow, whyNoRecord } from '../types.ts'
import { CanonicalError, createCanonicalizer } from './canonical.ts'
import { joinKey, keyText } from './key.ts'

export type ReadItem =
  | { item: Item }
  /** Left out on purpose; the reason is for people. */
  | { skipped: string; pk: string }
  /** `pk` is null when the record has no usable key. `mayPass`: another time the same record may be judged. */
  | { problem: { pk: string | null; message: string; mayPass?: true } }

/** Changes when the form of items does; then every item counts as changed by definition, not by its source. */
export const itemVersion = 'h1'

/** Forms of hashes: over all fields with times cut to milliseconds, and over all fields or those that are used. */
const firstForm = 'h1'
const form = 'h2'

export type ItemReader = {
  /** Never rejects for what a record holds. */
  read(row: SourceRow): Promise<ReadItem>
  /** The form of the hashes that `read` gives. */
  hashForm: string
  /** The hash of an item that `read` gave, in another form, of the given fields; undefined for one that nobody knows. */
  hashAs(item: Item, hashForm: string, fields: readonly string[] | undefined): string | undefined
}

const maxKeyLength = 1_024
/** The databases index at most 2,704 bytes; the names of a flow and a destination stand beside the key. */
const maxKeyBytes = 2_400

/**
 * Makes items of records, as the flow says: canonical form, key, filter, hash (its form, a colon, and the SHA-256 of the
 * canonical text in base64url). Only `fields` count for the hash; null are all.
 */
export function createItemReader(
  flow: Pick<Flow, 'item'>,
  fields: readonly string[] | null = null,
): ItemReader {
  const { key, filter } = flow.item
  const rules = flow.item.hash
  const canonical = createCanonicalizer({ ...rules, only: fields ? new Set(fields) : undefined })
  const hashForm = formOf(fields)
  const others = new Map<string, ReturnType<typeof createCanonicalizer>>()
  const condition = filter === undefined ? undefined : compileExpression(filter)

  const makeItem = (row: SourceRow): ReadItem => {
    const refused = whyNoRecord(row)
    if (refused !== undefined) return { problem: { pk: null, message: refused } }
    let made: ReturnType<typeof canonical>
    try {
      made = canonical(row)
    } catch (error) {
      if (!(error instanceof CanonicalError)) throw error
      const found = keyOf(key, row)
      const pk = 'pk' in found ? found.pk : null
      return { problem: { pk, message: error.message } }
    }
    const found = keyOf(key, made.value)
    if ('message' in found) return { problem: { pk: null, message: found.message } }
    const { pk, key: values } = found
    return { item: new ReadFromRow(pk, values, made.value, hashOf(hashForm, made.text), row) }
  }

  const otherForm = (name: string, used: readonly string[] | undefined) => {
    const known = others.get(name)
    if (known || (name !== firstForm && name !== form && !used)) return known
    const made = createCanonicalizer(
      name === firstForm
        ? { ...rules, cutsTimes: true }
        : { ...rules, only: used && new Set(used) },
    )
    others.set(name, made)
    return made
  }

  return {
    hashForm,
    hashAs(item, name, used) {
      const row = ReadFromRow.rowOf(item)
      const other = otherForm(name, used)
      return row && other && hashOf(name, other(row).text)
    },
    read: async (row) => {
      const made = makeItem(row)
      return condition && 'item' in made ? await filtered(made.item, condition) : made
    },
  }
}

/** An item that knows the record it was made of. A WeakMap of them would take a quarter of what making them does. */
class ReadFromRow implements Item {
  readonly pk: string
  readonly key: readonly string[]
  readonly value: Item['value']
  readonly hash: string
  readonly #row: SourceRow

  constructor(
    pk: string,
    key: readonly string[],
    value: Item['value'],
    hash: string,
    row: SourceRow,
  ) {
    this.pk = pk
    this.key = key
    this.value = value
    this.hash = hash
    this.#row = row
  }

  static rowOf(item: Item): SourceRow | undefined {
    return #row in item ? item.#row : undefined
  }
}

/** The same fields have the same form. */
function formOf(fields: readonly string[] | null): string {
  if (fields === null) return form
  return `${form}.${hash('sha256', JSON.stringify(fields), 'hex').slice(0, 16)}`
}

function hashOf(hashForm: string, text: string): string {
  return `${hashForm}:${hash('sha256', text, 'base64url')}`
}

async function filtered(item: Item, condition: Expression): Promise<ReadItem> {
  const { pk } = item
  try {
    if ((await condition.evaluate(item.value)) === true) return { item }
    return { skipped: 'item.filter is not true for it', pk }
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    const message = `item.filter failed: ${error.message}`
    return { problem: { pk, message, ...(error.outOfTime && { mayPass: true }) } }
  }
}

function keyOf(
  names: readonly string[],
  record: Record<string, unknown>,
): { pk: string; key: string[] } | { message: string } {
  const values: string[] = []
  for (const name of names) {
    const value = Object.hasOwn(record, name) ? record[name] : undefined
    if (value === undefined || value === null) {
      return { message: `the key field ${JSON.stringify(name)} is null or missing` }
    }
    const text = keyText(value)
    if (text === null) {
      return { message: `the key field ${JSON.stringify(name)} is not a single value` }
    }
    if (text.trim() === '') {
      return { message: `the key field ${JSON.stringify(name)} is blank` }
    }
    values.push(text)
  }
  const pk = joinKey(values)
  if (pk.length > maxKeyLength)
    return { message: `the key is longer than ${maxKeyLength} characters` }
  if (Buffer.byteLength(pk) > maxKeyBytes)
    return { message: `the key is longer than ${maxKeyBytes} bytes` }
  return { pk, key: values }
}
