import { createKeySet, type KeySet } from '../poll/key-set.ts'
import { type Source, SourceError, type SourceRow } from '../types.ts'
import type { SourceContext } from './context.ts'
import { matching } from './counted.ts'
import { hasKey, rowKey } from './row-key.ts'

/**
 * Things of the payment side in the order of their last change, each once and in its present state, beginning behind the
 * position `after` (null: at the first). `next` is the position of the last of `rows`, and `after` itself when there are none.
 * Fewer rows than `limit` mean that there are no more now.
 */
export type ListChanges = (options: {
  client?: string
  after: string | null
  limit: number
}) => Promise<{ rows: SourceRow[]; next: string | null }>

/** What the payment side tells flows of; main hands it in. */
export type PaymentFeeds = {
  listOrderChanges?: ListChanges
  listSettlementChanges?: ListChanges
  listClosingChanges?: ListChanges
}

const feedOf = {
  'payments.orders': { list: 'listOrderChanges', things: 'orders' },
  'payments.settlements': { list: 'listSettlementChanges', things: 'settlements' },
  'payments.closings': { list: 'listClosingChanges', things: 'closings' },
} as const

const pageSize = 500

/** Every change of a thing of the payment side. */
export function openPaymentsSource(
  definition: { type: keyof typeof feedOf; client?: string | undefined },
  { flow, payments }: Pick<SourceContext, 'flow' | 'payments'>,
): Source {
  const feed = feedOf[definition.type]
  const list = payments?.[feed.list]
  if (!list) throw new SourceError(`${feed.things} are not available as a source in this process`)
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
      // What changed while it was read comes again, further on; it is left for the next read, since an item
      // may be there only once in one.
      if (!rows.every((row) => isNew(seen, row, fields))) return
      if (next === null || next === after) throw new SourceError('the list does not advance')
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
