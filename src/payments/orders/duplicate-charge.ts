import type { Db, Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { isClosedUnpaid, isOpen, isPaid } from '../../domain/order-state.ts'
import { attemptOfReference } from '../../domain/provider-names.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { findAdoptedOrders } from '../../repositories/orders/adopted-orders.ts'
import {
  findIdempotencyKey,
  linkIdempotencyKey,
} from '../../repositories/orders/idempotency-keys.ts'
import {
  findEqualOrder,
  findOrder,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import { findPos, lockPos } from '../../repositories/stores/store-queries.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { textIn } from '../../texts/texts.ts'
import type { PaymentDeps } from '../deps.ts'
import { isOwnStore, within } from '../request-context.ts'
import type { CashierAction } from './cashier-texts.ts'
import { cancelForgotten } from './choose-terminal.ts'
import { refreshOrder } from './read.ts'
import type { Conflict, Sale } from './sale.ts'

/** The scope of the idempotency keys of charges. */
export const route = 'POST /orders'

/** A replay does not wait long: the till can read the order, too. */
const replayReadMs = 5_000

/**
 * The earlier order of an equal request, after a status check: it may have been paid, canceled at the terminal or refunded in the
 * provider's panel since. Without an answer of the provider the stored state decides. An order with a requested cancel is
 * canceled first, and the request is then a new charge.
 */
export async function findEarlierNow(
  deps: PaymentDeps,
  sale: Sale,
): Promise<OrderRow | Conflict | undefined> {
  const { db } = deps.database
  await linkAdoptedOrder(deps, sale)
  const earlier = sale.guard ? await findEqual(deps, db, sale) : await findEarlier(deps, db, sale)
  if (!earlier || 'kind' in earlier) return earlier
  // Only the box was checked before. Who charges for another store learns nothing of this order.
  if (!isOwnStore(sale.context, earlier.sucursal_id)) return earlier
  const check = within(deps, sale.context, replayReadMs)
  if (isGivenUp(earlier)) await cancelForgotten(deps, earlier, check)
  else if (earlier.creation === 'confirmed') await refreshOrder(deps, earlier, check)
  return findEarlier(deps, db, sale)
}

/** The earlier order of an equal request; undefined when the request is a new charge. */
export async function findEarlier(
  deps: PaymentDeps,
  db: Db | Trx,
  sale: Sale,
): Promise<OrderRow | Conflict | undefined> {
  const { client, key } = sale
  if (key !== undefined) {
    const link = await findIdempotencyKey(db, { client, route, key })
    if (!link) return undefined
    const order = await findOrder(db, client, link.order_id)
    // A refused creation has no order to return: the key is free for the next attempt.
    if (!order || order.creation === 'refused') return undefined
    if (link.fingerprint !== sale.fingerprint) {
      return { kind: 'conflict', error: otherSale() }
    }
    return order
  }
  if (!sale.guard) return undefined
  const equal = await findEqual(deps, db, sale)
  if (equal && isCharged(equal)) {
    return { kind: 'conflict', error: alreadyPaid(equal) }
  }
  return equal
}

/** The key belongs to a sale of other content. */
export function otherSale(): AppError {
  return new AppError('IDEMPOTENCY_CONFLICT', { extra: moneyOutcome('chargeImpossible') })
}

/** An equal sale is paid. */
export function alreadyPaid({ id, status }: Pick<OrderRow, 'id' | 'status'>): AppError {
  const action: CashierAction = 'give_receipt'
  const cashier = (acceptLanguage: string | undefined) => ({
    message: textIn(preferredLanguage(acceptLanguage), 'cashier.paid_before'),
    action,
  })
  return new AppError('ORDER_ALREADY_PAID', {
    extra: { ...moneyOutcome('salePaidBefore'), orderId: id, status, cashier },
  })
}

/** Links an unknown key to the adopted order that it has probably made. */
export async function linkAdoptedOrder(deps: PaymentDeps, sale: Sale): Promise<void> {
  const { client, request, key } = sale
  if (key === undefined) return
  const { db } = deps.database
  const [adopted] = await findAdoptedSales(db, client, request, unlinked(deps))
  if (!adopted || (await findIdempotencyKey(db, { client, route, key }))) return
  const pos = await findPos(db, client, request.cajaId)
  await deps.database.transaction(async (trx) => {
    // The box is locked, so that only one of two keys gets the order.
    if (pos && (await lockPos(trx, client, pos.id))) await linkAdopted(deps, trx, sale)
  })
}

/**
 * The adopted order that is linked to this key now; undefined when none is left. A restored backup may lack the key of a charge,
 * and a repeat of it must not charge again. An order that ended without money is linked to no key. The caller must have locked
 * the box's row.
 */
async function linkAdopted(
  deps: PaymentDeps,
  trx: Trx,
  { client, request, key, fingerprint }: Sale,
): Promise<OrderRow | undefined> {
  if (key === undefined) return undefined
  const [order] = await findAdoptedSales(trx, client, request, unlinked(deps))
  if (!order) return undefined
  const link = { fingerprint, orderId: order.id, operationId: null, createdAt: deps.now() }
  return (await linkIdempotencyKey(trx, { client, route, key }, link)) ? order : undefined
}

/** After this time an equal charge under another key is a new charge. */
const adoptedLatelyMs = 24 * 3600_000

function unlinked(deps: PaymentDeps): { route: string; adoptedSince: Date } {
  return { route, adoptedSince: new Date(deps.now().getTime() - adoptedLatelyMs) }
}

/** The provider ends an order at its expiry. One that it still shows as open a day later does not answer a new request. */
const openAtMostMs = 24 * 3600_000

/** The order of equal content that is charged; without one, the order that may still be. */
async function findEqual(
  deps: PaymentDeps,
  db: Db | Trx,
  { client, request }: Sale,
): Promise<OrderRow | undefined> {
  const endedBefore = new Date(deps.now().getTime() - openAtMostMs)
  const equal = await findEqualOrder(db, client, request, endedBefore)
  if (equal && isCharged(equal)) return equal
  // An adopted order may have another reference text.
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

/** Its cancel was requested: the customer must not be sent to the terminal for it. */
export function isGivenUp(order: OrderRow): boolean {
  return order.status === 'created' && order.cancel_requested_at !== null
}

/**
 * Adopted orders that this charge may have made, oldest first: equal in box and amount, and not ended without money. The
 * reference must be one that its text can produce ("A-2" from "A" too). With `unlinked`: only recently adopted ones that have no
 * Idempotency-Key of that route.
 */
async function findAdoptedSales(
  db: Db | Trx,
  client: ClientName,
  sale: { cajaId: string; externalReference: string; amountCents: number },
  unlinked?: { route: string; adoptedSince: Date },
): Promise<OrderRow[]> {
  // The Unicode form in which the lost order was sent is unknown. Text outside plain ASCII was encoded from that form.
  const { externalReference } = sale
  const spellings = [
    externalReference,
    externalReference.normalize('NFC'),
    externalReference.normalize('NFD'),
  ]
  const adopted = await findAdoptedOrders(db, client, sale, unlinked)
  return adopted.filter(
    (order) =>
      spellings.some(
        (text) => attemptOfReference(order.mp_external_reference, text) !== undefined,
      ) &&
      (order.paid_after_close || !isClosedUnpaid(order.status)),
  )
}
