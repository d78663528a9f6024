import { hash } from 'node:crypto'
import type { Flow } from '../definition/schema.ts'
import { compileExpression, type Expression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import type { Item, SourceRow } from '../types.ts'
import { CanonicalError, createCanonicalizer } from './canonical.ts'
import { joinKey } from './key.ts'

export type ReadItem =
  | { item: Item }
  /** Left out on purpose; the reason is for people. */
  | { skipped: string; pk: string }
  /** `pk` is null when the record has no usable key. `mayPass`: another time the same record may be judged. */
  | { problem: { pk: string | null; message: string; mayPass?: true } }

/** Changes when the way of hashing does; then every item counts as changed by definition, not by its source. */
export const hashVersion = 'h1'

const maxKeyLength = 1_024
/** The databases index at most 2,704 bytes; the names of a flow and a destination stand beside the key. */
const maxKeyBytes = 2_400

/**
 * Makes items of records, as the flow says: canonical form, key, filter, hash (`h1:` and the SHA-256 of the canonical
 * text in base64url). Never rejects for what a record holds.
 */
export function createItemReader(flow: Pick<Flow, 'item'>): {
  read(row: SourceRow): Promise<ReadItem>
} {
  const { key, filter } = flow.item
  const canonical = createCanonicalizer(flow.item.hash)
  const condition = filter === undefined ? undefined : compileExpression(filter)

  const makeItem = (row: SourceRow): ReadItem => {
    let form: ReturnType<typeof canonical>
    try {
      form = canonical(row)
    } catch (error) {
      if (!(error instanceof CanonicalError)) throw error
      const found = keyOf(key, row)
      const pk = 'pk' in found ? found.pk : null
      return { problem: { pk, message: error.message } }
    }
    const found = keyOf(key, form.value)
    if ('message' in found) return { problem: { pk: null, message: found.message } }
    const digest = hash('sha256', form.text, 'base64url')
    return {
      item: {
        ...found,
        value: form.value,
        hash: `${hashVersion}:${digest}`,
      },
    }
  }

  return {
    read: async (row) => {
      const made = makeItem(row)
      return condition && 'item' in made ? await filtered(made.item, condition) : made
    },
  }
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
    if (typeof value === 'object' || typeof value === 'function' || typeof value === 'symbol') {
      return { message: `the key field ${JSON.stringify(name)} is not a single value` }
    }
    const text = String(value)
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
