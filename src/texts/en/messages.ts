/** What operators are sent. */
export const messages = {
  'message.box': '{client}[, box {box}]',
  'message.since': 'Since: {time}',

  // Failed deliveries of a flow.
  'message.failures.test': 'Alert test of flow {flow}',
  'message.failures.test_fact':
    'This channel receives the alerts of the flow. No action is needed.',
  'message.failures.new': '{flow}: {count} {count:delivery|deliveries} to {destination} failed',
  'message.failures.still':
    '{flow}: {count} {count:delivery|deliveries} to {destination} still failed',
  'message.failures.recovered': '{flow}: {destination} has recovered',
  'message.failures.counts': 'New failures: {failed}; not delivered now: {open}',
  'message.failures.none_left': 'All of them were delivered later: no failed delivery is left.',
  'message.failures.recovered_fact':
    'No failed deliveries are left. The first failure was at {time}.',
  'message.failures.retry':
    'Fix the cause. Then use “Send all that failed again” on the dashboard (/admin), or the control API:',

  // Trouble of boxes, connections, flows and destinations.
  'message.fleet.test': 'Test of the payment alerts',
  'message.fleet.test_fact':
    'This channel receives the alerts of boxes, connections, Mercado Pago and flows. No action is needed.',
  'message.fleet.recovered': 'is back to normal',
  'message.fleet.was': 'It was: {text}',
  'message.fleet.more': 'and {count} more',
  'message.fleet.dependents': 'For the same reason: {count} more (boxes or flows)',
  'message.fleet.look': 'See all states on the dashboard (/dashboard) or with the API:',
  'message.fleet.look_at_flow':
    'See the flow and its errors on the dashboard (/admin) or with the control API:',

  // The database.
  'message.database.down': 'The database stores nothing: charges are not possible',
  'message.database.help':
    'Check that the database answers, is not a standby, and has free disk space.',
  'message.database.recovered': 'The database stores data again: charges are possible',

  // Payments without a sale.
  'message.unclaimed.found': '{count} unmatched {count:payment|payments}',
  'message.unclaimed.settled': '{count} unmatched {count:payment|payments} settled',
  'message.unclaimed.line':
    'payment {payment}, $ {amount}, {time}[, another payment of the charge {reference}]',
  'message.unclaimed.state.open': 'open',
  'message.unclaimed.state.adopted': 'recorded as a sale',
  'message.unclaimed.state.refunded': 'refunded',
  'message.unclaimed.state.dismissed': 'dismissed',
  'message.unclaimed.help':
    'Mercado Pago has these payments of a box, and no sale matches them. Examples: the amount was typed into the terminal, or a customer paid twice.',
  'message.unclaimed.look':
    'Record it as a sale, refund it or dismiss it on the dashboard (/dashboard, Closings) or with the API:',

  // Charge-backs.
  'message.chargebacks_opened': '{count} new {count:charge-back|charge-backs}',
  'message.chargebacks_due': '{count} {count:charge-back waits|charge-backs wait} for documents',
  'message.chargebacks_decided': '{count} {count:charge-back|charge-backs} decided',
  'message.chargebacks_opened.help':
    'Buyers disputed these payments at their banks. Mercado Pago keeps the money until it decides. The sale stays valid: do not refund it.',
  'message.chargebacks_due.help':
    "Upload the documents of the sale in Mercado Pago's panel before the deadline. Mercado Pago accepts none later.",
  'message.chargebacks_decided.help': 'Mercado Pago decided these cases.',
  'message.chargeback.line': 'payment {payment}[, case {case}][, $ {amount}]',
  'message.chargeback.due': 'documents until {time}',
  'message.chargeback.state.open': 'open',
  'message.chargeback.state.won': 'won: the shop keeps the money',
  'message.chargeback.state.lost': 'lost: the buyer has the money',
  'message.chargeback.state.unknown': 'case unknown',
  'message.chargeback.look':
    'See the cases on the dashboard (/dashboard, Closings) or with the API:',

  // Endpoints that events are sent to.
  'message.endpoints_stopped':
    '{count} {count:endpoint|endpoints} stopped: events are no longer sent',
  'message.endpoint.line': 'address {host}: {reason}',
  'message.endpoint.reason.gone': 'it answered 410',
  'message.endpoint.reason.exhausted': 'an event could not be delivered for 75 hours',
  'message.endpoint.reason.secret_lost': 'its secret was lost with an encryption key',
  'message.endpoint.help':
    'Events wait 30 days. Repair the receiver, then resume the endpoint: it gets everything from the first event that it does not have.',
  'message.endpoint.look': 'Resume it on the dashboard (/dashboard, Events) or with the API:',
} as const
