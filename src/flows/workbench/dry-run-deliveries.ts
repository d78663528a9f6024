import { addressPolicyOf } from '../../outbound/address-class.ts'
import { createGuardedAgent } from '../../outbound/guarded-agent.ts'
import type { Reason } from '../../texts/reason.ts'
import type { Model } from '../api/api-model.ts'
import { destinationIdentity } from '../definition/identity.ts'
import type { Flow } from '../definition/schema.ts'
import { jobOf } from '../deliver/attempt.ts'
import { compileItemBody, isSkip, MappingError } from '../deliver/item-body.ts'
import type { DestinationContext } from '../destinations/destination-context.ts'
import { BatchError } from '../destinations/http-batch.ts'
import { openDestination } from '../destinations/open-destination.ts'
import { TemplateError } from '../net/http-body.ts'
import type { Remembered } from '../types.ts'
import { compileRequestPreviews } from './request-preview.ts'
import type { DryRunDeliverySchema } from './workbench-schemas.ts'

/** What a destination would get for an item: the mapped body and the requests, or why it gets nothing. */
export type DryRunDelivery = Omit<Model<typeof DryRunDeliverySchema>, 'skipped' | 'refused'> & {
  /** Set if the item is left out on purpose. */
  skipped: Reason | null
  /** Set if something prevents the delivery. */
  refused: Reason | null
}

export type DryRunDeliveries = {
  /** `remembered` has the values kept from answers, by destination; empty for a new item. */
  of(
    item: { pk: string; hash: string; value: Record<string, unknown> },
    remembered?: ReadonlyMap<string, Remembered>,
  ): Promise<DryRunDelivery[]>
  close(): Promise<void>
}

/**
 * Shows what the destinations of a flow would get, by the code of deliveries, without calling them. Throws for a
 * definition that is not valid despite its correct form.
 */
export async function openDryRunDeliveries(
  flow: Flow,
  context: Omit<DestinationContext, 'flow' | 'agent'>,
): Promise<DryRunDeliveries> {
  const agent = createGuardedAgent(addressPolicyOf(flow))
  const close = async () => {
    await Promise.all(targets.map(({ destination }) => destination.close()))
    await agent.close()
  }
  const targets: ReturnType<typeof openOne>[] = []
  const openOne = (definition: Flow['destinations'][number]) => ({
    flow: flow.name,
    keyName: flow.name,
    identity: destinationIdentity(definition),
    keyFields: flow.item.key.length,
    definition,
    destination: openDestination(definition, { ...context, flow, agent }),
    body: compileItemBody(definition, { key: flow.item.key, deletes: false }),
    requestsOf: compileRequestPreviews(definition, context.now),
  })
  try {
    for (const definition of flow.destinations) targets.push(openOne(definition))
  } catch (error) {
    await close()
    throw error
  }
  return {
    close,
    of: (item, remembered) =>
      Promise.all(
        targets.map(async (target) => {
          const { definition, destination, body, requestsOf } = target
          const { name, type } = definition
          const shown = { name, type, body: null, requests: [], skipped: null, refused: null }
          try {
            const made = await body.ofUpsert(item.value)
            if (isSkip(made)) return { ...shown, skipped: made.why }
            const job = jobOf(target, {
              ...{ pk: item.pk, kind: 'upsert', hash: item.hash, change: 0, item: item.value },
              ...{ body: made, remembered: remembered?.get(name), attempt: 1 },
              mayStart: () => false,
            })
            const refused = destination.refusalOf(job) ?? null
            return { ...shown, body: made, refused, requests: await requestsOf(job) }
          } catch (error) {
            const refused = whyRefused(error)
            if (refused === undefined) throw error
            return { ...shown, refused }
          }
        }),
      ),
  }
}

function whyRefused(error: unknown): Reason | undefined {
  const isUnmade =
    error instanceof MappingError || error instanceof TemplateError || error instanceof BatchError
  return isUnmade ? error.why : undefined
}
