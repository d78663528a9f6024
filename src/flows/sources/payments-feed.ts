import { createKeySet, type KeySet } from '../item/key-set.ts'
import { type Source, SourceError, type SourceRow } from '../types.ts'
import { matching } from './record-batches.ts'
import { hasKey, rowKey } from './row-key.ts'
import type { PaymentFeeds, SourceContext } from './source-context.ts'

const pageSize = 500
/** Changes of one moment may become visible in another order, so each poll reads again from this long before its cursor. */
export const paymentsOverlapMs = 60_000

/** Reads all changes of one kind of payment-side record. */
export function openPaymentsSource(
  definition: { type: keyof PaymentFeeds; client?: string | undefined },
  { flow, payments }: Pick<SourceContext, 'flow' | 'payments'>,
): Source {
  const list = payments[definition.type]
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
      // A record that changed during the scan appears again later. It is left for the next scan, because a scan may contain
      // an item only once.
      if (!rows.every((row) => isNew(seen, row, fields))) return
      if (next === null || next === after) throw new SourceError({ code: 'LIST_STANDS_STILL' })
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

/** A record without a key counts as new; the item reader reports it. */
function isNew(seen: KeySet, row: SourceRow, fields: readonly string[]): boolean {
  const key = rowKey(row, fields)
  return key === null || seen.add(key)
}
