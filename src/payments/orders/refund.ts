import type { ClientName } from '../../domain/client-name.ts'
import { pointFromCents } from '../../domain/money.ts'
import { isOpen, isResultUnknown } from '../../domain/order-state.ts'
import { AppError, addOutcome, withExtra } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { ProviderError, toAppError } from '../../provider/provider.ts'
import type { OrderOperationRow } from '../../repositories/orders/order-operations.ts'
import { noteDeniedRefund, type OrderRow } from '../../repositories/orders/order-queries.ts'
import { unlinkRefund } from '../../repositories/orders/refund-intents.ts'
import { auditFailure } from '../audit/activity.ts'
import type { PaymentDeps } from '../deps.ts'
import { byDeadline, type RequestContext, readFirstMs, within } from '../request-context.ts'
import { type LoadedOrder, refreshOrder, requireOrder, requireOrderAnywhere } from './read.ts'
import { refundStanding } from './refund-errors.ts'
import {
  type Asked,
  earlierOf,
  identifyRefund,
  inProgress,
  type RefundRequest,
  readRefundStart,
  refundUndecided,
  standing,
  writeRefundIntent,
} from './refund-intent.ts'
import { unknownCreation } from './send-charge.ts'
import { refundAtProvider } from './send-refund.ts'

export type Refunded = {
  order: OrderRow
  type: 'total' | 'partial'
  amountCents: number
  replayed: boolean
}

/**
 * Refunds an order, each refund at most once: its intent is committed before the provider is called, and its id is the idempotency key of
 * every call. An equal request continues a refund of unknown outcome under the same key. Nothing is begun for a client that has
 * disconnected.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR (cents of a currency without cents), ORDER_NOT_REFUNDABLE, ORDER_ALREADY_REFUNDED, REFUND_AMOUNT_EXCEEDS, PARTIAL_REFUND_NOT_SUPPORTED,
 * REFUND_IN_PROGRESS, IDEMPOTENCY_CONFLICT, PROVIDER_TIMEOUT, PROVIDER_REJECTED, PROVIDER_ERROR, OAUTH_NOT_CONNECTED,
 * CONNECTION_LOST.
 */
export async function refundOrder(
  deps: PaymentDeps,
  client: ClientName,
  request: RefundRequest,
  idempotencyKey: string | undefined,
  context: RequestContext,
): Promise<Refunded> {
  const entry = {
    client,
    actor: context.actor,
    action: 'order.refunded',
    resourceId: request.orderId,
    metadata: {
      ...(request.amountCents !== undefined && { amount: pointFromCents(request.amountCents) }),
    },
  }
  return auditFailure(deps, entry, () =>
    findAndRefund(deps, client, request, idempotencyKey, context),
  )
}

/** How a refund ended for its request. */
type RefundResult =
  | ({ kind: 'refunded' } & Refunded)
  /** The error says what is known of the money. */
  | { kind: 'refused'; error: AppError }
  /** It ended in the middle: it may have been made. An equal request continues it. */
  | { kind: 'interrupted'; error: unknown }

async function findAndRefund(
  deps: PaymentDeps,
  client: ClientName,
  request: RefundRequest,
  idempotencyKey: string | undefined,
  context: RequestContext,
): Promise<Refunded> {
  const loaded = await requireOrderAnywhere(deps, client, request.orderId, context)
  const asked = identifyRefund(loaded.order, request, idempotencyKey, context)
  const work = refund(deps, loaded, asked).catch(
    (error: unknown): RefundResult => ({ kind: 'interrupted', error }),
  )
  const late: RefundResult = { kind: 'interrupted', error: new AppError('PROVIDER_TIMEOUT') }
  const result = (await byDeadline(deps, context, work)) ?? late
  if (result.kind === 'refunded') return result
  throw result.kind === 'refused'
    ? result.error
    : addOutcome(result.error, refundUndecided(loaded.order))
}

async function refund(deps: PaymentDeps, loaded: LoadedOrder, asked: Asked): Promise<RefundResult> {
  try {
    const refunded = await refundOnce(deps, loaded, asked)
    // A till that has disconnected did not get the answer and will send the same request again.
    if (asked.isBare && (await asked.context.isConnected())) await forgetTie(deps, asked)
    return { kind: 'refunded', ...refunded }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    // A refusal that says nothing of the money came before the intent.
    return refuseEqual(deps, asked, withExtra(error, standing(asked.order)))
  }
}

/** A refusal, made true for every equal request that is running. One of these may have made the refund: then that is the answer. */
async function refuseEqual(
  deps: PaymentDeps,
  asked: Asked,
  error: AppError,
): Promise<RefundResult> {
  if (error.extra.outcome === 'unknown') return { kind: 'refused', error }
  const duplicate = await denyRefund(deps, asked)
  if (duplicate?.state === 'done') {
    return { kind: 'refunded', ...(await answerEarlier(deps, duplicate)) }
  }
  return { kind: 'refused', error: duplicate ? inProgress(asked.order) : error }
}

/**
 * Makes a refusal hold for every equal request that is running: the refund that one of them has begun is returned, and none of them
 * begins one afterwards (`writeIntent`).
 */
async function denyRefund(deps: PaymentDeps, asked: Asked): Promise<OrderOperationRow | undefined> {
  return deps.database.transaction(async (trx) => {
    await noteDeniedRefund(trx, asked.order.id)
    return earlierOf(deps, asked, await readRefundStart(trx, asked))
  })
}

/** Forgets the key of an answered refund. A failure is logged only: the next equal request would count as a repetition. */
async function forgetTie(deps: PaymentDeps, { scope, order }: Asked): Promise<void> {
  await unlinkRefund(deps.database.db, scope).catch((error) =>
    deps.log.warn({ err: error, orderId: order.id }, 'answered refund still open in the database'),
  )
}

/** The steps of a refund, in their order. */
async function refundOnce(
  deps: PaymentDeps,
  { order: found, known }: LoadedOrder,
  asked: Asked,
): Promise<Refunded> {
  const { context } = asked
  const start = await readRefundStart(deps.database.db, asked)
  const earlier = earlierOf(deps, asked, start)
  if (earlier?.state === 'done') return answerEarlier(deps, earlier)

  const read = await refreshOrder(deps, found, within(deps, context, readFirstMs), { known })
  const { order, stale, failure, disputed } = read
  const isListRead = !stale && !read.isGone && order.conflict === null
  if (isResultUnknown(order.creation)) {
    throw unknownCreation(order, undefined)
  }
  // It may have been paid since the last status check, so it may be refundable.
  if (stale && isOpen(order.status)) throw unreadable(order, failure)
  if (stale)
    deps.log.warn({ orderId: order.id }, 'refunding without a read: the order could not be read')

  const intent = await writeRefundIntent(deps, order, asked, start, { isListRead, disputed })
  const { operation, isTaken, newLease } = intent
  const options = { newLease, connection: known }
  if (operation.state === 'done') return answerEarlier(deps, operation)
  const refunded = await refundAtProvider(deps, intent.order, operation, context, options)
  const isReplayed = isTaken || earlier !== undefined
  return answer(refunded.order, refunded.operation, isReplayed)
}

/** Nothing was refunded; the same request may succeed later. */
function unreadable(order: OrderRow, failure: unknown): AppError {
  const error = failure instanceof ProviderError ? toAppError(failure, 'order.read') : failure
  const extra = { ...refundStanding(order), ...moneyOutcome('refundPutOff', order) }
  return error instanceof AppError
    ? withExtra(error, extra)
    : new AppError('PROVIDER_ERROR', { cause: error, extra })
}

/** The answer of a refund that an equal request has made. Its order is read now: the one read before may be older than the refund. */
async function answerEarlier(deps: PaymentDeps, operation: OrderOperationRow): Promise<Refunded> {
  const order = await requireOrder(deps, operation.client, operation.order_id)
  return answer(order, operation, true)
}

function answer(order: OrderRow, operation: OrderOperationRow, replayed: boolean): Refunded {
  return {
    order,
    type: operation.refund_type ?? 'total',
    amountCents: operation.amount_cents ?? 0,
    replayed,
  }
}
