import type { Trx } from '../db/database.ts'
import { pointFromCents } from '../domain/money.ts'
import { isFailedRefund, type OrderEvidence, type ProviderRefund } from '../domain/order.ts'
import { AppError, type ErrorCode, type ErrorExtra } from '../errors.ts'
import { ProviderError, type RefundAnswer, toAppError } from '../provider/provider.ts'
import {
  findOperation,
  listOperations,
  type OrderOperationRow,
  settleOperation,
} from '../repositories/order-operations.ts'
import { lockOrder, type OrderRow } from '../repositories/orders.ts'
import { recordSuccess } from './activity.ts'
import { shortestCallMs, timeLeftMs } from './answer-time.ts'
import { applyEvidence, type EvidenceSource } from './apply-evidence.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { nextUnknownAttempt } from './operation-ladder.ts'
import { aboutOrder, withOrderAccess } from './order-access.ts'
import { outcomeOf } from './outcome.ts'
import { refreshOrder, requireOrder } from './read-order.ts'
import { sendAlone } from './send-alone.ts'

/**
 * Sends the refund of an intent, for the first time (`isFirst`) or again; the key is the intent's id each time. Throws
 * as refundOrder does.
 */
export async function refundAtProvider(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  source: EvidenceSource,
  actor: Actor,
  isFirst = false,
): Promise<OrderRow> {
  return deps.once(`refund:${operation.id}`, async () => {
    const until = performance.now() + timeLeftMs(actor)
    for (;;) {
      const held = isFirst ? operation.sender : null
      const row = { table: 'order_operations' as const, id: operation.id }
      const sent = await sendAlone(deps, row, held, (sender) =>
        sendRefund(deps, order, operation, source, actor, { isFirst, sender }),
      )
      if (sent) return sent.result
      const waits = source === 'api' && performance.now() < until
      if (!waits) throw refuseRefund('REFUND_IN_PROGRESS', order, { outcome: 'unknown' })
      await deps.changes.wait(order.id, lookAgainMs)
    }
  })
}

/** How often a request that waits for another process to make its refund looks. */
const lookAgainMs = 200

async function sendRefund(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  source: EvidenceSource,
  actor: Actor,
  { isFirst, sender }: { isFirst: boolean; sender: string },
): Promise<OrderRow> {
  const known = isFirst ? operation : await findOperation(deps.database.db, operation.id)
  if (known?.state === 'done') return requireOrder(deps, order.client, order.id)
  if (known?.state === 'refused') {
    throw new AppError('PROVIDER_ERROR', {
      message: 'The provider refused an equal refund a moment ago; nothing was given back',
      extra: { outcome: outcomeOf(order), retrySafe: true, orderId: order.id },
    })
  }
  const mpOrderId = order.mp_order_id
  const payment = order.payments.find((entry) => entry.status === 'approved') ?? order.payments[0]
  const amountCents = operation.amount_cents as number
  // The provider's partial refund must be less than the payment: all of it at once is a total one.
  const isWhole = operation.refund_type === 'total' || amountCents === payment?.paidCents
  if (mpOrderId === null || (payment === undefined && !isWhole)) {
    await refuseOperation(deps, operation, 'no_payment')
    throw refuseRefund('ORDER_NOT_REFUNDABLE', order)
  }
  const leftMs = () => Math.max(shortestCallMs, timeLeftMs(actor))
  const partial = isWhole || !payment ? null : { paymentId: payment.id, amountCents }
  let given: RefundAnswer
  try {
    given = await withOrderAccess(deps, order, (access) =>
      deps.provider.orders.refund(access.token, mpOrderId, operation.id, partial, {
        about: aboutOrder(order, source),
        deadlineMs: leftMs(),
      }),
    )
  } catch (error) {
    if (error instanceof ProviderError) {
      // Perhaps by our own earlier call, whose answer was lost: the provider's books tell.
      if (!isFirst && error.providerCode === 'order_already_refunded') {
        const read = await refreshOrder(deps, order, source, leftMs())
        if (!read.stale && (await settleRefundByReading(deps, read.order, operation, actor))) {
          return read.order
        }
      }
      throw await refundRefused(deps, order, operation, error, { isFirst, sender })
    }
    // Nothing was sent (no connection): the till is told so, and nobody gives the money back behind its back.
    if (!(error instanceof AppError && isFirst)) throw error
    if (await refuseOperation(deps, operation, error.code, sender)) throw error
    // Unless somebody else sends by now, under the same key: what becomes of that call is not known here.
    throw new AppError(error.code, {
      message: error.message,
      cause: error,
      extra: { outcome: 'unknown', retrySafe: true, orderId: order.id, status: order.status },
    })
  }
  const fresh = freshRefunds(order, given)
  if (fresh.length > 0 && fresh.every(({ status }) => isFailedRefund(status))) {
    await refuseOperation(deps, operation, 'refund_failed')
    throw new AppError('PROVIDER_REJECTED', {
      message: 'The provider took the refund and then refused it; nothing was given back',
      extra: refundStanding(order),
    })
  }
  const recorded = await recordRefund(deps, operation, given, source, actor)
  // An answer that does not show the refund leaves its sum to the provider's own books.
  const isShown = given.refunds.length > 0
  return isShown ? recorded : (await refreshOrder(deps, recorded, source, leftMs())).order
}

async function recordRefund(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  given: RefundAnswer,
  source: EvidenceSource,
  actor: Actor,
): Promise<OrderRow> {
  return deps.database.transaction(async (trx) => {
    const order = await lockOrder(trx, operation.order_id)
    const applied =
      given.refunds.length > 0
        ? await applyEvidence(
            trx,
            order,
            evidenceOfRefund(order, operation, given),
            source,
            deps.now(),
          )
        : { order }
    const settled = await settleOperation(trx, operation.id, {
      state: 'done',
      mpRefundId: newRefundId(order, given),
      finishedAt: deps.now(),
    })
    if (settled) await recordRefunded(deps, trx, order, operation, actor)
    return applied.order
  })
}

async function recordRefunded(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<void> {
  await recordSuccess(deps, trx, {
    client: order.client,
    actor,
    action: 'order.refunded',
    resourceType: 'order',
    resourceId: order.id,
    metadata: {
      mp_order_id: order.mp_order_id,
      type: operation.refund_type,
      amount: pointFromCents(operation.amount_cents as number),
      caja_id: order.caja_id,
    },
  })
}

/**
 * Settles a refund whose key says nothing any more (too old to be sent again) by the refunds that the provider shows.
 * `order` has just been read. One that stands for another refund of ours does not count. Returns whether it was made.
 */
export async function settleRefundByReading(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<boolean> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    const taken = new Set(
      (await listOperations(trx, [order.id])).map((entry) => entry.mp_refund_id),
    )
    const shown = locked.refunds.find(
      (refund) => refund.amountCents === operation.amount_cents && !taken.has(refund.id),
    )
    const settled = await settleOperation(trx, operation.id, {
      state: shown ? 'done' : 'refused',
      mpRefundId: shown?.id ?? null,
      finishedAt: deps.now(),
    })
    if (shown && settled) await recordRefunded(deps, trx, locked, operation, actor)
    return shown !== undefined
  })
}

/** Refunds in the answer that the order did not have before. */
function freshRefunds(order: OrderRow, given: RefundAnswer): ProviderRefund[] {
  const before = new Set(order.refunds.map((refund) => refund.id))
  return given.refunds.filter((refund) => !before.has(refund.id))
}

/** The refund in the answer that the order did not have before; the last one when the provider repeats itself. */
function newRefundId(order: OrderRow, given: RefundAnswer): string | null {
  return (freshRefunds(order, given).at(-1) ?? given.refunds.at(-1))?.id ?? null
}

/**
 * What the short answer to a refund says of the whole order. When a webhook was quicker and the row has this refund
 * already, the sum does not grow a second time.
 */
function evidenceOfRefund(
  order: OrderRow,
  operation: OrderOperationRow,
  given: RefundAnswer,
): OrderEvidence {
  const fresh = freshRefunds(order, given)
  const isKnown = fresh.length === 0
  const amountCents = operation.amount_cents as number
  const refundedCents = order.refunded_cents + (isKnown ? 0 : amountCents)
  const paidCents = Math.max(order.paid_cents, order.amount_cents)
  const isAll = refundedCents >= paidCents || given.status === 'refunded'
  return {
    mpOrderId: order.mp_order_id as string,
    mpUserId: null,
    externalReference: null,
    terminalId: null,
    status: isAll ? 'refunded' : 'partially_refunded',
    providerStatus: given.providerStatus,
    statusDetail: given.statusDetail,
    amountCents: null,
    paidCents: order.paid_cents,
    refundedCents: isAll ? Math.max(refundedCents, paidCents) : refundedCents,
    payments: order.payments,
    refunds: [
      ...order.refunds,
      ...fresh.map((refund) => ({ ...refund, amountCents: refund.amountCents ?? amountCents })),
    ],
    updatedAt: null,
  }
}

/** Ends the intent as refused; with `sender` only while that one has the right to send. Answers whether it did. */
async function refuseOperation(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  providerCode: string,
  sender?: string,
): Promise<boolean> {
  return deps.database.transaction((trx) =>
    settleOperation(trx, operation.id, {
      state: 'refused',
      providerCode,
      finishedAt: deps.now(),
      ...(sender !== undefined && { sender }),
    }),
  )
}

/**
 * A definite no ends the intent. No answer, or the provider's word that it is still at it, keeps it open: the sweeper
 * repeats it under its key until there is an outcome. After a lost answer only what the provider says of the key counts:
 * "wait", "who are you" and "all is refunded" do not tell whether the first call gave the money back.
 */
async function refundRefused(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  error: ProviderError,
  { isFirst, sender }: { isFirst: boolean; sender: string },
): Promise<AppError> {
  const failure = toAppError(error, 'order.refund')
  const isDefinite = error.provesAbsence || (isFirst && error.effect === 'none')
  const isFinal = isDefinite && failure.code !== 'REFUND_IN_PROGRESS'
  // Somebody else who sends by now may be luckier: then this refusal is not the end.
  const isRefused =
    isFinal &&
    (await deps.database.transaction((trx) =>
      settleOperation(trx, operation.id, {
        state: 'refused',
        providerCode: error.providerCode,
        finishedAt: deps.now(),
        sender,
      }),
    ))
  if (!isRefused) {
    await deps.database.transaction((trx) =>
      settleOperation(trx, operation.id, {
        state: 'unknown',
        providerCode: error.providerCode,
        finishedAt: null,
        nextAttemptAt: nextUnknownAttempt(deps.now(), operation.created_at),
      }),
    )
  }
  return new AppError(failure.code, {
    message: failure.message,
    cause: error,
    extra: {
      ...failure.extra,
      outcome: isRefused ? outcomeOf(order) : 'unknown',
      // An equal request takes up the same intent, so asking again never gives the money back twice.
      retrySafe: !isRefused || failure.status >= 500 || failure.code === 'RATE_LIMITED',
      orderId: order.id,
      status: order.status,
    },
  })
}

/** How the order stands after a refusal of its refund, which changed nothing. */
export function refundStanding(order: OrderRow): ErrorExtra {
  return { outcome: outcomeOf(order), retrySafe: false, orderId: order.id, status: order.status }
}

/** A refusal of ours that says how the order stands. */
export function refuseRefund(code: ErrorCode, order: OrderRow, extra: ErrorExtra = {}): AppError {
  return new AppError(code, { extra: { ...refundStanding(order), ...extra } })
}
