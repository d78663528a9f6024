import type { Db, Trx } from '../../db/database.ts'
import { hashSecret } from '../../domain/api-key.ts'
import { canonicalJson } from '../../domain/canonical-json.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { PaymentMethod } from '../../domain/order.ts'
import { isOpen, isPaid } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import {
  findIdempotencyKey,
  tieIdempotencyKey,
} from '../../repositories/orders/idempotency-keys.ts'
import {
  findEqualOrder,
  findOrder,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import { findPos, lockPos } from '../../repositories/stores/store-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { type RequestContext, within } from '../operations/request-context.ts'
import { cancelForgotten } from '../terminals/choose-terminal.ts'
import { findAdoptedSales } from './adopted-sales.ts'
import { refreshOrder } from './read.ts'

export type OrderRequest = {
  cajaId: string
  externalReference: string
  amountCents: number
  description: string | null
  ticketNumber: string | null
  printTicket: boolean
  paymentMethod: PaymentMethod
  expirationMinutes: number
}

export const route = 'POST /orders'

/** A sale as a till asks for it, and what makes two requests the same sale. */
export type Sale = {
  client: ClientName
  request: OrderRequest
  context: RequestContext
  key: string | undefined
  fingerprint: string
  /** Equal content counts as the same charge. */
  guard: boolean
  /** The same request again is the same charge, by its key or by its content. */
  repeatable: boolean
  /** The order that stands for it, as soon as there is one: for an answer that cannot wait for the end. */
  order: OrderRow | undefined
}

export function asSale(
  deps: PaymentDeps,
  client: ClientName,
  request: OrderRequest,
  key: string | undefined,
  context: RequestContext,
): Sale {
  const guard = key === undefined && deps.settings.duplicateOrderGuard
  return {
    client,
    request,
    context,
    key,
    // The same text in another Unicode form is no other content.
    fingerprint: hashSecret(canonicalJson(request).normalize('NFC')),
    guard,
    repeatable: guard || key !== undefined,
    order: undefined,
  }
}

/** A till that asks again must not wait long for what it can also read. */
const replayReadMs = 5_000

/**
 * The order that this request has made before, after it was read at the provider: since anybody looked it may have been paid, have ended on the terminal,
 * or have been refunded in the provider's panel. When the provider is silent the local state decides. One that its cashier gave up while the provider was
 * silent is canceled first, as he wished: the charge he asks for now is another one.
 */
export async function findEarlierNow(deps: PaymentDeps, sale: Sale): Promise<OrderRow | undefined> {
  const { db } = deps.database
  await claimAdopted(deps, sale)
  const earlier = sale.guard ? await findEqual(deps, db, sale) : await findEarlier(deps, db, sale)
  if (!earlier) return undefined
  const look = within(deps, sale.context, replayReadMs)
  if (isGivenUp(earlier)) await cancelForgotten(deps, earlier, look)
  else if (earlier.creation === 'confirmed') await refreshOrder(deps, earlier, look)
  return findEarlier(deps, db, sale)
}

/** The order that this request has made before; undefined when it is a new charge. */
export async function findEarlier(
  deps: PaymentDeps,
  db: Db | Trx,
  sale: Sale,
): Promise<OrderRow | undefined> {
  const { client, key } = sale
  if (key !== undefined) {
    const tie = await findIdempotencyKey(db, { client, route, key })
    if (!tie) return undefined
    const order = await findOrder(db, client, tie.order_id)
    // A creation that the provider refused has no answer to repeat: the key is free for the next attempt.
    if (!order || order.creation === 'refused') return undefined
    if (tie.fingerprint !== sale.fingerprint) {
      throw new AppError('IDEMPOTENCY_CONFLICT', {
        extra: moneyOutcome('chargeImpossible'),
      })
    }
    return order
  }
  if (!sale.guard) return undefined
  const equal = await findEqual(deps, db, sale)
  if (equal && isCharged(equal)) {
    throw new AppError('ORDER_ALREADY_PAID', {
      extra: { ...moneyOutcome('salePaidBefore'), orderId: equal.id, status: equal.status },
    })
  }
  return equal
}

/** Ties a key that nobody knows to the adopted order that it may well have made. */
export async function claimAdopted(deps: PaymentDeps, sale: Sale): Promise<void> {
  const { client, request, key } = sale
  if (key === undefined) return
  const { db } = deps.database
  const [adopted] = await findAdoptedSales(db, client, request, untied(deps))
  if (!adopted || (await findIdempotencyKey(db, { client, route, key }))) return
  const pos = await findPos(db, client, request.cajaId)
  await deps.database.transaction(async (trx) => {
    // In line with every other sale of the box: of two keys one gets the order.
    if (pos && (await lockPos(trx, client, pos.id))) await tieAdopted(deps, trx, sale)
  })
}

/**
 * The adopted order that this key now stands for; undefined when there is none left. A till that repeats a sale of which a
 * restored backup has lost the key must not charge again. One that ended without money may be any sale's: it is nobody's.
 * The box's row must be locked.
 */
async function tieAdopted(
  deps: PaymentDeps,
  trx: Trx,
  { client, request, key, fingerprint }: Sale,
): Promise<OrderRow | undefined> {
  if (key === undefined) return undefined
  const [order] = await findAdoptedSales(trx, client, request, untied(deps))
  if (!order) return undefined
  const tie = { fingerprint, orderId: order.id, operationId: null, createdAt: deps.now() }
  return (await tieIdempotencyKey(trx, { client, route, key }, tie)) ? order : undefined
}

/** From then on an equal sale under a key of its own is taken for another one. */
const adoptedLatelyMs = 24 * 3600_000

function untied(deps: PaymentDeps): { route: string; adoptedSince: Date } {
  return { route, adoptedSince: new Date(deps.now().getTime() - adoptedLatelyMs) }
}

/** The provider ends an order at its time; one that it still shows as open a day later answers no new request. */
const openAtMostMs = 24 * 3600_000

/** The order of equal content that is charged, or else the one that still may be. */
async function findEqual(
  deps: PaymentDeps,
  db: Db | Trx,
  { client, request }: Sale,
): Promise<OrderRow | undefined> {
  const endedBefore = new Date(deps.now().getTime() - openAtMostMs)
  const equal = await findEqualOrder(db, client, request, endedBefore)
  if (equal && isCharged(equal)) return equal
  // One that was adopted may stand under another text.
  const adopted = await findAdoptedSales(db, client, request)
  return (
    adopted.find(isCharged) ??
    equal ??
    adopted.find(({ status, expires_at }) => isOpen(status) && expires_at >= endedBefore)
  )
}

function isCharged(order: OrderRow): boolean {
  const hasLatePayment = order.paid_after_close && order.refunded_cents < order.paid_cents
  return isPaid(order.status) || hasLatePayment
}

/** Its till has given it up: the customer must not be sent to the terminal for it. */
export function isGivenUp(order: OrderRow): boolean {
  return order.status === 'created' && order.cancel_requested_at !== null
}
