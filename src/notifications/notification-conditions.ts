import type { Cause } from '../fleet/causes.ts'

/**
 * From which state on a cause is notified: `down`, or `attention` before anything is down. `intended`: a person
 * caused it on purpose, so neither its start nor its end is notified. `never`: other messages cover it, or it needs
 * no action.
 */
type NotifiedFrom = 'attention' | 'down' | 'intended' | 'never'

/** When a state of a box, a connection, a flow or a destination is notified. */
export const conditions = {
  terminal_standalone: 'down',
  terminal_missing: 'down',
  terminal_silent: 'down',
  terminal_busy: 'down',
  // The cashier sees it at the terminal.
  terminal_waits: 'never',
  refused: 'down',
  quiet: 'never',
  never_charged: 'never',

  in_doubt: 'attention',
  contradicted: 'attention',
  paid_late: 'attention',
  paid_less: 'attention',
  settled_unpaid: 'attention',
  refund_in_doubt: 'attention',

  provider_failing: 'attention',
  throttled: 'down',
  service_failing: 'down',

  connection_lost: 'down',
  connection_expiring: 'attention',
  not_connected: 'intended',
  account_unpinned: 'attention',
  webhooks_missing: 'attention',
  payments_unreadable: 'attention',
  // It has a message of its own, with its address and reason: see endpoint-message.ts.
  endpoint_stopped: 'never',
  endpoint_failing: 'attention',

  source_failing: 'down',
  not_polled: 'down',
  never_polled: 'never',
  access_lost: 'down',
  flow_paused: 'intended',
  flow_limited: 'intended',
  question_open: 'attention',
  sending_stopped: 'intended',
  destination_failing: 'down',
  destination_asked_to_wait: 'never',
  deliveries_late: 'attention',
  // Each failed delivery is counted: see failure-groups.ts.
  deliveries_failed: 'never',
} as const satisfies Record<Cause, NotifiedFrom>

/** Changes with one cause show up within a few seconds: those that began within this time are one message. */
export const groupWithinMs = 10_000
/** How long the database must take no writes before it is notified: a restart of the server takes less. */
export const databaseDownMs = 15_000
/** How long before its deadline a charge-back without documents is notified again. */
export const documentsWithinMs = 3 * 24 * 3600_000

/** The causes of one of the kinds. */
export function causesOf(kind: NotifiedFrom): string[] {
  return Object.entries(conditions).flatMap(([cause, from]) => (from === kind ? [cause] : []))
}
