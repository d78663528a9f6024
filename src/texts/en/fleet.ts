/**
 * Why a box, a connection, a flow or a destination is in trouble. `{for}` is how long the state has lasted, such as "3 minutes";
 * `{nextTryIn}` is the time until the next try. Times of day are avoided, since shops have different time zones.
 */
export const fleet = {
  'fleet.terminal_standalone':
    'The terminal[ {terminalId}] is in standalone mode[, for {for}][ (charges refused: {count})]: switch it to PDV mode.',
  'fleet.terminal_missing':
    'No terminal is paired with the box[, for {for}][ (charges refused: {count})]: pair one in the Mercado Pago app.',
  'fleet.terminal_silent':
    'The terminal[ {terminalId}] has not answered[ for {for}]: try another box, and check that it is on and online.',
  'fleet.terminal_busy':
    'The terminal[ {terminalId}] is busy with another charge[ ({reference})][ for {for}]: finish it, or cancel it at the till or on the terminal.',
  'fleet.terminal_waits':
    'The terminal[ {terminalId}] did not confirm the result of the charge {reference}[, {for} ago]: look at its screen.',
  'fleet.refused':
    'Mercado Pago refuses the charges of the box[, {count} in a row][ for {for}]: read the reason in the activity log.',
  'fleet.provider_failing':
    'Mercado Pago fails[ for {for}]. The shop is not the cause: use another means of payment, and read Mercado Pago’s status page.',
  'fleet.throttled': 'Mercado Pago limits calls[ for {for}]: the service retries more slowly.',
  'fleet.service_failing':
    'The service could not process the last charge[, {for} ago]: check GET /health and the log.',
  'fleet.connection_lost':
    'The connection to Mercado Pago is lost[ for {for}]: connect the account again.',
  'fleet.connection_expiring':
    'The connection to Mercado Pago is about to expire and could not be renewed[ for {for}]: connect the account again before it is lost.',
  'fleet.not_connected': 'The client has no Mercado Pago account connected: connect one.',
  'fleet.account_unpinned':
    'The account of the client was released. The next connection sets the new one: connect the right account.',
  'fleet.webhooks_missing':
    'No webhooks arrive from Mercado Pago[ for {for}]. The service still reads the charges. Check the address and the secret of the webhooks.',
  'fleet.payments_unreadable':
    'The service cannot read {count} payments of Mercado Pago[, for {for}]. Check them in Mercado Pago’s panel. The closings of those days stay unverified.',
  'fleet.endpoint_stopped':
    'Stopped endpoints of events: {count}[, for {for}]. The events wait 30 days. Repair the receiver and resume the endpoint.',
  'fleet.endpoint_failing':
    'Endpoints that do not take an event: {count}[, for {for}]. Read the last answer on the dashboard, under Events.',
  'fleet.in_doubt':
    'The result of the charge {reference} is unknown[ for {for}]: check the terminal or Mercado Pago’s panel, and record the result.',
  'fleet.contradicted':
    'Mercado Pago shows another result for the charge {reference} than the record: compare both.',
  'fleet.paid_late':
    'The charge {reference} was closed as not paid, and the customer paid later[; {instead} was charged instead]: mark it as paid or refund it.',
  'fleet.paid_less':
    'The customer paid only a part of the charge {reference}: charge the difference and mark it as paid, or refund it.',
  'fleet.settled_unpaid':
    'The charge {reference} is marked as paid, and Mercado Pago shows that it was not paid: charge it again and mark it as not paid.',
  'fleet.refund_in_doubt':
    'The result of a refund of the charge {reference} is unknown: check Mercado Pago’s panel, and record the result.',
  'fleet.quiet': 'The last charge was {for} ago. The next one shows whether the box can charge.',
  'fleet.never_charged':
    'The box has made no charge yet. The first one shows whether it can charge.',
  'fleet.flow_paused': 'The flow is paused[ for {for}]: resume it when it should run again.',
  'fleet.flow_limited': 'The flow has used up its run limit: lift it to go on.',
  'fleet.question_open':
    'The flow asks something[ for {for}] and what depends on it waits: open the flow and answer.',
  'fleet.source_failing':
    'The source of the flow cannot be read[ for {for}]: look at the error and the source.',
  'fleet.not_polled': 'The poll of the flow is overdue[ for {for}]: read the log of the service.',
  'fleet.never_polled': 'The flow has not been polled yet.',
  'fleet.access_lost':
    'The issuer no longer renews the access[ ({code})][ for {for}]. Authorize the application again, put the new refresh token[ into {place}] and reload the flow files.',
  'fleet.sending_stopped':
    'An operator stopped sending to the destination[ {for} ago]. Pending deliveries: {pending}. Start sending again when it is ready.',
  'fleet.destination_failing':
    'The destination fails: sending is suspended[ for {for}]. Pending deliveries: {pending}.[ Next attempt in {nextTryIn}.] Check that it answers.',
  'fleet.destination_asked_to_wait':
    'The destination asked to wait[ for {for}]. Pending deliveries: {pending}.',
  'fleet.deliveries_late':
    'Deliveries to the destination are late: {pending}, the oldest for {for}. Check that it answers.',
  'fleet.deliveries_failed':
    '{count} deliveries to the destination failed permanently: read the errors and retry them.',
} as const
