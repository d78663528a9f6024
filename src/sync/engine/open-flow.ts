import type { LoadedFlow } from '../definition/load.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { createItemReader } from '../item/item.ts'
import { splitKey } from '../item/key.ts'
import type { SourceContext } from '../sources/context.ts'
import { openSource } from '../sources/index.ts'

/** Orders that changed in one moment may become visible in the other order, so reads go back this far. */
const ordersOverlapMs = 60_000

/** Opens the source of a flow and compiles what its items need. Throws what the definition cannot mean. */
export function openFlow(
  { flow, definitionHash }: LoadedFlow,
  context: Omit<SourceContext, 'flow'>,
): FlowRuntime {
  const { source, item } = flow
  const reader = createItemReader(flow)
  return {
    flow,
    definitionHash,
    source: openSource({ ...context, flow }),
    cursor:
      source.type === 'payments.orders'
        ? { field: 'last_updated_at', overlapMs: ordersOverlapMs }
        : 'cursor' in source
          ? source.cursor
          : undefined,
    fullScanEveryMs: 'fullScanEveryMs' in source ? source.fullScanEveryMs : undefined,
    read: (row) => reader.read(row),
    keyValue: (pk) => {
      const values = splitKey(pk, item.key.length) ?? []
      return Object.fromEntries(item.key.map((name, index) => [name, values[index] ?? '']))
    },
  }
}
