import {
  isFailedRefund,
  isPendingRefund,
  type OrderEvidence,
  type ProviderRefund,
} from '../domain/order.ts'
import { AppError, type ErrorCode, type ErrorExtra, type Outcome } from '../errors.ts'
import { ProviderError, type RefundAnswer, toAppError } from '../provider/provider.ts'
import {
  findOperation,
  listOperations,
  type OrderOperationRow,
  settleOperation,
} from '../repositories/order-operations.ts'
import { lockOrder, type OrderRow } from '../repositories/orders.ts'
import { shortestCallMs, timeLeftMs } from './answer-time.ts'
import { type EvidenceSource, hasUnsettledRefund } from './apply-evidence.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { nextUnknownAttempt } from './operation-ladder.ts'
import { aboutOrder, withOrderAccess } from './order-access.ts'
import { outcomeOf } from './outcome.ts'
import { refreshOrder, requireOrder } from './read-order.ts'
import { type Claim, sendAlone } from './send-alone.ts'
import { recordRefunded, takeEvidence } from './take-evidence.ts'

export type SentRefund = { order: OrderRow; operation: OrderOperationRow }

/**
 * Sends the refund of an intent, for the first time (`held`, the claim that came with it) or again; the key is the intent's
 * id each time. Throws as refundOrder does.
 */
export async function refundAtProvider(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  source: EvidenceSource,
  actor: Actor,
  held: string | null = null,
): Promise<SentRefund> {
  return deps.once(`refund:${operation.id}`, async () => {
    const until = performance.now() + timeLeftMs(actor)
    const leftMs = () => Math.max(shortestCallMs, until - performance.now())
    let first = held
    for (;;) {
      const row = { table: 'order_operations' as const, id: operation.id }
      const sent = await sendAlone(deps, row, first, (claim) =>
        sendRefund(deps, order, operation, {
          source,
          actor,
          isFirst: first !== null,
          claim,
          leftMs,
        }),
      )
      if (sent?.result) return sent.result
      // Taken over by somebody else: his outcome is ours.
      first = null
      const waits = source === 'api' && performance.now() < until
      if (!waits) throw refuseRefund('REFUND_IN_PROGRESS', order, { outcome: 'unknown' })
      await deps.changes.wait(order.id, lookAgainMs)
    }
  })
}

/** How often a request that waits for another process to make its refund looks. */
const lookAgainMs = 200

type Sending = {
  source: EvidenceSource
  actor: Actor
  /** This request has written the intent. */
  isFirst: boolean
  claim: Claim
  leftMs: () => number
}

/** Undefined when the claim was lost before anything was sent. */
async function sendRefund(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  sending: Sending,
): Promise<SentRefund | undefined> {
  const { source, actor, isFirst, claim, leftMs } = sending
  const known = isFirst ? operation : await findOperation(deps.database.db, operation.id)
  if (known?.state === 'done') {
    return { order: await requireOrder(deps, order.client, order.id), operation: known }
  }
  if (known?.state === 'refused') {
    throw new AppError('PROVIDER_ERROR', {
      message: 'The provider refused an equal refund a moment ago; nothing was given back',
      extra: { outcome: standingWithout(order), retrySafe: true, orderId: order.id },
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
  const partial = isWhole || !payment ? null : { paymentId: payment.id, amountCents }
  let given: RefundAnswer
  try {
    given = await withOrderAccess(deps, order, (access) =>
      deps.provider.orders.refund(access.token, mpOrderId, operation.id, partial, {
        about: aboutOrder(order, source),
        deadlineMs: leftMs(),
        permit: claim.permit,
      }),
    )
  } catch (error) {
    if (error instanceof ProviderError && error.failure === 'withheld') return undefined
    return settleFailure(deps, order, operation, error, sending)
  }
  const fresh = freshRefunds(order, given)
  if (fresh.length > 0 && fresh.every(({ status }) => isFailedRefund(status))) {
    await refuseOperation(deps, operation, 'refund_failed')
    throw new AppError('PROVIDER_REJECTED', {
      message: 'The provider took the refund and then refused it; nothing was given back',
      extra: { ...refundStanding(order), outcome: standingWithout(order) },
    })
  }
  const recorded = await recordRefund(deps, operation, given, source, actor)
  // What the short answer leaves open only the provider's own books tell: one that does not show the refund, or a sum that
  // does not make the whole although the provider says so, as after a refund that was made elsewhere and not seen here.
  const isPlain = given.refunds.length > 0 && !hasUnsettledRefund(recorded.order)
  if (isPlain || given.refunds.some(({ status }) => isPendingRefund(status))) return recorded
  const read = await refreshOrder(deps, recorded.order, source, leftMs(), true)
  return { order: read.order, operation: recorded.operation }
}

/** How the order stands when this refund, which was open, is none. */
function standingWithout(order: OrderRow): Outcome {
  return outcomeOf({ ...order, refund_open: false })
}

async function settleFailure(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  error: unknown,
  { source, actor, isFirst, claim, leftMs }: Sending,
): Promise<SentRefund> {
  const isUnsent = error instanceof AppError || hasNoEffect(error)
  if (isUnsent) claim.settle()
  if (error instanceof ProviderError) {
    // Perhaps by our own earlier call, whose answer was lost: the provider's books tell. They also tell that an attempt
    // which nobody answered has had no effect, once it can no longer arrive.
    const isDoubtful = claim.unansweredAt !== null || !isFirst
    const asksBooks =
      isDoubtful &&
      (error.providerCode === 'order_already_refunded' ||
        (error.provesAbsence && canNotArrive(deps, claim)))
    if (asksBooks) {
      const read = await refreshOrder(deps, order, source, leftMs())
      if (!read.stale) {
        const settled = await settleRefundByReading(deps, read.order, operation, actor)
        if (settled) return { order: read.order, operation: settled }
        throw refusal(read.order, error, true)
      }
    }
    const isDefinite = isUnsent && claim.unansweredAt === null && (error.provesAbsence || isFirst)
    throw refusal(order, error, await endOrKeep(deps, operation, error, isDefinite, claim))
  }
  // Nothing was sent (no connection): the till is told so, and nobody gives the money back behind its back.
  if (!(error instanceof AppError && isFirst)) throw error
  if (await refuseOperation(deps, operation, error.code, claim.sender)) {
    throw withOutcome(error, standingWithout(order))
  }
  // Unless somebody else sends by now, under the same key: what becomes of that call is not known here.
  throw withOutcome(error, 'unknown')

  function withOutcome(failure: AppError, outcome: Outcome): AppError {
    return new AppError(failure.code, {
      message: failure.message,
      cause: failure,
      extra: { outcome, retrySafe: true, orderId: order.id, status: order.status },
    })
  }
}

function hasNoEffect(error: unknown): boolean {
  return error instanceof ProviderError && error.effect === 'none'
}

function canNotArrive(deps: PaymentDeps, { unansweredAt }: Claim): boolean {
  if (unansweredAt === null) return true
  return deps.now().getTime() - unansweredAt.getTime() >= deps.settings.lateArrivalMs
}

async function recordRefund(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  given: RefundAnswer,
  source: EvidenceSource,
  actor: Actor,
): Promise<SentRefund> {
  return deps.database.transaction(async (trx) => {
    const order = await lockOrder(trx, operation.order_id)
    const refundId = newRefundId(order, given)
    const refund = given.refunds.find(({ id }) => id === refundId)
    const isPending = refund !== undefined && isPendingRefund(refund.status)
    // A total refund gives back what is left, which may be less than was known here.
    const amountCents = refund?.amountCents ?? (operation.amount_cents as number)
    const done = { ...operation, state: 'done' as const, amount_cents: amountCents }
    const settled = await settleOperation(trx, operation.id, {
      state: 'done',
      mpRefundId: refundId,
      amountCents,
      finishedAt: isPending ? null : deps.now(),
    })
    const locked = settled ? { ...order, refund_open: false } : order
    const applied =
      given.refunds.length > 0
        ? await takeEvidence(deps, trx, locked, evidenceOfRefund(order, done, given), source)
        : { order: locked }
    if (settled && !isPending) await recordRefunded(deps, trx, order, done, actor)
    return { order: applied.order, operation: done }
  })
}

/**
 * Settles a refund whose key says nothing any more (too old to be sent again) by the refunds that the provider shows.
 * `order` has just been read. One that stands for another refund of ours does not count. Returns it as it stands, or undefined when it was not made.
 */
export async function settleRefundByReading(
  deps: PaymentDeps,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<OrderOperationRow | undefined> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    const taken = new Set(
      (await listOperations(trx, [order.id])).map((entry) => entry.mp_refund_id),
    )
    const shown = locked.refunds.find(
      (refund) =>
        refund.amountCents === operation.amount_cents &&
        !taken.has(refund.id) &&
        !isFailedRefund(refund.status),
    )
    const isPending = shown !== undefined && isPendingRefund(shown.status)
    const settled = await settleOperation(trx, operation.id, {
      state: shown ? 'done' : 'refused',
      mpRefundId: shown?.id ?? null,
      finishedAt: isPending ? null : deps.now(),
    })
    if (shown && settled && !isPending) await recordRefunded(deps, trx, locked, operation, actor)
    return shown && { ...operation, state: 'done', mp_refund_id: shown.id }
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
  const fresh = freshRefunds(order, given).map((refund) => ({
    ...refund,
    amountCents: refund.amountCents ?? operation.amount_cents,
  }))
  const freshCents = fresh
    .filter(({ status }) => !isFailedRefund(status))
    .reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0)
  const refundedCents = order.refunded_cents + freshCents
  const paidCents = Math.max(order.paid_cents, order.amount_cents)
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

/** Ends the intent as refused; with `sender` only while that one has the right to send. Answers whether it did. */
async function refuseOperation(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  providerCode: string | null,
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
 * repeats it under its key until there is an outcome. Answers whether it has ended.
 */
async function endOrKeep(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  error: ProviderError,
  isDefinite: boolean,
  claim: Claim,
): Promise<boolean> {
  const isFinal = isDefinite && toAppError(error, 'order.refund').code !== 'REFUND_IN_PROGRESS'
  // Somebody else who sends by now may be luckier: then this refusal is not the end.
  if (isFinal && (await refuseOperation(deps, operation, error.providerCode, claim.sender))) {
    return true
  }
  await deps.database.transaction((trx) =>
    settleOperation(trx, operation.id, {
      state: 'unknown',
      providerCode: error.providerCode,
      finishedAt: null,
      nextAttemptAt: nextUnknownAttempt(deps.now(), operation.created_at),
    }),
  )
  return false
}

/** What the till is told of a refund that the provider did not confirm; `isRefused` when it never will. */
function refusal(order: OrderRow, error: ProviderError, isRefused: boolean): AppError {
  const failure = toAppError(error, 'order.refund')
  return new AppError(failure.code, {
    message: failure.message,
    cause: error,
    extra: {
      ...failure.extra,
      outcome: isRefused ? standingWithout(order) : 'unknown',
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
