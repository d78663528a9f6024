import { randomUUID } from 'node:crypto'
import type { OrderEvidence } from '../../domain/order.ts'
import { holdsTerminal, isCancelRequested } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome, type OrderInError } from '../../errors/money-outcome.ts'
import { type CallOptions, toAppError } from '../../provider/provider.ts'
import {
  findOpenOperation,
  findOperation,
  insertCancel,
  type OrderOperationRow,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { Along, OperationEnd } from '../../repositories/orders/save-order-move.ts'
import { notifyActivity, signSuccess } from '../audit/activity.ts'
import type { Access, KnownConnection } from '../connection/access.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import {
  firstCheckAt,
  type KeyedRow,
  type NewLease,
  newLeaseColumns,
  newLeaseOf,
  type SendLease,
  takeSendLease,
} from '../operations/send-lease.ts'
import { actorOfEnd, askedBy, type RequestContext, timeLeftMs, within } from '../request-context.ts'
import { canNotArrive, nextCancelTry } from './check-and-retry-times.ts'
import { type CallFailure, endOrKeep, endsOperation, perform, refuse } from './perform.ts'
import { refreshOrder, requireOrder } from './read.ts'
import { keepNextCheck, moveOrder, takeEvidence } from './state.ts'

/**
 * Cancels an order at the provider. It is returned canceled, or unchanged when the provider has accepted the cancel and not finished it.
 * Concurrent and repeated requests share one intent and so one key. A quarter of the time is left for reading the result.
 */
export async function cancelAtProvider(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  connection?: KnownConnection,
): Promise<OrderRow> {
  const { untilMs } = within(deps, context, timeLeftMs(deps, context) * 0.75)
  const opened = await openCancel(deps, order, context.actor)
  if ('ended' in opened) return canceledOrNot(opened.ended)
  const { operation } = opened
  const options = { ...opened, connection, untilMs }
  return deps.once(`order_operations:${operation.id}`, () =>
    sendCancel(deps, order, context, options),
  )
}

async function sendCancel(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  {
    operation,
    newLease,
    connection,
    untilMs,
  }: OpenedCancel & { connection: KnownConnection | undefined; untilMs: number },
): Promise<OrderRow> {
  const row: KeyedRow = { table: 'order_operations', id: operation.id, orderId: order.id }
  for (let its = newLease; ; its = null) {
    await using lease = await takeSendLease(deps, row, its, context)
    if (!lease) throw sentElsewhere(order)
    const known = lease.isNew ? operation : await findOperation(deps.database.db, operation.id)
    if (!known) throw sentElsewhere(order)
    const ended = await endedAs(deps, order, known)
    if (ended) return ended
    const call = ({ token }: Access, options: CallOptions) =>
      deps.provider.orders.cancel(token, order.mp_order_id as string, known.id, {
        ...options,
        untilMs,
      })
    const sent = await perform(deps, { order, lease, context, connection, call })
    switch (sent.kind) {
      case 'answered':
        return await record(deps, order, known, sent.answer, context, lease)
      case 'failed':
        return await recordFailure(deps, order, known, sent.error, context, lease)
      case 'withheld':
        continue
      default:
        return sent satisfies never
    }
  }
}

/** Another process sends this cancel: its outcome is not known in time. */
function sentElsewhere(order: OrderRow): AppError {
  const extra = { ...moneyOutcome('cancelLate'), orderId: order.id, status: order.status }
  return new AppError('PROVIDER_TIMEOUT', { extra })
}

/** What became of the order by a cancel that has ended. */
async function endedAs(
  deps: PaymentDeps,
  { client, id }: OrderRow,
  { state }: OrderOperationRow,
): Promise<OrderRow | undefined> {
  if (state === 'intent') return undefined
  const order = await requireOrder(deps, client, id)
  if (state === 'unknown') return isCancelRequested(order) ? order : undefined
  if (order.status !== 'created') return canceledOrNot(order)
  throw new AppError('PROVIDER_ERROR', {
    message: 'The provider refused an equal cancel a moment ago',
    extra: { ...moneyOutcome('cancelRefused', order), orderId: id, status: order.status },
  })
}

async function record(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  evidence: OrderEvidence,
  { source, actor }: RequestContext,
  lease: SendLease,
): Promise<OrderRow> {
  const taken = await takeEvidence(deps, order, () => evidence, source, {
    // The provider has accepted the cancel; a later status check shows its result.
    along: (after) =>
      holdsTerminal(after.status) ? undefined : cancelEnd(deps, after, operation, actor),
  })
  if (holdsTerminal(taken.order.status)) {
    await keepOpen(deps, operation)
    return taken.order
  }
  if (taken.hasEnded) lease.wrote({ sender: null })
  if (!taken.changed) await settleCancel(deps, taken.order, operation, actor)
  if (taken.order.status !== 'canceled') throw notCancelable(taken.order)
  return taken.order
}

/** How an open cancel ends, by the state of its order, with the audit entry if the order is canceled. */
function cancelEnd(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Required<Pick<Along, 'ends' | 'entries'>> & { ends: OperationEnd } {
  const isDone = order.status === 'canceled'
  const { id, amount_cents, mp_refund_id, provider_code: providerCode } = operation
  const state = isDone ? ('done' as const) : ('refused' as const)
  const ends = { id, amount_cents, mp_refund_id, state, providerCode, finishedAt: deps.now() }
  const entry = {
    client: order.client,
    actor: actorOfEnd(operation, actor),
    action: 'order.canceled',
    resourceId: order.id,
    metadata: { mp_order_id: order.mp_order_id, caja_id: order.caja_id },
  }
  return { ends, entries: isDone ? [signSuccess(deps, entry)] : [] }
}

/** Leaves a cancel that the provider has accepted and not finished to the sweeper. */
export async function keepOpen(deps: PaymentDeps, operation: OrderOperationRow): Promise<void> {
  await settleOperation(deps.database.db, operation.id, {
    state: 'unknown',
    finishedAt: null,
    nextAttemptAt: nextCancelTry(deps, operation.created_at),
  })
}

/** Ends an open cancel whose order has not moved just now. */
export async function settleCancel(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<void> {
  const { ends, entries } = cancelEnd(deps, order, operation, actor)
  if (await settleOperation(deps.database.db, operation.id, { ...ends, entries: entries ?? [] })) {
    notifyActivity(deps, entries ?? [])
  }
}

/** The row of a cancel, with its lease when it is new. */
type OpenedCancel = { operation: OrderOperationRow; newLease: NewLease | null }

/** The intent of this cancel. `ended`: the order needs none any more. */
async function openCancel(
  deps: PaymentDeps,
  order: OrderRow,
  actor: Actor,
): Promise<OpenedCancel | { ended: OrderRow }> {
  const { db } = deps.database
  for (;;) {
    const now = deps.now()
    const provenMs = performance.now()
    const sender = newLeaseColumns(now)
    const cancel = {
      id: randomUUID(),
      next_attempt_at: firstCheckAt(now),
      created_at: now,
      asked_by: askedBy(actor),
      ...sender,
    }
    const operation = await insertCancel(db, order.id, cancel)
    if (operation) return { operation, newLease: newLeaseOf(cancel, provenMs) }
    const open = await findOpenOperation(db, order.id, 'cancel')
    if (open) return { operation: open, newLease: null }
    // A concurrent cancel has ended since the order was read.
    const ended = await requireOrder(deps, order.client, order.id)
    if (!holdsTerminal(ended.status)) return { ended }
  }
}

/** After a refusal or no answer: the order's state at the provider decides the answer. */
async function recordFailure(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  error: CallFailure,
  context: RequestContext,
  lease: SendLease,
): Promise<OrderRow> {
  const isOver = endsOperation(error, lease)
  if (error instanceof AppError) {
    // Nothing was sent (no connection), and that is the answer, so nothing may be sent later.
    if (isOver) await refuse(deps, operation, error, lease)
    throw error
  }
  const isRefused = isOver || (error.provesAbsence && canNotArrive(deps, lease.unansweredAt))
  const hasEnded = await endOrKeep(deps, operation, error, isRefused, lease)
  // Not for an order on the terminal: an equal sale could begin beside it.
  if (!hasEnded && order.status === 'created') await noteCancelRequest(deps, order)
  const read = await refreshOrder(deps, order, context)
  // Without a refusal the cancel may still reach the terminal.
  if (!hasEnded && isCancelRequested(read.order)) return read.order
  const isUndecided = !hasEnded && read.order.status === 'at_terminal'
  if (!read.stale && !isUndecided && read.order.status !== 'created') {
    await settleCancel(deps, read.order, operation, context.actor)
    if (read.order.status === 'canceled') return read.order
    throw notCancelable(read.order)
  }
  const failure = toAppError(error, 'order.cancel')
  const money = moneyOutcome('cancelRefused', read.order)
  throw new AppError(failure.code, {
    message: failure.message,
    cause: error,
    extra: { ...failure.extra, ...money, orderId: order.id, status: read.order.status },
  })
}

/** The answer for an order that needs no cancel any more, or takes none. */
export function canceledOrNot(order: OrderRow): OrderRow {
  if (order.status === 'canceled' && !order.paid_after_close) return order
  throw notCancelable(order)
}

/** The error for an order that cannot be canceled any more. */
export function notCancelable(order: OrderInError): AppError {
  const onTerminal = order.status === 'at_terminal' || order.status === 'action_required'
  const isGivenUp = order.status === 'action_required'
  return new AppError(onTerminal ? 'ORDER_AT_TERMINAL' : 'ORDER_NOT_CANCELABLE', {
    message: isGivenUp
      ? 'The order must be canceled from the terminal: only its screen shows how it ended. It is given up here, so an equal request is a new charge'
      : undefined,
    extra: { ...moneyOutcome('cancelImpossible', order), orderId: order.id, status: order.status },
  })
}

/** From now on nothing is sent that could make the order. */
export async function noteCancelRequest(deps: PaymentDeps, order: OrderRow): Promise<OrderRow> {
  const { db } = deps.database
  const event = { kind: 'cancel_requested' as const }
  const moved = await moveOrder(deps, db, order, 'api', event, { plan: keepNextCheck })
  return moved.order
}
