import { randomUUID } from 'node:crypto'
import type { Trx } from '../db/database.ts'
import type { ClientName } from '../domain/client-name.ts'
import { isOpen } from '../domain/order-state.ts'
import { AppError, withMoneyOutcome } from '../errors.ts'
import { ProviderError, toAppError } from '../provider/provider.ts'
import {
  findOpenOperation,
  insertOperation,
  type OrderOperationRow,
  settleOperation,
} from '../repositories/order-operations.ts'
import { lockOrder, type OrderRow, updateOrder } from '../repositories/orders.ts'
import { auditFailure, recordSuccess } from './activity.ts'
import { answerWithinMs, inTime, lookFirstMs, shortestCallMs, timeLeftMs } from './answer-time.ts'
import type { EvidenceSource } from './apply-evidence.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { nextUnknownAttempt } from './operation-ladder.ts'
import { aboutOrder, withOrderAccess } from './order-access.ts'
import { outcomeOf } from './outcome.ts'
import { refreshOrder, requireOrderAnywhere } from './read-order.ts'
import { firstLook } from './send-alone.ts'
import { takeEvidence } from './take-evidence.ts'
import { unknownCreation } from './unknown-creation.ts'

/**
 * Takes an order off the terminal's queue while no terminal shows it. Canceling a canceled order answers like the
 * first time, so a till that lost the answer may ask again.
 *
 * Throws NOT_FOUND, ORDER_AT_TERMINAL, ORDER_NOT_CANCELABLE, PROVIDER_TIMEOUT (the wish is kept: the order is canceled
 * as soon as it is found), OAUTH_NOT_CONNECTED, CONNECTION_LOST, PROVIDER_REJECTED, PROVIDER_ERROR.
 */
export async function cancelOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  actor: Actor,
): Promise<OrderRow> {
  const entry = {
    client,
    actor,
    action: 'order.canceled',
    resourceType: 'order',
    resourceId: id,
  }
  return auditFailure(deps, entry, async () => {
    const found = await requireOrderAnywhere(deps, client, id)
    const unknown = { outcome: 'unknown' as const, retrySafe: false, orderId: found.id }
    const work = withMoneyOutcome(unknown, async () => {
      const order = isOpen(found.status) ? await readForCancel(deps, found) : found
      // The provider can do nothing any more; the cashier has looked at the terminal, so the sale may begin anew.
      if (order.status === 'action_required') await keepCancelWish(deps, order)
      if (order.status !== 'created') return canceledOrNot(order)
      return cancelAtProvider(deps, order, 'api', actor, timeLeftMs(actor))
    })
    // A cancel may be asked for again at any time: it takes nothing but a charge that nobody wants.
    const extra = { ...unknown, retrySafe: true }
    return inTime(actor, work, () => new AppError('PROVIDER_TIMEOUT', { extra }))
  })
}

/** The answer for an order that needs no cancel any more, or takes none. */
function canceledOrNot(order: OrderRow): OrderRow {
  if (order.status === 'canceled' && !order.paid_after_close) return order
  throw notCancelable(order)
}

/** The order's real state; for one whose creation is unknown, the wish to cancel is kept first. */
async function readForCancel(deps: PaymentDeps, order: OrderRow): Promise<OrderRow> {
  if (order.creation !== 'confirmed') await keepCancelWish(deps, order)
  const read = await refreshOrder(deps, order, 'api', lookFirstMs)
  if (read.order.creation === 'unknown' || read.order.creation === 'intent') {
    throw unknownCreation(read.order, undefined)
  }
  return read.order
}

async function keepCancelWish(deps: PaymentDeps, order: OrderRow): Promise<void> {
  await deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    if (locked.cancel_requested_at === null) {
      await updateOrder(trx, order.id, { cancel_requested_at: deps.now() })
    }
  })
}

/** What a till is told about an order that cannot be canceled any more. */
export function notCancelable(order: OrderRow): AppError {
  const onTerminal = order.status === 'at_terminal' || order.status === 'action_required'
  const isGivenUp = order.status === 'action_required'
  return new AppError(onTerminal ? 'ORDER_AT_TERMINAL' : 'ORDER_NOT_CANCELABLE', {
    message: isGivenUp
      ? 'The order must be canceled from the terminal: only its screen shows how it ended. It is given up here, so an equal request is a new charge'
      : undefined,
    extra: {
      outcome: outcomeOf(order),
      retrySafe: false,
      orderId: order.id,
      status: order.status,
    },
  })
}

/**
 * Cancels a `created` order at the provider. Whoever asks at the same time, or again after a lost answer, works on the
 * same intent and therefore under the same key. Of `withinMs` a part is kept for looking what became of it.
 */
export async function cancelAtProvider(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  actor: Actor,
  withinMs = answerWithinMs,
): Promise<OrderRow> {
  return deps.once(`cancel:${order.id}`, async () => {
    const until = deps.now().getTime() + withinMs
    const intent = await openCancel(deps, order)
    if ('ended' in intent) return canceledOrNot(intent.ended)
    const { operation, isFirst } = intent
    try {
      const evidence = await withOrderAccess(deps, order, (access) =>
        deps.provider.orders.cancel(access.token, order.mp_order_id as string, operation.id, {
          about: aboutOrder(order, source),
          deadlineMs: Math.max(shortestCallMs, withinMs * 0.75),
        }),
      )
      const canceled = await deps.database.transaction(async (trx) => {
        const locked = await lockOrder(trx, order.id)
        const applied = await takeEvidence(deps, trx, locked, evidence, source)
        await settleCancel(deps, trx, applied.order, operation, actor)
        return applied.order
      })
      if (canceled.status !== 'canceled') throw notCancelable(canceled)
      return canceled
    } catch (error) {
      if (error instanceof ProviderError) {
        const leftMs = Math.max(shortestCallMs, until - deps.now().getTime())
        return cancelRefused(deps, order, operation, error, { source, actor, leftMs })
      }
      if (error instanceof AppError && isFirst) {
        // Nothing was sent (no connection): the till is told so, and nobody cancels behind its back.
        await deps.database.transaction((trx) =>
          settleOperation(trx, operation.id, { state: 'refused', finishedAt: deps.now() }),
        )
      }
      throw error
    }
  })
}

/** Ends an open cancel by what became of its order, with the audit entry if it was canceled. */
export async function settleCancel(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<void> {
  const done = order.status === 'canceled'
  const settled = await settleOperation(trx, operation.id, {
    state: done ? 'done' : 'refused',
    finishedAt: deps.now(),
  })
  if (!done || !settled) return
  await recordSuccess(deps, trx, {
    client: order.client,
    actor,
    action: 'order.canceled',
    resourceType: 'order',
    resourceId: order.id,
    metadata: { mp_order_id: order.mp_order_id, caja_id: order.caja_id },
  })
}

/** The intent of this cancel. `isFirst`: it is new, so nobody can have sent it before. `ended`: the order needs none any more. */
async function openCancel(
  deps: PaymentDeps,
  order: OrderRow,
): Promise<{ operation: OrderOperationRow; isFirst: boolean } | { ended: OrderRow }> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    const open = await findOpenOperation(trx, order.id, 'cancel')
    if (open) return { operation: open, isFirst: false }
    // Somebody else's cancel went through since the order was read.
    if (locked.status !== 'created') return { ended: locked }
    const operation = await insertOperation(trx, {
      id: randomUUID(),
      order_id: order.id,
      client: order.client,
      kind: 'cancel',
      refund_type: null,
      amount_cents: null,
      state: 'intent',
      mp_refund_id: null,
      provider_code: null,
      next_attempt_at: firstLook(deps.now()),
      sender: null,
      sender_until: null,
      created_at: deps.now(),
      finished_at: null,
    })
    return { operation, isFirst: true }
  })
}

/** The provider said no, or nothing: the order's state at the provider decides what the till is told. */
async function cancelRefused(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  error: ProviderError,
  { source, actor, leftMs }: { source: EvidenceSource; actor: Actor; leftMs: number },
): Promise<OrderRow> {
  const isUnknown = error.effect === 'unknown'
  await deps.database.transaction((trx) =>
    settleOperation(trx, operation.id, {
      state: isUnknown ? 'unknown' : 'refused',
      providerCode: error.providerCode,
      finishedAt: isUnknown ? null : deps.now(),
      nextAttemptAt: isUnknown ? nextUnknownAttempt(deps.now(), operation.created_at) : null,
    }),
  )
  if (isUnknown) await keepCancelWish(deps, order)
  const read = await refreshOrder(deps, order, source, leftMs)
  if (!read.stale && read.order.status !== 'created') {
    await deps.database.transaction((trx) => settleCancel(deps, trx, read.order, operation, actor))
    if (read.order.status === 'canceled') return read.order
    throw notCancelable(read.order)
  }
  const failure = toAppError(error, 'order.cancel')
  throw new AppError(failure.code, {
    message: failure.message,
    cause: error,
    extra: {
      ...failure.extra,
      // An order that is still there may still be paid, however definite the refusal of its cancel was.
      outcome: outcomeOf(read.order),
      retrySafe: true,
      orderId: order.id,
      status: read.order.status,
    },
  })
}
