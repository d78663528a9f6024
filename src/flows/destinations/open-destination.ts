import { fenceOf } from '../definition/reach.ts'
import type { Destination, DestinationDefinition } from '../types.ts'
import type { DestinationContext } from './destination-context.ts'
import { openFileDestination } from './file.ts'
import { HttpDestination } from './http.ts'
import { openPaymentsPos, openPaymentsStores } from './payments-stores.ts'
import { openSqlDestination } from './sql.ts'

/**
 * Opens a destination of a flow. It connects only at the first delivery. Throws for a contradiction in the definition that
 * only shows here, such as a host that depends on the item.
 */
export function openDestination(
  definition: DestinationDefinition,
  context: DestinationContext,
): Destination {
  switch (definition.type) {
    case 'http':
      return new HttpDestination({
        ...definition,
        ...definition.retry,
        batch: definition.batch && {
          ...definition.batch,
          request: definition.batch.request ?? definition.request,
        },
        agent: context.agent,
        grants: context.grants,
        usedBy: { flow: context.flow.name ?? '', destination: definition.name },
        now: context.now,
        staysBelow: definition.name in context.flow.reach.connections,
      })
    case 'sql':
      return openSqlDestination(definition, {
        url: definition.url.reveal(),
        connections: definition.concurrency,
        batch: definition.batch.size,
        timeoutMs: definition.timeoutMs,
        ownDatabase: context.ownDatabase,
      })
    case 'file':
      return openFileDestination({
        ...definition,
        fence: fenceOf(context.flow, definition.name),
        timezone: context.flow.window?.timezone ?? 'UTC',
        now: context.now,
      })
    case 'payments.stores':
      return openPaymentsStores(
        {
          client: definition.client,
          mayDeleteStores: context.flow.deletes.mode === 'delete' && definition.allowStoreDelete,
        },
        context.payments,
      )
    case 'payments.pos':
      return openPaymentsPos(definition.client, context.payments)
  }
}
