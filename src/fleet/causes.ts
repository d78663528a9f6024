/** What the reader should do, as a fixed word. The message has the whole sentence. */
export const actions = [
  'set_pdv',
  'pair_terminal',
  'check_terminal_power',
  'free_terminal',
  'look_at_terminal',
  'settle_doubt',
  'look_at_order',
  'look_at_payments',
  'read_refusal',
  'check_provider_status',
  'reconnect',
  'pin_account',
  'check_webhook_address',
  'check_endpoint',
  'resume_flow',
  'start_sending',
  'check_source',
  'check_service',
  'check_destination',
  'authorize_again',
  'wait',
] as const
type Action = (typeof actions)[number]

/** What to do about each cause of a state. Its text has the key `fleet.` and the cause. */
export const causes = {
  terminal_standalone: 'set_pdv',
  terminal_missing: 'pair_terminal',
  terminal_silent: 'check_terminal_power',
  terminal_busy: 'free_terminal',
  terminal_waits: 'look_at_terminal',
  refused: 'read_refusal',
  provider_failing: 'check_provider_status',
  throttled: 'wait',
  service_failing: 'check_service',
  connection_lost: 'reconnect',
  connection_expiring: 'reconnect',
  not_connected: 'reconnect',
  account_unpinned: 'pin_account',
  webhooks_missing: 'check_webhook_address',
  payments_unreadable: 'look_at_payments',
  endpoint_stopped: 'check_endpoint',
  endpoint_failing: 'check_endpoint',
  in_doubt: 'settle_doubt',
  contradicted: 'look_at_order',
  paid_late: 'look_at_order',
  paid_less: 'look_at_order',
  settled_unpaid: 'look_at_order',
  refund_in_doubt: 'settle_doubt',
  quiet: null,
  never_charged: null,
  flow_paused: 'resume_flow',
  flow_limited: 'resume_flow',
  question_open: 'resume_flow',
  source_failing: 'check_source',
  not_polled: 'check_service',
  never_polled: null,
  access_lost: 'authorize_again',
  sending_stopped: 'start_sending',
  destination_failing: 'check_destination',
  destination_asked_to_wait: 'wait',
  deliveries_late: 'check_destination',
  deliveries_failed: 'check_destination',
} as const satisfies Record<string, Action | null>

export type Cause = keyof typeof causes

/** Causes about one order: the same cause about another order is another problem. */
export const causesOfOneOrder: readonly Cause[] = [
  'paid_late',
  'paid_less',
  'settled_unpaid',
  'refund_in_doubt',
]
export const causeWords = Object.keys(causes) as [Cause, ...Cause[]]

/** The action for a cause; none for a cause of a newer version. */
export function actionOf(cause: Cause | null): Action | null {
  return cause && Object.hasOwn(causes, cause) ? causes[cause] : null
}
