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

const form = 'h2'

export type ItemReader = {
  /** Never rejects for what a record holds. */
  read(row: SourceRow): Promise<ReadItem>
  /** The hash of an item over these fields alone, under the given form, as earlier versions of the service stored it. */
  hashOver(fields: readonly string[], item: Item, form: string): string
}

const maxKeyLength = 1_024
/** The databases index at most 2,704 bytes; the names of a flow and a destination stand beside the key. */
const maxKeyBytes = 2_400

/**
 * Makes items of records, as the flow says: canonical form, key, filter, hash (its form, a colon, and the SHA-256 of the
 * canonical text in base64url).
 */
export function createItemReader(flow: Pick<Flow, 'item'>): ItemReader {
  const { key, filter } = flow.item
  const canonical = createCanonicalizer(flow.item.hash)
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
    return { item: { pk, key: values, value: made.value, hash: hashOf(form, made.text) } }
  }

  return {
    hashOver(fields, { value }, name) {
      const own = fields.filter((field) => Object.hasOwn(value, field))
      const part = Object.fromEntries(own.map((field) => [field, value[field]]))
      return hashOf(name, canonical(part).text)
    },
    read: async (row) => {
      const made = makeItem(row)
      return condition && 'item' in made ? await filtered(made.item, condition) : made
    },
  }
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
