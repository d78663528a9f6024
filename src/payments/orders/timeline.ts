import type { ClientName } from '../../domain/client-name.ts'
import type { OrderStatus } from '../../domain/order.ts'
import { isOpen } from '../../domain/order-state.ts'
import type { Who } from '../../domain/who.ts'
import { listActivityOfOrder } from '../../repositories/audit/activity-queries.ts'
import {
  listOperations,
  type OrderOperationRow,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { listOrderCalls, listOrderEvents } from '../../repositories/orders/timeline-queries.ts'
import { listWebhooksOfOrder } from '../../repositories/webhooks/webhook-log.ts'
import { createAuthorOf } from '../audit/entry-author.ts'
import type { PaymentDeps } from '../deps.ts'
import { requireOrder } from './read.ts'

/** An event of an order, or a call about it. Fields that do not belong to the kind are null. */
export type TimelineEntry = {
  at: Date
  /**
   * `asked`: a till requested the charge. `sent`: it first went to the provider. `state`: its state moved here. `cancel`,
   * `refund`: one was requested or settled. `webhook`: the provider sent one. `checked`: the last time that the provider answered
   * a status check. `expires`: when the provider ends the order. `request`: a till or a person called this service. `call`: this
   * service called the provider. `action`: the entry of the audit log, with who and why.
   */
  kind: (typeof timelineKinds)[number]
  /** Where a `state` came from, who sent a `request`, or the reason for a `call`. */
  source: string | null
  fromStatus: OrderStatus | null
  toStatus: OrderStatus | null
  /** Detail of the status, state of the operation, result of the webhook, or name of the request or call. */
  detail: string | null
  /** Code of an error, or a remark. */
  note: string | null
  amountCents: number | null
  /** Count of the deliveries of a webhook, status checks of the order, or attempts of an operation or call. */
  count: number | null
  durationMs: number | null
  /** Of the answer to a request or call; null when there was none. */
  httpStatus: number | null
  /** Finds the request or call in the logs, or at the provider's support. */
  requestId: string | null
  /** Of an `action`. */
  who: Who | null
}

export const timelineKinds = [
  'asked',
  'sent',
  'state',
  'cancel',
  'refund',
  'webhook',
  'checked',
  'expires',
  'request',
  'call',
  'action',
] as const

/** A till that polls every second for an hour must not make the timeline unreadable or slow. */
const callsShown = 1_000
const actionsShown = 200

const blank = {
  source: null,
  fromStatus: null,
  toStatus: null,
  detail: null,
  note: null,
  amountCents: null,
  count: null,
  durationMs: null,
  httpStatus: null,
  requestId: null,
  who: null,
}

/**
 * The recorded events of an order of this client, oldest first: its moves, the requests, each logged call to the provider
 * (`order-call-log.ts`) and the provider's webhooks. Calls are kept for 30 days; `isComplete` is false when there were more than are
 * shown.
 *
 * @throws NOT_FOUND
 */
export async function readTimeline(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
): Promise<{ order: OrderRow; entries: TimelineEntry[]; isComplete: boolean }> {
  const { db } = deps.database
  await Promise.all([deps.calls.flush(), deps.statusChecks.flush()])
  const order = await requireOrder(deps, client, id)
  const { calls, hasOlder } = await listOrderCalls(db, client, order.id, callsShown)
  const events = await listOrderEvents(db, client, order.id)
  const operations = await listOperations(db, [order.id])
  const webhooks = await listWebhooksOfOrder(db, client, order.id)
  const actions = await listActivityOfOrder(db, client, order.id, actionsShown)
  const whoOf = await createAuthorOf(db, actions)
  const entries: TimelineEntry[] = [
    ...calls.map((call) => ({
      ...blank,
      at: call.at,
      kind: call.kind === 'request' ? ('request' as const) : ('call' as const),
      source: call.caller,
      detail: call.operation,
      note: call.code,
      count: call.attempt,
      durationMs: call.duration_ms,
      httpStatus: call.status,
      requestId: call.request_id,
    })),
    { ...blank, at: order.created_at, kind: 'asked', amountCents: order.amount_cents },
    ...(order.sent_at ? [{ ...blank, at: order.sent_at, kind: 'sent' as const }] : []),
    ...events.map((event) => ({
      ...blank,
      at: event.at,
      kind: 'state' as const,
      source: event.source,
      fromStatus: event.from_status,
      toStatus: event.to_status,
      detail: event.status_detail,
      note: event.note,
    })),
    ...operations.flatMap(entriesOfOperation),
    ...actions.map((action) => ({
      ...blank,
      at: action.created_at,
      kind: 'action' as const,
      who: whoOf(action),
      source: action.status,
      detail: action.action,
      note: typeof action.metadata.reason === 'string' ? action.metadata.reason : null,
    })),
    ...webhooks.map((webhook) => ({
      ...blank,
      at: webhook.received_at,
      kind: 'webhook' as const,
      detail: webhook.status,
      note: webhook.action ?? webhook.topic,
      count: webhook.deliveries,
      durationMs: webhook.duration_ms,
    })),
    ...(order.checked_at
      ? [{ ...blank, at: order.checked_at, kind: 'checked' as const, count: order.checks }]
      : []),
    ...(isOpen(order.status) ? [{ ...blank, at: order.expires_at, kind: 'expires' as const }] : []),
  ]
  // A stable sort: entries of the same time stay in the sequence above, causes before effects. A request is logged at its end,
  // after the calls that it caused.
  const sorted = entries.toSorted(
    (a, b) => a.at.getTime() - b.at.getTime() || Number(isRequest(b)) - Number(isRequest(a)),
  )
  return { order, entries: sorted, isComplete: !hasOlder }
}

/** A cancel or refund, when it was requested and when it ended. */
function entriesOfOperation(operation: OrderOperationRow): TimelineEntry[] {
  const entry = { ...blank, kind: operation.kind, amountCents: operation.amount_cents }
  const asked = { ...entry, at: operation.created_at, detail: 'asked' }
  if (!operation.finished_at) {
    return [{ ...asked, detail: operation.state === 'unknown' ? 'unknown' : 'asked' }]
  }
  const ended = {
    ...entry,
    at: operation.finished_at,
    detail: operation.state,
    note: operation.provider_code,
    count: operation.attempts,
    durationMs: operation.finished_at.getTime() - operation.created_at.getTime(),
  }
  return [asked, ended]
}

const isRequest = ({ kind }: TimelineEntry) => kind === 'request'
