import { hash } from 'node:crypto'
import type { Db, Trx } from '../../db/database.ts'
import { canonicalJson } from '../../domain/json.ts'
import { erpFromCents, isOwn, pointFromCents } from '../../domain/money.ts'
import { chargedBack, isPaid } from '../../domain/order-state.ts'
import { providerKey, requestKey } from '../../domain/provider-names.ts'
import { AppError, type ErrorExtra, invalid } from '../../errors/app-error.ts'
import { isRefundUnderWay, moneyOutcome, type OrderInError } from '../../errors/money-outcome.ts'
import type { IdempotencyScope } from '../../repositories/orders/idempotency-keys.ts'
import type { OrderOperationRow } from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import {
  findRefundStart,
  insertRefund,
  linkRefund,
  listCasesOfPayments,
  type RefundStart,
} from '../../repositories/orders/refund-intents.ts'
import type { PaymentDeps } from '../deps.ts'
import {
  firstCheckAt,
  type NewLease,
  newLeaseColumns,
  newLeaseOf,
} from '../operations/send-lease.ts'
import {
  askedBy,
  type RequestContext,
  requireConnected,
  shortestCallMs,
  timeLeftMs,
} from '../request-context.ts'
import { type ReadOrder, requireOrder } from './read.ts'
import { refundStanding, refuseRefund } from './refund-errors.ts'

export type RefundRequest = {
  orderId: string
  /** Cents to refund; undefined for all that is left. */
  amountCents: number | undefined
}

/** The scope of the idempotency keys of refunds. */
const route = 'POST /orders/refund'

/** A requested refund, and what makes two requests the same refund. */
export type Asked = {
  /** As it was when the request arrived. */
  order: OrderRow
  request: RefundRequest
  context: RequestContext
  scope: IdempotencyScope
  fingerprint: string
  /** What repeated requests have in common, for the key at the provider. */
  requestKey: string
  /** The till sent no key. */
  isBare: boolean
}

/**
 * A till without a key repeats an equal request after an unknown outcome, perhaps after the refund was finished in the background. So a
 * refund without a key has one made of its content until it is answered; the next equal request is then a new refund. The space in it
 * keeps it apart from the keys of tills.
 */
export function identifyRefund(
  order: OrderRow,
  request: RefundRequest,
  key: string | undefined,
  context: RequestContext,
): Asked {
  const bareKey = `unanswered ${order.id} ${request.amountCents ?? 'total'}`
  return {
    order,
    request,
    context,
    scope: { client: order.client, route, key: key ?? bareKey },
    fingerprint: hash('sha256', canonicalJson({ ...request, orderId: order.id })),
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

/** After this time an equal refund without a key is a new one, even if the last one was not answered. */
const unansweredMs = 24 * 3600_000

export function readRefundStart(
  db: Db | Trx,
  { order, scope, requestKey: key }: Asked,
): Promise<RefundStart> {
  return findRefundStart(db, order.id, scope, key)
}

/** The refund of an earlier equal request; undefined when this one is new. */
export function earlierOf(
  deps: PaymentDeps,
  asked: Asked,
  { linked }: RefundStart,
): OrderOperationRow | undefined {
  if (!linked || linked.operation.state === 'refused') return undefined
  const ageMs = deps.now().getTime() - linked.at.getTime()
  if (asked.isBare && ageMs > unansweredMs) return undefined
  if (linked.fingerprint !== asked.fingerprint) throw conflictingKey(asked)
  return linked.operation
}

function conflictingKey({ order }: Asked): AppError {
  return new AppError('IDEMPOTENCY_CONFLICT', { extra: standing(order) })
}

/**
 * What a charge-back takes, or may take, is not refunded too: the shop would pay twice. A charge-back that only the read shows
 * counts like a stored one. Only a stored case that is won ends the refusal, for the cases that the read names, too.
 */
async function refuseDisputed(
  { database: { db } }: PaymentDeps,
  order: OrderRow,
  shown: ReadOrder['disputed'],
): Promise<void> {
  const own = order.payments.filter(isOwn)
  const numbers = own.flatMap(({ referenceId }) => referenceId ?? [])
  const cases = await listCasesOfPayments(db, order.client, numbers)
  const won = new Set(cases.filter(({ state }) => state === 'won').map(({ case_id: id }) => id))
  const isShown =
    shown !== undefined ||
    order.status_detail === chargedBack ||
    own.some(({ status }) => status === chargedBack)
  const isWon = won.size > 0 && (shown?.caseIds ?? []).every((id) => won.has(id))
  if (cases.length === won.size && (!isShown || isWon)) return
  throw new AppError('ORDER_NOT_REFUNDABLE', {
    message:
      'A charge-back of this sale is open or lost: the provider gives the money to the buyer',
    extra: refundStanding(order),
  })
}

type Intent = {
  /** As it was when the intent was written. */
  order: OrderRow
  operation: OrderOperationRow
  /** It was there already. */
  isTaken: boolean
  /** The lease of a new one. */
  newLease: NewLease | null
}

/** The intent of this request: a new one, or one that is there. Reads again when another request came between. */
export async function writeRefundIntent(
  deps: PaymentDeps,
  known: OrderRow,
  asked: Asked,
  seen: RefundStart,
  { isListRead, disputed }: { isListRead: boolean; disputed: ReadOrder['disputed'] },
): Promise<Intent> {
  const { db } = deps.database
  const { scope, fingerprint, isBare, context } = asked
  const link = { ...scope, fingerprint, isBare }
  for (let order = known, start = seen; ; ) {
    // A concurrent request may have made this refund.
    const duplicate = earlierOf(deps, asked, start)
    if (duplicate && (duplicate.state === 'done' || !isBare)) {
      return { order, operation: duplicate, isTaken: true, newLease: null }
    }
    if (order.denied_refunds !== asked.order.denied_refunds) throw deniedMeanwhile(order)
    const open = start.open && takeUp(deps, order, start.open, asked)
    if (open) {
      if (!(await linkRefund(db, open, link, deps.now()))) throw conflictingKey(asked)
      return { order, operation: open, isTaken: true, newLease: null }
    }
    await refuseDisputed(deps, order, disputed)
    await requireConnected(context, refundUndecided(order))
    if (timeLeftMs(deps, context) < shortestCallMs) throw tooSlow(order)
    const provenMs = performance.now()
    const before = isListRead ? JSON.stringify(order.refunds.map(({ id }) => id)) : null
    const refund = newRefund(deps, order, asked, start.repeated + 1)
    const row = { ...refund, refunds_before: before, asked_by: askedBy(context.actor) }
    const operation = await insertRefund(db, order, row, link)
    if (operation) {
      return { order, operation, isTaken: false, newLease: newLeaseOf(row, provenMs) }
    }
    order = await requireOrder(deps, order.client, order.id)
    start = await readRefundStart(db, asked)
  }
}

function tooSlow(order: OrderRow): AppError {
  return new AppError('PROVIDER_TIMEOUT', {
    message: 'The provider was too slow for the refund to begin; nothing was refunded',
    extra: { ...moneyOutcome('refundPutOff', order), orderId: order.id },
  })
}

/** A later refund of this order was refused; this one would contradict that answer. */
function deniedMeanwhile(order: OrderRow): AppError {
  return new AppError('SERVICE_UNAVAILABLE', {
    message: 'Another refund of this order was refused while this one waited; send it again',
    extra: { ...moneyOutcome('refundPutOff', order), orderId: order.id },
  })
}

/**
 * The open refund, when this request continues it: an equal one without a key, of unknown outcome. Refunds of different keys are different
 * refunds. Throws REFUND_IN_PROGRESS.
 */
function takeUp(
  deps: PaymentDeps,
  order: OrderRow,
  open: OrderOperationRow,
  { isBare, request: { amountCents } }: Asked,
): OrderOperationRow {
  const type = amountCents === undefined ? 'total' : 'partial'
  const isEqual =
    open.refund_type === type && (type === 'total' || open.amount_cents === amountCents)
  const isSentNow = open.sender_until !== null && open.sender_until > deps.now()
  if (isBare && isEqual && !isSentNow) return open
  throw inProgress(order)
}

/** A new intent. `insertRefund` checks the sum again, against what is refunded by then. */
function newRefund(
  deps: PaymentDeps,
  order: OrderRow,
  { request, requestKey: repeated }: Asked,
  number: number,
) {
  if (order.status === 'refunded') {
    throw isRefundUnderWay(order)
      ? inProgress(order)
      : refuseRefund('ORDER_ALREADY_REFUNDED', order)
  }
  if (!isPaid(order.status) && !order.paid_after_close)
    throw refuseRefund('ORDER_NOT_REFUNDABLE', order)
  const paidCents = order.paid_cents || order.amount_cents
  const leftCents = paidCents - order.refunded_cents
  if (leftCents <= 0) throw refuseRefund('ORDER_ALREADY_REFUNDED', order)
  const amountCents = request.amountCents ?? leftCents
  if (order.whole_amount && amountCents % 100 !== 0) throw centsRefused(order, amountCents)
  if (amountCents > leftCents) {
    throw new AppError('REFUND_AMOUNT_EXCEEDS', {
      message: `At most ${pointFromCents(leftCents)} is left to refund`,
      extra: refundStanding(order),
    })
  }
  const now = deps.now()
  return {
    id: providerKey(repeated, number),
    request_key: repeated,
    refund_type: request.amountCents === undefined ? ('total' as const) : ('partial' as const),
    amount_cents: amountCents,
    next_attempt_at: firstCheckAt(now),
    ...newLeaseColumns(now),
    created_at: now,
  }
}

/** A 422: the account of the order has no cents, so the provider would refuse the refund or round it. */
function centsRefused(order: OrderRow, amountCents: number): AppError {
  const data = { amount: erpFromCents(amountCents) }
  return invalid('amount', { code: 'REFUND_NOT_WHOLE', data }, refundStanding(order))
}

/** Another refund of this order is running; the same request may be sent again once it has ended. */
export function inProgress(order: OrderInError): AppError {
  return refuseRefund('REFUND_IN_PROGRESS', order, moneyOutcome('refundUndecided'))
}

export function standing(order: OrderInError): ErrorExtra {
  return { ...moneyOutcome('refundNotMade', order), orderId: order.id }
}

export function refundUndecided({ id }: OrderInError): ErrorExtra {
  return { ...moneyOutcome('refundUndecided'), orderId: id }
}
