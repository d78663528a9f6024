import {
  missingWebhooks,
  missingWebhooksForMs,
  renewalStuckMs,
  tokenEndsWithinMs,
} from './health-limits.ts'
import { type ConnectionHealth, type Health, healthOf } from './health-states.ts'
import type { ConnectionSeen } from './observations.ts'

/** Whether a client's connection to its account at the provider works, and whether the provider's webhooks arrive. */
export function deriveConnection(seen: ConnectionSeen, now: Date): ConnectionHealth {
  return { client: seen.client, ...stateOf(seen, now.getTime()) }
}

function stateOf(seen: ConnectionSeen, now: number): Health {
  const { status, expiresAt, isRenewable } = seen
  if (status === 'none') {
    return seen.isPinned ? healthOf('down', 'not_connected') : healthOf('down', 'account_unpinned')
  }
  if (status === 'lost') {
    return healthOf('down', 'connection_lost', seen.refreshStartedAt ?? seen.refreshedAt)
  }
  const leftMs = expiresAt === null ? Number.POSITIVE_INFINITY : expiresAt.getTime() - now
  if (leftMs <= 0) {
    return isRenewable
      ? healthOf('attention', 'connection_expiring', expiresAt)
      : healthOf('down', 'connection_lost', expiresAt)
  }
  if (!seen.isPinned) return healthOf('attention', 'account_unpinned')
  const started = seen.refreshStartedAt?.getTime()
  if (started !== undefined && now - started > renewalStuckMs) {
    return healthOf('attention', 'connection_expiring', seen.refreshStartedAt)
  }
  if (!isRenewable && leftMs < tokenEndsWithinMs) {
    return healthOf('attention', 'connection_expiring')
  }
  const { withoutWebhook } = seen
  if (
    withoutWebhook &&
    withoutWebhook.count >= missingWebhooks &&
    now - withoutWebhook.since.getTime() > missingWebhooksForMs
  ) {
    return healthOf('attention', 'webhooks_missing', withoutWebhook.since)
  }
  if (seen.unreadable) {
    const { count, since } = seen.unreadable
    return healthOf('attention', 'payments_unreadable', since, { count })
  }
  if (seen.endpoints) return stateOfEndpoints(seen.endpoints)
  return healthOf('ok', null)
}

/** The state is that of the client: its charges work, and its ERP does not get their events. */
function stateOfEndpoints({
  stopped,
  stoppedSince,
  failing,
}: NonNullable<ConnectionSeen['endpoints']>): Health {
  return stopped > 0
    ? healthOf('attention', 'endpoint_stopped', stoppedSince, { count: stopped })
    : healthOf('attention', 'endpoint_failing', null, { count: failing })
}
