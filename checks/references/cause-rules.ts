import type { Cause } from '../../src/fleet/causes.ts'
import * as limits from '../../src/fleet/health-limits.ts'

const time = (ms: number) => (ms < 60_000 ? `${ms / 1_000} s` : `${ms / 60_000} min`)

/** From when on a state has a cause, and until when. */
export const causeRules: Record<Cause, string> = {
  terminal_standalone:
    'a charge was refused for it, or a list of terminals shows it; until a charge begins or a list shows PDV mode',
  terminal_missing:
    'a charge was refused for it, or a list of terminals shows it; until a charge begins or a list shows a terminal',
  terminal_silent: `no terminal showed a charge for ${time(limits.silentAfterMs)}; until one shows a charge`,
  terminal_busy: `a charge found the terminal busy: \`attention\` for ${time(limits.payingForMs)} while a customer pays, then \`down\``,
  terminal_waits: 'a charge is `action_required`',
  refused: `Mercado Pago refused a charge: \`attention\`; ${limits.manyRefusals} in a row: \`down\``,
  provider_failing: `Mercado Pago failed at a charge: \`attention\`; 2 in a row: \`down\`. At charges of two boxes of a client: every box of the client is \`down\`. Until it accepts a charge of the client, or for ${time(limits.freshMs)}`,
  throttled: `Mercado Pago limited a charge: \`attention\`; 2 in a row: \`down\`. Until it accepts a charge of the client, or for ${time(limits.freshMs)}`,
  service_failing: `the service failed at the last charge; for ${time(limits.freshMs)}`,
  connection_lost: 'Mercado Pago refuses the tokens, or they expired',
  connection_expiring: `a renewal takes ${time(limits.renewalStuckMs)}, or ${limits.tokenEndsWithinMs / 86_400_000} days are left without one`,
  not_connected: 'the client has no connection',
  account_unpinned: 'an administrator released the account; until the next connection',
  webhooks_missing: `${limits.missingWebhooks} payments in a row came without a webhook, over ${time(limits.missingWebhooksForMs)}`,
  payments_unreadable: 'for 30 days after the payment',
  endpoint_stopped: 'the service stopped it; until a person resumes or deletes it',
  endpoint_failing:
    'an event failed three times, in five minutes; until it is delivered or left out',
  in_doubt:
    'the result of a charge is unknown for 30 s; until it is known, a person settles it, or another charge runs on the box',
  contradicted: 'Mercado Pago contradicts the record; until a person settles it',
  paid_late: 'until a person settles it',
  paid_less: 'until a person settles it',
  settled_unpaid: 'until a person settles it',
  refund_in_doubt:
    'the result of a refund stays unknown, or contradicts a decision; until a person settles it',
  quiet: `no charge for ${time(limits.freshMs)}: the state is \`unknown\``,
  never_charged: 'until the first charge',
  flow_paused: 'an operator or a rule paused the flow',
  flow_limited: 'the flow reached its limit of runs',
  question_open:
    'a changed definition would send something, or `deletes.guard` holds deletes; until an operator answers',
  source_failing: `a poll failed: \`attention\`; after two intervals and ${time(limits.pollGraceMs)}: \`down\``,
  not_polled: `the poll is late by two intervals and ${time(limits.pollGraceMs)}`,
  never_polled: 'until the first poll',
  access_lost: 'the issuer refuses to renew the access to a source or destination',
  sending_stopped: 'an operator stopped it',
  destination_failing: 'the breaker is open',
  destination_asked_to_wait: '`Retry-After` of the destination',
  deliveries_late: `the oldest delivery waits for ${time(limits.waitingForMs)}`,
  deliveries_failed: 'until an operator retries them',
}
