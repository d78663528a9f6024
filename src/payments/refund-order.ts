import type { Db, Trx } from '../db/database.ts'
import { hashSecret } from '../domain/api-key.ts'
import { canonicalJson } from '../domain/canonical-json.ts'
import type { ClientName } from '../domain/client-name.ts'
import { pointFromCents } from '../domain/money.ts'
import { isOpen, isPaid } from '../domain/order-state.ts'
import { providerKey, requestKey } from '../domain/provider-key.ts'
import { AppError, type ErrorExtra, withExtra, withMoneyOutcome } from '../errors.ts'
import { ProviderError, toAppError } from '../provider/provider.ts'
import {
  findIdempotencyKey,
  type IdempotencyScope,
  tieIdempotencyKey,
  untieIdempotencyKey,
} from '../repositories/idempotency-keys.ts'
import {
  countOperations,
  findOpenOperation,
  findOperation,
  insertOperation,
  noteOpenRefund,
  type OrderOperationRow,
} from '../repositories/order-operations.ts'
import { lockOrder, type OrderRow } from '../repositories/orders.ts'
import { auditFailure } from './activity.ts'
import { inTime, lookFirstMs } from './answer-time.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { isRefundUnderWay, outcomeOf } from './outcome.ts'
import { refreshOrder, requireOrderAnywhere } from './read-order.ts'
import { firstLook, newSender } from './send-alone.ts'
import { refundAtProvider, refundStanding, refuseRefund } from './send-refund.ts'
import { unknownCreation } from './unknown-creation.ts'

export type RefundRequest = {
  orderId: string
  /** Cents to give back; undefined refunds all that is left. */
  amountCents: number | undefined
}

export type Refunded = {
  order: OrderRow
  type: 'total' | 'partial'
  amountCents: number
  replayed: boolean
}

const route = 'POST /orders/refund'

/**
 * Gives money back, each refund at most once: its intent is committed before the provider is called and its id is the
 * provider's key for ever. A refund whose outcome was lost is taken up again by an equal request, under the same key. `isHeard`
 * tells whether somebody still waits for the answer.
 *
 * Throws NOT_FOUND, ORDER_NOT_REFUNDABLE, ORDER_ALREADY_REFUNDED, REFUND_AMOUNT_EXCEEDS, PARTIAL_REFUND_NOT_SUPPORTED,
 * REFUND_IN_PROGRESS, IDEMPOTENCY_CONFLICT, PROVIDER_TIMEOUT, PROVIDER_REJECTED, PROVIDER_ERROR, OAUTH_NOT_CONNECTED,
 * CONNECTION_LOST.
 */
export async function refundOrder(
  deps: PaymentDeps,
  client: ClientName,
  request: RefundRequest,
  idempotencyKey: string | undefined,
  actor: Actor,
  isHeard: () => boolean = () => true,
): Promise<Refunded> {
  const entry = {
    client,
    actor,
    action: 'order.refunded',
    resourceType: 'order',
    resourceId: request.orderId,
    metadata: {
      ...(request.amountCents !== undefined && { amount: pointFromCents(request.amountCents) }),
    },
  }
  return auditFailure(deps, entry, async () => {
    const found = await requireOrderAnywhere(deps, client, request.orderId)
    const identity = identify(found, request, idempotencyKey)
    const work = withMoneyOutcome(standing(found), async () => {
      const refunded = await refund(deps, found, request, identity, actor)
      // Told to nobody, it is not answered: the till that lost its connection will ask for the same again.
      if (identity.isBare && isHeard()) await forgetTie(deps, identity)
      return refunded
    })
    return inTime(actor, work, () => new AppError('PROVIDER_TIMEOUT', { extra: undecided(found) }))
  })
}

/** A tie that stays only makes the next equal refund a repetition of this one, which must not change its answer. */
async function forgetTie(deps: PaymentDeps, { scope, order }: Identity): Promise<void> {
  await untieIdempotencyKey(deps.database.db, scope).catch((error) =>
    deps.log.warn({ err: error, orderId: order.id }, 'an answered refund still counts as open'),
  )
}

function standing(order: OrderRow): ErrorExtra {
  return { outcome: outcomeOf(order), retrySafe: false, orderId: order.id }
}

/** From its intent on a refund may have been made. An equal request takes it up, so that asking again is safe. */
function undecided(order: OrderRow): ErrorExtra {
  return { outcome: 'unknown', retrySafe: true, orderId: order.id }
}

async function refund(
  deps: PaymentDeps,
  found: OrderRow,
  request: RefundRequest,
  identity: Identity,
  actor: Actor,
): Promise<Refunded> {
  const earlier = await findEarlier(deps, deps.database.db, identity)
  if (earlier?.state === 'done') return answer(found, earlier, true)

  const { order, stale, failure } = await refreshOrder(deps, found, 'api', lookFirstMs)
  if (order.creation === 'intent' || order.creation === 'unknown') {
    throw unknownCreation(order, undefined)
  }
  // It may have been paid since anybody looked, so nobody can say that it takes no refund.
  if (stale && isOpen(order.status)) throw unreadable(order, failure)
  if (stale) deps.log.warn({ orderId: order.id }, 'refunding an order that could not be read')

  return withMoneyOutcome(undecided(order), async () => {
    const { operation, isTaken, held } = await writeIntent(deps, order, request, identity)
    const wasAnswered = operation.state === 'done'
    const refunded = wasAnswered
      ? { order, operation }
      : await refundAtProvider(deps, order, operation, 'api', actor, held)
    return answer(refunded.order, refunded.operation, isTaken || earlier !== undefined)
  })
}

/** The intent that this request carries out: its own, new one (`held`, its claim), or one that is there (`isTaken`). */
async function writeIntent(
  deps: PaymentDeps,
  order: OrderRow,
  request: RefundRequest,
  identity: Identity,
): Promise<{ operation: OrderOperationRow; isTaken: boolean; held: string | null }> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    // Whoever held the row until now may have made this very refund.
    const twin = await findEarlier(deps, trx, identity)
    if (twin && (twin.state === 'done' || !identity.isBare)) {
      return { operation: twin, isTaken: true, held: null }
    }
    const opened = await openRefund(deps, trx, locked, request, identity)
    const tie = { ...identity, orderId: order.id, operationId: opened.operation.id }
    if (identity.isBare) await untieIdempotencyKey(trx, identity.scope)
    if (!(await tieIdempotencyKey(trx, identity.scope, { ...tie, createdAt: deps.now() }))) {
      throw conflictingKey(identity)
    }
    return opened
  })
}

/** Nothing was given back, and asking again later is of use. */
function unreadable(order: OrderRow, failure: unknown): AppError {
  const error = failure instanceof ProviderError ? toAppError(failure, 'order.read') : failure
  const extra = { ...refundStanding(order), retrySafe: true }
  return error instanceof AppError
    ? withExtra(error, extra)
    : new AppError('PROVIDER_ERROR', { cause: error, extra })
}

type Identity = {
  /** As it stood when the request came. */
  order: OrderRow
  scope: IdempotencyScope
  fingerprint: string
  /** What its repetitions have in common, for the key at the provider. */
  requestKey: string
  /** The till sent no key. */
  isBare: boolean
}

/**
 * A till without a key that was told of an unknown outcome asks again with an equal request, perhaps after the refund
 * was finished in the background. So a bare refund has a key too, made of its content, until it is answered: the
 * next equal request is then a new refund. The space in it keeps it apart from the keys of tills.
 */
function identify(order: OrderRow, request: RefundRequest, key: string | undefined): Identity {
  const bareKey = `unanswered ${order.id} ${request.amountCents ?? 'total'}`
  return {
    order,
    scope: { client: order.client, route, key: key ?? bareKey },
    fingerprint: hashSecret(canonicalJson({ ...request, orderId: order.id })),
    // By the provider's number of the order: a restored backup may know it under another number of ours.
    requestKey: requestKey(
      'refund',
      order.client,
      order.mp_order_id ?? order.id,
      key === undefined ? 'content' : 'key',
      key ?? request.amountCents ?? 'total',
    ),
    isBare: key === undefined,
  }
}

/** After this time an equal refund without a key is a new one, even if the last was never answered. */
const unansweredMs = 24 * 3600_000

async function findEarlier(
  deps: PaymentDeps,
  db: Db | Trx,
  identity: Identity,
): Promise<OrderOperationRow | undefined> {
  const tie = await findIdempotencyKey(db, identity.scope)
  const operation =
    tie?.operation_id == null ? undefined : await findOperation(db, tie.operation_id)
  if (!tie || !operation || operation.state === 'refused') return undefined
  const ageMs = deps.now().getTime() - tie.created_at.getTime()
  if (identity.isBare && ageMs > unansweredMs) return undefined
  if (tie.fingerprint !== identity.fingerprint) throw conflictingKey(identity)
  return operation
}

function conflictingKey({ order }: Identity): AppError {
  return new AppError('IDEMPOTENCY_CONFLICT', { extra: standing(order) })
}

function answer(order: OrderRow, operation: OrderOperationRow, replayed: boolean): Refunded {
  return {
    order,
    type: operation.refund_type ?? 'total',
    amountCents: operation.amount_cents ?? 0,
    replayed,
  }
}

/**
 * The intent of this refund: a new one, or one of unknown outcome that an equal request without a key takes up. Refunds of
 * different keys are different refunds, however equal they look. `order` is the locked row, so the sum is checked against
 * what is refunded at this moment.
 */
async function openRefund(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  request: RefundRequest,
  identity: Identity,
): Promise<{ operation: OrderOperationRow; isTaken: boolean; held: string | null }> {
  const type = request.amountCents === undefined ? 'total' : 'partial'
  const open = await findOpenOperation(trx, order.id, 'refund')
  if (open) {
    const isEqual =
      open.refund_type === type && (type === 'total' || open.amount_cents === request.amountCents)
    const isSentNow = open.sender_until !== null && open.sender_until > deps.now()
    if (identity.isBare && isEqual && !isSentNow) {
      return { operation: open, isTaken: true, held: null }
    }
    throw inProgress(order)
  }
  if (order.status === 'refunded') {
    throw isRefundUnderWay(order)
      ? inProgress(order)
      : refuseRefund('ORDER_ALREADY_REFUNDED', order)
  }
  if (!isPaid(order.status) && !order.paid_after_close)
    throw refuseRefund('ORDER_NOT_REFUNDABLE', order)
  const paidCents = Math.max(order.paid_cents, order.amount_cents)
  const leftCents = paidCents - order.refunded_cents
  if (leftCents <= 0) throw refuseRefund('ORDER_ALREADY_REFUNDED', order)
  const amountCents = request.amountCents ?? leftCents
  if (amountCents > leftCents) {
    throw new AppError('REFUND_AMOUNT_EXCEEDS', {
      message: `At most ${pointFromCents(leftCents)} is left to refund`,
      extra: refundStanding(order),
    })
  }
  const now = deps.now()
  const number = (await countOperations(trx, order.id, identity.requestKey)) + 1
  const operation = await insertOperation(trx, {
    id: providerKey(identity.requestKey, number),
    request_key: identity.requestKey,
    order_id: order.id,
    client: order.client,
    kind: 'refund',
    refund_type: type,
    amount_cents: amountCents,
    state: 'intent',
    mp_refund_id: null,
    provider_code: null,
    next_attempt_at: firstLook(now),
    ...newSender(now),
    created_at: now,
    finished_at: null,
  })
  await noteOpenRefund(trx, order.id)
  return { operation, isTaken: false, held: operation.sender }
}

/** Another refund of this order is under way; once it has ended, the same request may be made. */
function inProgress(order: OrderRow): AppError {
  return refuseRefund('REFUND_IN_PROGRESS', order, { outcome: 'unknown', retrySafe: true })
}
