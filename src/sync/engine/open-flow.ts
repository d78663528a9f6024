import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/canonical-json.ts'
import { itemFormHash } from '../definition/definition-hash.ts'
import type { LoadedFlow } from '../definition/load.ts'
import type { Flow } from '../definition/schema.ts'
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
    itemForm: itemFormHash(flow),
    source: openSource({ ...context, flow }),
    cursor: cursorOf(source),
    fullScanEveryMs: 'fullScanEveryMs' in source ? source.fullScanEveryMs : undefined,
    read: (row) => reader.read(row),
    keyValue: (pk) => {
      const values = splitKey(pk, item.key.length) ?? []
      return Object.fromEntries(item.key.map((name, index) => [name, values[index] ?? '']))
    },
  }
}

function cursorOf(source: Flow['source']): FlowRuntime['cursor'] {
  if (source.type === 'payments.orders') {
    const { type, client } = source
    const origin = originOf({ type, client })
    return { field: 'last_updated_at', overlapMs: ordersOverlapMs, origin }
  }
  if (!('cursor' in source) || !source.cursor) return undefined
  const { field, overlapMs, initial } = source.cursor
  // The address as the file has it: a new password is no new source.
  const read = { type: source.type, url: source.url.template, field, initial }
  const origin =
    source.type === 'sql'
      ? originOf({ ...read, driver: source.driver, query: source.query.trim() })
      : originOf({ ...read, items: source.items })
  return { field, overlapMs, origin }
}

function originOf(read: Readonly<Record<string, string | undefined>>): string {
  return hash('sha256', canonicalJson(read), 'hex')
}
