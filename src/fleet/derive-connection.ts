import {
  missingWebhooks,
  missingWebhooksForMs,
  renewalStuckMs,
  tokenEndsWithinMs,
} from './health-limits.ts'
import type { ConnectionSeen } from './observations.ts'
import type { ConnectionHealth, Health } from './states.ts'

/** Whether a client's connection to its account at the provider works, and whether the provider's webhooks arrive. */
export function deriveConnection(seen: ConnectionSeen, now: Date): ConnectionHealth {
  return { client: seen.client, ...healthOf(seen, now.getTime()) }
}

function healthOf(seen: ConnectionSeen, now: number): Health {
  const { status, expiresAt, isRenewable } = seen
  if (status === 'none') {
    return seen.isPinned
      ? trouble('down', 'not_connected', null)
      : trouble('down', 'account_unpinned', null)
  }
  if (status === 'lost') {
    return trouble('down', 'connection_lost', seen.refreshStartedAt ?? seen.refreshedAt)
  }
  const leftMs = expiresAt === null ? Number.POSITIVE_INFINITY : expiresAt.getTime() - now
  if (leftMs <= 0) {
    return isRenewable
      ? trouble('attention', 'connection_expiring', expiresAt)
      : trouble('down', 'connection_lost', expiresAt)
  }
  if (!seen.isPinned) return trouble('attention', 'account_unpinned', null)
  const started = seen.refreshStartedAt?.getTime()
  if (started !== undefined && now - started > renewalStuckMs) {
    return trouble('attention', 'connection_expiring', seen.refreshStartedAt)
  }
  if (!isRenewable && leftMs < tokenEndsWithinMs) {
    return trouble('attention', 'connection_expiring', null)
  }
  const { withoutWebhook } = seen
  if (
    withoutWebhook &&
    withoutWebhook.count >= missingWebhooks &&
    now - withoutWebhook.since.getTime() > missingWebhooksForMs
  ) {
    return trouble('attention', 'webhooks_missing', withoutWebhook.since)
  }
  if (seen.unreadable) {
    const { count, since } = seen.unreadable
    return { ...trouble('attention', 'payments_unreadable', since), about: { count } }
  }
  return { state: 'ok', cause: null, since: null, about: {} }
}

function trouble(
  state: 'attention' | 'down',
  cause: NonNullable<Health['cause']>,
  since: Date | null,
): Health {
  return { state, cause, since, about: {} }
}
