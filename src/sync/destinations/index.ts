import type { Dispatcher } from 'undici'
import type { Flow } from '../definition/schema.ts'
import type { Secret } from '../definition/secret.ts'
import type { Destination, DestinationDefinition } from '../types.ts'
import { openFileDestination } from './file.ts'
import { openHttpDestination, type RequestTemplate } from './http.ts'
import type { PaymentsPort } from './payments-port.ts'
import { openPaymentsPos } from './payments-pos.ts'
import { openPaymentsStores } from './payments-stores.ts'
import { openSqlDestination } from './sql.ts'

export type DestinationContext = {
  flow: Pick<Flow, 'deletes' | 'window'>
  /** From createGuardedAgent with the flow's allowPrivateNetwork; it stays the caller's to close. */
  agent: Dispatcher
  payments: PaymentsPort
  now: () => Date
  /** Relative paths of files are relative to it; the working directory when absent. */
  baseDir?: string
}

/**
 * Opens a destination of a flow. Nothing is called or written before the first delivery. Throws when the definition
 * contradicts itself in a way that only shows here, such as a host that depends on the item.
 */
export function openDestination(
  definition: DestinationDefinition,
  context: DestinationContext,
): Destination {
  switch (definition.type) {
    case 'http':
      return openHttpDestination({
        request: templateOf(definition.request),
        ...(definition.delete && { delete: templateOf(definition.delete) }),
        timeoutMs: definition.timeoutMs,
        retryStatus: definition.retry.retryStatus,
        respectRetryAfter: definition.retry.respectRetryAfter,
        agent: context.agent,
        now: context.now,
      })
    case 'sql':
      return openSqlDestination(
        { driver: definition.driver, table: definition.table, upsertKey: definition.upsertKey },
        {
          url: definition.url.reveal(),
          connections: definition.concurrency,
          timeoutMs: definition.timeoutMs,
        },
      )
    case 'file':
      return openFileDestination({
        path: definition.path,
        format: definition.format,
        baseDir: context.baseDir ?? process.cwd(),
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

function templateOf(request: {
  method: RequestTemplate['method']
  url: Secret
  headers: Record<string, Secret>
  okStatus?: number[] | undefined
}): RequestTemplate {
  const headers = Object.entries(request.headers).map(([name, value]) => [name, value.reveal()])
  return {
    method: request.method,
    url: request.url.reveal(),
    headers: Object.fromEntries(headers),
    okStatus: request.okStatus,
  }
}
