import { createKeySet, type KeySet } from '../poll/key-set.ts'
import { type Source, SourceError, type SourceRow } from '../types.ts'
import type { SourceContext } from './context.ts'
import { matching } from './counted.ts'
import { hasKey, rowKey } from './row-key.ts'

/**
 * Orders in the order of their last change, each once and in its present state, beginning behind the position `after`
 * (null: at the first). `next` is the position of the last of `rows`, and `after` itself when there are none. Fewer rows
 * than `limit` mean that there are no more now.
 */
export type ListOrderChanges = (options: {
  client?: string
  after: string | null
  limit: number
}) => Promise<{ rows: SourceRow[]; next: string | null }>

const pageSize = 500

/** Every change of an order of the payment side, told by the function that main hands in. */
export function openPaymentsOrdersSource(
  definition: { client?: string | undefined },
  { flow, payments }: Pick<SourceContext, 'flow' | 'payments'>,
): Source {
  const list = payments?.listOrderChanges
  if (!list) throw new SourceError('orders are not available as a source in this process')
  const fields = flow.item.key

  const scan: Source['scan'] = async function* ({ since, signal }) {
    const seen = createKeySet()
    let after = since
    for (;;) {
      signal.throwIfAborted()
      const { client } = definition
      const { rows, next } = await list({
        ...(client !== undefined && { client }),
        after,
        limit: pageSize,
      })
      if (rows.length === 0) return
      // An order that changed while it was read comes again, further on; it is left for the next read, since an item
      // may be there only once in one.
      if (!rows.every((row) => isNew(seen, row, fields))) return
      if (next === null || next === after)
        throw new SourceError('the list of orders does not advance')
      yield rows
      if (rows.length < pageSize) return
      after = next
    }
  }
  return {
    scan,
    readItem: ({ key, signal }) =>
      matching(scan({ since: null, signal }), (row) => hasKey(row, fields, key)),
    close: async () => undefined,
  }
}

/** A record without a key is none of ours to judge. */
function isNew(seen: KeySet, row: SourceRow, fields: readonly string[]): boolean {
  const key = rowKey(row, fields)
  return key === null || seen.add(key)
}
