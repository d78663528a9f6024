import { randomUUID } from 'node:crypto'
import type { ClientName } from '../../domain/client-name.ts'
import type { OrderEvidence } from '../../domain/order.ts'
import {
  holdsTerminal,
  isCancelRequested,
  isOpen,
  isResultUnknown,
} from '../../domain/order-state.ts'
import { AppError, addOutcome } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { type ProviderError, toAppError } from '../../provider/provider.ts'
import {
  findOpenOperation,
  findOperation,
  insertCancel,
  type OrderOperationRow,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import { type OrderRow, setCancelRequested } from '../../repositories/orders/order-queries.ts'
import type { Along, OperationEnd } from '../../repositories/orders/save-order-move.ts'
import { auditFailure, notifyActivity, signSuccess } from '../audit/activity.ts'
import type { KnownConnection } from '../connection/oauth-tokens.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import {
  actorOfEnd,
  askedBy,
  inTime,
  type RequestContext,
  readFirstMs,
  timeLeftMs,
  within,
} from '../operations/request-context.ts'
import {
  endOrKeep,
  endsIntent,
  firstCheckAt,
  type NewLease,
  newLeaseColumns,
  newLeaseOf,
  refuse,
  runOperation,
  type SendLease,
} from '../operations/runner.ts'
import { canNotArrive, nextCancelTry } from './check-and-retry-times.ts'
import { type LoadedOrder, refreshOrder, requireOrder, requireOrderAnywhere } from './read.ts'
import { unknownCreation } from './send-charge.ts'
import { takeEvidence } from './state.ts'

/**
 * Cancels an order that waits for its terminal, or asks the terminal that shows it to cancel it: such an order is returned unchanged,
 * since the terminal may still take the payment. A repeated cancel is answered like the first one.
 *
 * @throws NOT_FOUND, ORDER_AT_TERMINAL, ORDER_NOT_CANCELABLE, PROVIDER_TIMEOUT (the request is stored: the order is canceled
 * as soon as it is found), OAUTH_NOT_CONNECTED, CONNECTION_LOST, PROVIDER_REJECTED, PROVIDER_ERROR.
 */
export async function cancelOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  context: RequestContext,
): Promise<OrderRow> {
  const entry = {
    client,
    actor: context.actor,
    action: 'order.canceled',
    resourceId: id,
  }
  return auditFailure(deps, entry, async () => {
    const loaded = await requireOrderAnywhere(deps, client, id, context)
    const orderId = loaded.order.id
    const extra = { ...moneyOutcome('cancelLate'), orderId }
    const late = () => new AppError('PROVIDER_TIMEOUT', { extra })
    try {
      return await inTime(deps, context, cancel(deps, loaded, context), late)
    } catch (error) {
      throw addOutcome(error, { ...moneyOutcome('cancelUndecided'), orderId })
    }
  })
}

async function cancel(
  deps: PaymentDeps,
  { order: found, known }: LoadedOrder,
  context: RequestContext,
): Promise<OrderRow> {
  const order = isOpen(found.status) ? await readForCancel(deps, found, context, known) : found
  // The provider cannot cancel it any more. The cashier has checked the terminal, so an equal sale may begin.
  if (order.status === 'action_required') await noteCancelRequest(deps, order)
  if (isCancelRequested(order)) return order
  if (!holdsTerminal(order.status)) return canceledOrNot(order)
  return cancelAtProvider(deps, order, context, known)
}

/** The answer for an order that needs no cancel any more, or takes none. */
function canceledOrNot(order: OrderRow): OrderRow {
  if (order.status === 'canceled' && !order.paid_after_close) return order
  throw notCancelable(order)
}

/** Reads the order's state at the provider. When its creation is unknown, the request to cancel is stored first. */
async function readForCancel(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  known: KnownConnection | undefined,
): Promise<OrderRow> {
  if (order.creation !== 'confirmed') await noteCancelRequest(deps, order)
  const read = await refreshOrder(deps, order, within(deps, context, readFirstMs), { known })
  if (isResultUnknown(read.order.creation)) {
    throw unknownCreation(read.order, undefined)
  }
  return read.order
}

async function noteCancelRequest(deps: PaymentDeps, order: OrderRow): Promise<void> {
  await setCancelRequested(deps.database.db, order.id, deps.now())
}

/** The error for an order that cannot be canceled any more. */
function notCancelable(order: OrderRow): AppError {
  const onTerminal = order.status === 'at_terminal' || order.status === 'action_required'
  const isGivenUp = order.status === 'action_required'
  return new AppError(onTerminal ? 'ORDER_AT_TERMINAL' : 'ORDER_NOT_CANCELABLE', {
    message: isGivenUp
      ? 'The order must be canceled from the terminal: only its screen shows how it ended. It is given up here, so an equal request is a new charge'
      : undefined,
    extra: { ...moneyOutcome('cancelImpossible', order), orderId: order.id, status: order.status },
  })
}

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
  const { operation, newLease } = opened
  return runOperation<OrderOperationRow, OrderEvidence, OrderRow>(deps, context, {
    table: 'order_operations',
    id: operation.id,
    order,
    row: operation,
    newLease,
    connection,
    read: () => findOperation(deps.database.db, operation.id),
    instead: (known) => endedAs(deps, order, known),
    call(known, token, options) {
      const { cancel } = deps.provider.orders
      return cancel(token, order.mp_order_id as string, known.id, { ...options, untilMs })
    },
    record: (known, evidence, lease) => record(deps, order, known, evidence, context, lease),
    fail: (known, error, lease) => settleFailure(deps, order, known, error, context, lease),
    async leave() {
      const extra = { ...moneyOutcome('cancelLate'), orderId: order.id, status: order.status }
      throw new AppError('PROVIDER_TIMEOUT', { extra })
    },
  })
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

/** The intent of this cancel, with its lease when it is new. `ended`: the order needs none any more. */
async function openCancel(
  deps: PaymentDeps,
  order: OrderRow,
  actor: Actor,
): Promise<{ operation: OrderOperationRow; newLease: NewLease | null } | { ended: OrderRow }> {
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
async function settleFailure(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  error: ProviderError | AppError,
  context: RequestContext,
  lease: SendLease,
): Promise<OrderRow> {
  const isOver = endsIntent(error, lease)
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
