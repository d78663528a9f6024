import { isOwn, receivedCents } from '../../domain/money.ts'
import { receivedStatuses } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { type CallOptions, mayBeOurOwn, toAppError } from '../../provider/provider.ts'
import {
  findOperation,
  type OrderOperationRow,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { Access, KnownConnection } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import {
  type KeyedRow,
  type NewLease,
  type SendLease,
  takeSendLease,
} from '../operations/send-lease.ts'
import type { RequestContext } from '../request-context.ts'
import { canNotArrive } from './check-and-retry-times.ts'
import { type CallFailure, endOrKeep, endsOperation, perform, refuse } from './perform.ts'
import { refreshOrder, requireOrder } from './read.ts'
import {
  recordAnswer,
  refuseOperation,
  type SentRefund,
  settleRefundByReading,
} from './record-refund.ts'
import { refusal, refusedByProvider, refuseRefund } from './refund-errors.ts'

/**
 * Sends the refund of an intent, for the first time (`newLease`, inserted with the intent) or again. The key is always the
 * intent's id.
 *
 * @throws like refundOrder
 */
export function refundAtProvider(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  context: RequestContext,
  options: SendOptions = {},
): Promise<SentRefund> {
  return deps.once(`order_operations:${operation.id}`, () =>
    sendRefund(deps, order, operation, context, options),
  )
}

type SendOptions = { newLease?: NewLease | null; connection?: KnownConnection | undefined }

async function sendRefund(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  context: RequestContext,
  { newLease = null, connection }: SendOptions,
): Promise<SentRefund> {
  const row: KeyedRow = { table: 'order_operations', id: operation.id, orderId: order.id }
  for (let its = newLease; ; its = null) {
    await using lease = await takeSendLease(deps, row, its, context)
    if (!lease) throw sentElsewhere(order)
    const known = lease.isNew ? operation : await findOperation(deps.database.db, operation.id)
    if (!known) throw sentElsewhere(order)
    const ended = await insteadOfSending(deps, order, known)
    if (ended) return ended
    const part = partOf(order, known) ?? null
    const call = ({ token }: Access, options: CallOptions) =>
      deps.provider.orders.refund(token, order.mp_order_id as string, known.id, part, options)
    const sent = await perform(deps, { order, lease, context, connection, call })
    switch (sent.kind) {
      case 'answered':
        return await recordAnswer(deps, order, known, sent.answer, context, lease)
      case 'failed':
        return await recordFailure(deps, order, known, sent.error, context, lease)
      case 'withheld':
        continue
      default:
        return sent satisfies never
    }
  }
}

/** Another process sends this refund. */
function sentElsewhere(order: OrderRow): AppError {
  return refuseRefund('REFUND_IN_PROGRESS', order, moneyOutcome('refundElsewhere'))
}

async function insteadOfSending(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
): Promise<SentRefund | undefined> {
  if (operation.state === 'done') {
    return { order: await requireOrder(deps, order.client, order.id), operation }
  }
  if (operation.state === 'refused') {
    throw new AppError('PROVIDER_ERROR', {
      message: 'The provider refused an equal refund a moment ago; nothing was refunded',
      extra: { ...moneyOutcome('refundRefusedForNow', order), orderId: order.id },
    })
  }
  if (order.mp_order_id !== null && partOf(order, operation) !== undefined) return undefined
  await refuseOperation(deps, operation, 'no_payment')
  throw refuseRefund('ORDER_NOT_REFUNDABLE', order)
}

/** The part of the payment that is refunded: null for all of it, undefined when there is no payment to refund. */
function partOf(
  order: OrderRow,
  operation: OrderOperationRow,
): { paymentId: string; amountCents: number; isWholeAmount?: boolean } | null | undefined {
  const own = order.payments.filter(isOwn)
  const payment = own.find(({ status }) => receivedStatuses.includes(status)) ?? own[0]
  const amountCents = operation.amount_cents as number
  const isAll = payment !== undefined && amountCents === receivedCents(payment)
  // A partial refund must be less than the payment; for all of it a total refund is sent. When the order has a further payment, a
  // total refund might include it, so the payment is always named.
  const namesPayment = order.surplus !== null && payment !== undefined
  if (!namesPayment && (operation.refund_type === 'total' || isAll)) return null
  return payment && { paymentId: payment.id, amountCents, isWholeAmount: order.whole_amount }
}

async function recordFailure(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  error: CallFailure,
  context: RequestContext,
  lease: SendLease,
): Promise<SentRefund> {
  const isOver = endsOperation(error, lease)
  if (error instanceof AppError) {
    // Nothing was sent (no connection): the till gets the error, and the sweeper must not refund later. Unless another process is
    // sending now under the same key: the outcome of that call is unknown here.
    if (!isOver) throw refusal(order, error, 'refundUndecided')
    const isRefused = await refuse(deps, operation, error, lease)
    throw refusal(order, error, isRefused ? 'refundRefusedForNow' : 'refundUndecided')
  }
  // Our own earlier call may have refunded it, with its answer lost: the order is read. That also shows that an unanswered
  // attempt had no effect, once it can no longer arrive.
  const isDoubtful = lease.unansweredAt !== null || !lease.isNew
  const isOpenQuestion = error.provesAbsence || mayBeOurOwn(error, 'order.refund')
  const asksBooks =
    isDoubtful &&
    (error.providerCode === 'order_already_refunded' ||
      (isOpenQuestion && canNotArrive(deps, lease.unansweredAt)))
  const read = asksBooks ? await refreshOrder(deps, order, context) : undefined
  if (read && !read.stale) {
    const settled = await settleRefundByReading(deps, read.order, operation, context.actor)
    if (settled.state === 'done') return { order: read.order, operation: settled }
    throw refusedByProvider(read.order, error, settled.state === 'refused')
  }
  const isFinal = isOver && toAppError(error, 'order.refund').code !== 'REFUND_IN_PROGRESS'
  const hasEnded = await endOrKeep(deps, operation, error, isFinal, lease)
  throw refusedByProvider(order, error, hasEnded)
}
