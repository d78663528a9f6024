import { randomUUID } from 'node:crypto'
import type { Db, Trx } from '../db/database.ts'
import { hashSecret } from '../domain/api-key.ts'
import { canonicalJson } from '../domain/canonical-json.ts'
import type { ClientName } from '../domain/client-name.ts'
import { pointFromCents } from '../domain/money.ts'
import { isOpen, isPaid } from '../domain/order-state.ts'
import { AppError, type ErrorExtra, withExtra, withMoneyOutcome } from '../errors.ts'
import { ProviderError, toAppError } from '../provider/provider.ts'
import {
  findIdempotencyKey,
  type IdempotencyScope,
  tieIdempotencyKey,
  untieIdempotencyKey,
} from '../repositories/idempotency-keys.ts'
import {
  findOpenOperation,
  findOperation,
  insertOperation,
  type OrderOperationRow,
} from '../repositories/order-operations.ts'
import { lockOrder, type OrderRow } from '../repositories/orders.ts'
import { auditFailure } from './activity.ts'
import { lookFirstMs } from './answer-time.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { firstOperationAttempt, operationInFlightMs } from './operation-ladder.ts'
import { outcomeOf } from './outcome.ts'
import { refreshOrder, requireOrderAnywhere } from './read-order.ts'
import { newSender } from './send-alone.ts'
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
    const known: ErrorExtra = { outcome: outcomeOf(found), retrySafe: false, orderId: found.id }
    return withMoneyOutcome(known, async () => {
      const identity = identify(found, request, idempotencyKey)
      const refunded = await refund(deps, found, request, identity, actor)
      // Told to nobody, it is not answered: the till that lost its connection will ask for the same again.
      if (identity.isBare && isHeard()) await untieIdempotencyKey(deps.database.db, identity.scope)
      return refunded
    })
  })
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

  const intent = await deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    // Whoever held the row until now may have made this very refund.
    const twin = await findEarlier(deps, trx, identity)
    if (twin && (twin.state === 'done' || !identity.isBare)) return { operation: twin, twin }
    const opened = await openRefund(deps, trx, locked, request)
    const tie = { ...identity, orderId: order.id, operationId: opened.operation.id }
    if (identity.isBare) await untieIdempotencyKey(trx, identity.scope)
    if (!(await tieIdempotencyKey(trx, identity.scope, { ...tie, createdAt: deps.now() }))) {
      throw conflictingKey()
    }
    return opened
  })
  const { operation } = intent
  if (operation.state === 'done') return answer(order, operation, true)
  const isFirst = 'isFirst' in intent && intent.isFirst
  const refunded = await refundAtProvider(deps, order, operation, 'api', actor, isFirst)
  return answer(refunded, operation, earlier !== undefined || 'twin' in intent)
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
  scope: IdempotencyScope
  fingerprint: string
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
    scope: { client: order.client, route, key: key ?? bareKey },
    fingerprint: hashSecret(canonicalJson({ ...request, orderId: order.id })),
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
  if (tie.fingerprint !== identity.fingerprint) throw conflictingKey()
  return operation
}

function conflictingKey(): AppError {
  return new AppError('IDEMPOTENCY_CONFLICT', { extra: { retrySafe: false } })
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
 * The intent of this refund: a new one (`isFirst`), or the equal one whose outcome is still unknown. `order` is the
 * locked row, so the sum is checked against what is refunded at this moment.
 */
async function openRefund(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  request: RefundRequest,
): Promise<{ operation: OrderOperationRow; isFirst: boolean }> {
  const type = request.amountCents === undefined ? 'total' : 'partial'
  const open = await findOpenOperation(trx, order.id, 'refund')
  if (open) {
    const isEqual =
      open.refund_type === type && (type === 'total' || open.amount_cents === request.amountCents)
    const isAbandoned = deps.now().getTime() - open.created_at.getTime() > operationInFlightMs
    if (isEqual && (open.state === 'unknown' || isAbandoned)) {
      return { operation: open, isFirst: false }
    }
    throw refuseRefund('REFUND_IN_PROGRESS', order, { outcome: 'unknown' })
  }
  if (order.status === 'refunded') throw refuseRefund('ORDER_ALREADY_REFUNDED', order)
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
  const operation = await insertOperation(trx, {
    id: randomUUID(),
    order_id: order.id,
    client: order.client,
    kind: 'refund',
    refund_type: type,
    amount_cents: amountCents,
    state: 'intent',
    mp_refund_id: null,
    provider_code: null,
    next_attempt_at: firstOperationAttempt(deps.now()),
    ...newSender(deps.now()),
    created_at: deps.now(),
    finished_at: null,
  })
  return { operation, isFirst: true }
}
