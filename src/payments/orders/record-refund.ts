import type { Db, Trx } from '../../db/database.ts'
import { asShopRefunds } from '../../domain/money.ts'
import type { OrderEvidence, ProviderRefund } from '../../domain/order.ts'
import { isFailedRefund, isPendingRefund, wasReceived } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import type { RefundAnswer } from '../../provider/provider.ts'
import {
  listOperations,
  type OrderOperationRow,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import { lockOrder, type OrderRow } from '../../repositories/orders/order-queries.ts'
import { notifyActivity, signSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import type { SendLease } from '../operations/send-lease.ts'
import type { RequestContext } from '../request-context.ts'
import { hasUnsettledRefund } from './check-and-retry-times.ts'
import { matchRefund, possibleRefunds, type RefundMatch, whyUnclear } from './match-refund.ts'
import { refreshOrder, requireOrder } from './read.ts'
import { refundStanding } from './refund-errors.ts'
import { refundEntry, takeEvidence } from './state.ts'

/** Time alone does not resolve a refund that cannot be matched. At most the operations' part of `furthestMs`. */
const unclearCheckMs = 2 * 60_000
const unclearCode = 'refund_unclear'

export type SentRefund = { order: OrderRow; operation: OrderOperationRow }

/** Records the provider's answer to a refund. */
export async function recordAnswer(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  answered: RefundAnswer,
  context: RequestContext,
  lease: SendLease,
): Promise<SentRefund> {
  const given = { ...answered, refunds: shopRefundsOf(order, answered) }
  const match = await matchAnswer(deps, order, operation, given)
  if (match.kind === 'unclear') {
    return settleUnclearAnswer(deps, order, operation, match, given.refunds, context)
  }
  const refund = match.kind === 'ours' ? match.refund : undefined
  if (refund && isFailedRefund(refund.status)) {
    await refuseOperation(deps, operation, 'refund_failed')
    throw new AppError('PROVIDER_REJECTED', {
      message: 'The provider accepted the refund and then refused it; nothing was refunded',
      extra: { ...refundStanding(order), ...moneyOutcome('refundRefused', order) },
    })
  }
  const recorded = await recordRefund(deps, order, operation, given, refund, context, lease)
  // The short answer may not show the refund, or its sum may not be the whole although the provider says so, as after a refund
  // made elsewhere. Then the order is read.
  const isPlain = given.refunds.length > 0 && !hasUnsettledRefund(recorded.order)
  if (isPlain || given.refunds.some(({ status }) => isPendingRefund(status))) return recorded
  const read = await refreshOrder(deps, recorded.order, context, { isOwn: true })
  return { order: read.order, operation: recorded.operation }
}

/** Writes the provider's answer: how the refund ended, the order's new state, and who refunded it. */
async function recordRefund(
  deps: PaymentDeps,
  known: OrderRow,
  operation: OrderOperationRow,
  given: RefundAnswer,
  refund: ProviderRefund | undefined,
  { source, actor }: RequestContext,
  lease: SendLease,
): Promise<SentRefund> {
  const endOf = (order: OrderRow) => {
    const refundId = refund?.id ?? operation.mp_refund_id
    const isPending = refund !== undefined && isPendingRefund(refund.status)
    // A total refund returns what is left, which may be less than was known here.
    const amountCents = refund?.amountCents ?? (operation.amount_cents as number)
    const done = { ...operation, state: 'done' as const, amount_cents: amountCents }
    const ends = {
      id: operation.id,
      state: 'done' as const,
      mp_refund_id: refundId,
      amount_cents: amountCents,
      providerCode: codeOfEnded(operation),
      finishedAt: isPending ? null : deps.now(),
    }
    const entries = isPending ? [] : [signSuccess(deps, refundEntry(order, done, actor))]
    return { done, ends, entries }
  }
  const settleAlone = async (order: OrderRow): Promise<SentRefund> => {
    const { done, ends, entries } = endOf(order)
    const end = { ...ends, mpRefundId: ends.mp_refund_id, amountCents: ends.amount_cents, entries }
    const settled = await settleOperation(deps.database.db, operation.id, end)
    if (settled) notifyActivity(deps, entries)
    return { order: settled ? { ...order, refund_open: false } : order, operation: done }
  }
  if (given.refunds.length === 0)
    return settleAlone(await requireOrder(deps, known.client, known.id))
  let last = known
  const evidenceFor = (order: OrderRow) => {
    last = order
    return evidenceOfRefund(order, endOf(order).done, given)
  }
  const { order, changed, hasEnded } = await takeEvidence(deps, known, evidenceFor, source, {
    endsRefund: refund?.id ?? null,
    along: (_, before) => endOf(before),
  })
  if (hasEnded) lease.wrote({ sender: null })
  return changed ? { order, operation: endOf(last).done } : settleAlone(order)
}

/**
 * Settles a refund whose key is too old to be sent again, by the refunds that the provider shows. `order` has just been read.
 * Returns the refund as it is then: `unknown` while the provider's refunds prove neither outcome.
 */
export async function settleRefundByReading(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<OrderOperationRow> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    const match = matchRefund(operation, locked.refunds, await listOperations(trx, [order.id]))
    // Contradicting evidence is not applied to the order, so its list of refunds is not the provider's.
    if (match.kind === 'unclear' || (match.kind === 'none' && locked.conflict !== null)) {
      return keepUnclear(deps, trx, operation, match, locked.refunds)
    }
    const refund = match.kind === 'ours' ? match.refund : undefined
    const shown = refund && !isFailedRefund(refund.status) ? refund : undefined
    const isPending = shown !== undefined && isPendingRefund(shown.status)
    const amountCents = shown?.amountCents ?? (operation.amount_cents as number)
    const done = { ...operation, mp_refund_id: refund?.id ?? null, amount_cents: amountCents }
    const entries = shown && !isPending ? [signSuccess(deps, refundEntry(locked, done, actor))] : []
    const settled = await settleOperation(trx, operation.id, {
      state: shown ? 'done' : 'refused',
      mpRefundId: done.mp_refund_id,
      amountCents,
      providerCode: codeOfEnded(operation),
      finishedAt: isPending ? null : deps.now(),
      entries,
    })
    if (settled) notifyActivity(deps, entries)
    return { ...done, state: shown ? 'done' : 'refused' }
  })
}

/** The refunds of an answer that return the shop's money; the earlier refunds have used their part of the payment. */
function shopRefundsOf(order: OrderRow, answered: RefundAnswer): ProviderRefund[] {
  const answeredIds = new Set(answered.refunds.map(({ id }) => id))
  const before = order.refunds.filter(({ id }) => !answeredIds.has(id))
  const all = asShopRefunds(order.payments, [...before, ...answered.refunds])
  return all.slice(before.length)
}

/** Refunds in the answer that are new to the order. */
function freshRefunds(order: OrderRow, given: RefundAnswer): ProviderRefund[] {
  const before = new Set(order.refunds.map((refund) => refund.id))
  return given.refunds.filter((refund) => !before.has(refund.id))
}

/** Which refund in the answer is the one of this operation. */
async function matchAnswer(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  given: RefundAnswer,
): Promise<RefundMatch> {
  if (isImpossible(order, given)) {
    const ids = given.refunds.map(({ id }) => id)
    return { kind: 'unclear', named: ids.length === 1 ? (ids[0] ?? null) : null, ids }
  }
  // Only a refund that was known before can belong to another operation.
  const isFresh = freshRefunds(order, given).length === given.refunds.length
  const operations = isFresh ? [] : await listOperations(deps.database.db, [order.id])
  return matchRefund(operation, given.refunds, operations, { isAnswer: true })
}

/** Whether the answer shows a state that no refund can cause: another currency, or not paid. */
function isImpossible(order: OrderRow, { status, currency }: RefundAnswer): boolean {
  const isOther = currency !== null && order.currency !== null && currency !== order.currency
  return isOther || (status !== null && !wasReceived(status))
}

/** The answer contradicts the request, so the order is read. While that proves nothing, the refund stays unknown. */
async function settleUnclearAnswer(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  match: RefundMatch & { kind: 'unclear' },
  shown: readonly ProviderRefund[],
  context: RequestContext,
): Promise<SentRefund> {
  const kept = await keepUnclear(deps, deps.database.db, operation, match, shown)
  const read = await refreshOrder(deps, order, context, { isOwn: true })
  if (!read.stale && match.named !== null) {
    const settled = await settleRefundByReading(deps, read.order, kept, context.actor)
    if (settled.state === 'done') return { order: read.order, operation: settled }
  }
  throw new AppError('PROVIDER_ERROR', {
    message: 'The answer of the provider does not match the requested refund',
    extra: { ...moneyOutcome('refundUndecided'), orderId: order.id, status: read.order.status },
  })
}

/** Leaves a refund at outcome unknown: a person must decide how it ended. */
async function keepUnclear(
  deps: PaymentDeps,
  db: Db | Trx,
  operation: OrderOperationRow,
  match: Exclude<RefundMatch, { kind: 'ours' }>,
  shown: readonly ProviderRefund[],
): Promise<OrderOperationRow> {
  const { id, order_id: orderId } = operation
  const mpRefundId = (match.kind === 'unclear' ? match.named : null) ?? operation.mp_refund_id
  await settleOperation(db, id, {
    state: 'unknown',
    mpRefundId,
    providerCode: unclearCode,
    finishedAt: null,
    nextAttemptAt: new Date(deps.now().getTime() + unclearCheckMs),
    unclear: { why: whyUnclear(match), possible: possibleRefunds(match, shown) },
  })
  deps.log.warn({ orderId, operationId: id, mpRefundId }, 'refund not identified')
  return { ...operation, state: 'unknown', mp_refund_id: mpRefundId, provider_code: unclearCode }
}

function codeOfEnded({ provider_code: code }: OrderOperationRow): string | null {
  return code === unclearCode ? null : code
}

/**
 * The order's state that follows from the short answer to a refund. When a webhook was first and the row has this refund already,
 * the sum does not grow again.
 */
function evidenceOfRefund(
  order: OrderRow,
  operation: OrderOperationRow,
  given: RefundAnswer,
): OrderEvidence {
  const fresh = freshRefunds(order, given).map((refund) => ({
    ...refund,
    amountCents: refund.amountCents ?? operation.amount_cents,
  }))
  const freshCents = fresh
    .filter(({ status }) => !isFailedRefund(status))
    .reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0)
  const refundedCents = order.refunded_cents + freshCents
  const paidCents = order.paid_cents || order.amount_cents
  const isAll = refundedCents >= paidCents || given.status === 'refunded'
  const shown = new Map(given.refunds.map((refund) => [refund.id, refund]))
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
      ...order.refunds.map((known) => ({
        ...known,
        status: shown.get(known.id)?.status ?? known.status,
      })),
      ...fresh,
    ],
    updatedAt: null,
  }
}

/** Ends a refund that the provider will never make. */
export async function refuseOperation(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  providerCode: string,
): Promise<void> {
  const end = { state: 'refused' as const, providerCode, finishedAt: deps.now() }
  await settleOperation(deps.database.db, operation.id, end)
}
