import { randomUUID } from 'node:crypto'
import type { Db, Trx } from '../db/database.ts'
import { hashSecret } from '../domain/api-key.ts'
import { canonicalJson } from '../domain/canonical-json.ts'
import type { ClientName } from '../domain/client-name.ts'
import { pointFromCents } from '../domain/money.ts'
import type { OrderEvidence } from '../domain/order.ts'
import { isPaid } from '../domain/order-state.ts'
import { AppError, type ErrorCode, type ErrorExtra, withMoneyOutcome } from '../errors.ts'
import { ProviderError, type RefundAnswer, toAppError } from '../provider/provider.ts'
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
  listOperations,
  type OrderOperationRow,
  settleOperation,
} from '../repositories/order-operations.ts'
import { lockOrder, type OrderRow } from '../repositories/orders.ts'
import { auditFailure, recordSuccess } from './activity.ts'
import { applyEvidence, type EvidenceSource } from './apply-evidence.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import {
  firstOperationAttempt,
  nextUnknownAttempt,
  operationInFlightMs,
} from './operation-ladder.ts'
import { withOrderAccess } from './order-access.ts'
import { outcomeOf } from './outcome.ts'
import { refreshOrder, requireOrder } from './read-order.ts'
import { newSender, sendAlone } from './send-alone.ts'
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
    const found = await requireOrder(deps, client, request.orderId)
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

  const { order, stale } = await refreshOrder(deps, found, 'api')
  if (order.creation === 'intent' || order.creation === 'unknown') {
    throw unknownCreation(order, undefined)
  }
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
    throw refuse('REFUND_IN_PROGRESS', order, { outcome: 'unknown' })
  }
  if (order.status === 'refunded') throw refuse('ORDER_ALREADY_REFUNDED', order)
  if (!isPaid(order.status) && !order.paid_after_close) throw refuse('ORDER_NOT_REFUNDABLE', order)
  const paidCents = Math.max(order.paid_cents, order.amount_cents)
  const leftCents = paidCents - order.refunded_cents
  if (leftCents <= 0) throw refuse('ORDER_ALREADY_REFUNDED', order)
  const amountCents = request.amountCents ?? leftCents
  if (amountCents > leftCents) {
    throw new AppError('REFUND_AMOUNT_EXCEEDS', {
      message: `At most ${pointFromCents(leftCents)} is left to refund`,
      extra: known(order),
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

function known(order: OrderRow): ErrorExtra {
  return { outcome: outcomeOf(order), retrySafe: false, orderId: order.id, status: order.status }
}

function refuse(code: ErrorCode, order: OrderRow, extra: ErrorExtra = {}): AppError {
  return new AppError(code, { extra: { ...known(order), ...extra } })
}

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
    const until = performance.now() + waitForOtherMs
    for (;;) {
      const held = isFirst ? operation.sender : null
      const row = { table: 'order_operations' as const, id: operation.id }
      const sent = await sendAlone(deps, row, held, (sender) =>
        sendRefund(deps, order, operation, source, actor, { isFirst, sender }),
      )
      if (sent) return sent.result
      const waits = source === 'api' && performance.now() < until
      if (!waits) throw refuse('REFUND_IN_PROGRESS', order, { outcome: 'unknown' })
      await deps.changes.wait(order.id, lookAgainMs)
    }
  })
}

/** How long a request waits for another process that is making its refund, and how often it looks. */
const waitForOtherMs = 20_000
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
    throw refuse('ORDER_NOT_REFUNDABLE', order)
  }
  const partial = isWhole || !payment ? null : { paymentId: payment.id, amountCents }
  try {
    const given = await withOrderAccess(deps, order, (access) =>
      deps.provider.orders.refund(access.token, mpOrderId, operation.id, partial),
    )
    const recorded = await recordRefund(deps, operation, given, source, actor)
    // An answer that does not show the refund leaves its sum to the provider's own books.
    const isShown = given.refunds.length > 0
    return isShown ? recorded : (await refreshOrder(deps, recorded, source)).order
  } catch (error) {
    if (error instanceof ProviderError) {
      // Perhaps by our own earlier call, whose answer was lost: the provider's books tell.
      if (!isFirst && error.providerCode === 'order_already_refunded') {
        const read = await refreshOrder(deps, order, source)
        if (!read.stale && (await settleRefundByReading(deps, read.order, operation, actor))) {
          return read.order
        }
      }
      throw await refundRefused(deps, order, operation, error, { isFirst, sender })
    }
    // Nothing was sent (no connection): the till is told so, and nobody gives the money back behind its back.
    if (error instanceof AppError && isFirst) {
      await refuseOperation(deps, operation, error.code)
    }
    throw error
  }
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

/** The refund in the answer that the order did not have before; the last one when the provider repeats itself. */
function newRefundId(order: OrderRow, given: RefundAnswer): string | null {
  const before = new Set(order.refunds.map((refund) => refund.id))
  const fresh = given.refunds.filter((refund) => !before.has(refund.id))
  return (fresh.at(-1) ?? given.refunds.at(-1))?.id ?? null
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
  const before = new Set(order.refunds.map((refund) => refund.id))
  const fresh = given.refunds.filter((refund) => !before.has(refund.id))
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

async function refuseOperation(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  providerCode: string,
): Promise<void> {
  await deps.database.transaction((trx) =>
    settleOperation(trx, operation.id, { state: 'refused', providerCode, finishedAt: deps.now() }),
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
