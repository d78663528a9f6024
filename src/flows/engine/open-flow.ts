import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/json.ts'
import { identitiesOf } from '../definition/identity.ts'
import type { Flow } from '../definition/schema.ts'
import { destinationForms, itemFormHash, keyFormHash } from '../item/definition-hash.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { createItemReader } from '../item/item.ts'
import type { LoadedFlow } from '../loading/load-flow-files.ts'
import { usedFieldsOf } from '../poll/missing-fields.ts'
import { isPaymentsSource, openSource } from '../sources/open-source.ts'
import { paymentsOverlapMs } from '../sources/payments-feed.ts'
import type { SourceContext } from '../sources/source-context.ts'

/** Opens the source of a flow and compiles its expressions. Throws if the definition is not valid. */
export function openFlow(
  { flow, definitionHash }: LoadedFlow,
  context: Omit<SourceContext, 'flow'>,
): FlowRuntime {
  const { source } = flow
  const { read } = createItemReader(flow)
  return {
    flow,
    definitionHash,
    itemForm: `${itemFormHash(flow)}/${keyFormHash(flow)}`,
    identities: identitiesOf(flow),
    forms: destinationForms(flow),
    source: openSource({ ...context, flow }),
    groupBy: 'groupBy' in source ? source.groupBy : undefined,
    cursor: cursorOf(source),
    fullScanEveryMs: 'fullScanEveryMs' in source ? source.fullScanEveryMs : undefined,
    read,
    usedFields: usedFieldsOf(flow),
  }
}

function cursorOf(source: Flow['source']): FlowRuntime['cursor'] {
  if (isPaymentsSource(source)) {
    const { type, client } = source
    const origin = originOf({ type, client })
    return { field: 'last_updated_at', overlapMs: paymentsOverlapMs, origin }
  }
  if (!('cursor' in source) || !source.cursor) return undefined
  const { field, overlapMs, initial } = source.cursor
  // The address as written in the file, so that a new password does not change the source.
  const read = { type: source.type, url: source.url.template, field, initial }
  const origin =
    source.type === 'sql'
      ? originOf({
          ...read,
          driver: source.driver,
          query: source.query.trim(),
          ...parametersOf(source),
        })
      : originOf({ ...read, items: source.items, ...requestOf(source) })
  return { field, overlapMs, origin }
}

/** As written in the file. Undefined without parameters, so that the identity of older definitions stays. */
function parametersOf({ parameters }: Extract<Flow['source'], { type: 'sql' }>) {
  const given = Object.entries(parameters ?? {}).map(([name, { template }]) => [name, template])
  return given.length > 0 && { parameters: canonicalJson(Object.fromEntries(given)) }
}

/** As written in the file. Undefined without them, so that the identity of older definitions stays. */
function requestOf({ method, body }: Extract<Flow['source'], { type: 'http' }>) {
  return (method || body) && { method, body: body && canonicalJson(body) }
}

function originOf(read: Readonly<Record<string, string | undefined>>): string {
  return hash('sha256', canonicalJson(read), 'hex')
}
