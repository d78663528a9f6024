import type { FastifyRequest } from 'fastify'
import type { ClientName } from '../domain/client-name.ts'
import type { Confinement, StoresSeen } from '../domain/permissions.ts'
import { AppError } from '../errors/app-error.ts'
import { moneyOutcome } from '../errors/money-outcome.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { requireOrderAnywhere } from '../payments/orders/read.ts'
import type { RequestContext } from '../payments/request-context.ts'
import { findChargebackAnyhow } from '../repositories/chargebacks/chargeback-queries.ts'
import { findClosing } from '../repositories/closings/closing-queries.ts'
import { findOrder } from '../repositories/orders/order-queries.ts'
import { findPos } from '../repositories/stores/store-queries.ts'
import { findOrphan } from '../repositories/unclaimed-payments/unclaimed-queries.ts'

/** The stores of the person who asks; undefined for keys, the administrator, and people without such a limit. */
export function storesOfRequest({ principal }: FastifyRequest): StoresSeen {
  return principal?.person?.stores ?? undefined
}

/** What a request names, whose store is looked up. */
type Named = Exclude<Confinement, 'all_stores' | 'list' | 'anything'>

/**
 * Refuses what names a thing of another store, as the product answers for what is not there. A thing that is not there is refused
 * here too: it may be made or found between this check and the handler.
 *
 * @throws NOT_FOUND, and SERVICE_UNAVAILABLE when the provider cannot be asked for the order
 */
export async function requireStoreAccess(
  deps: PaymentDeps,
  request: FastifyRequest,
  client: ClientName,
  within: Confinement,
  context: RequestContext,
): Promise<void> {
  const stores = storesOfRequest(request)
  if (!stores || within === 'list' || within === 'anything') return
  if (within === 'all_stores') throw new AppError('FORBIDDEN')
  const store = await storeNamed(deps, request, client, within, context)
  // Only a charge names a box on a route that moves money.
  const isCharge = request.routeOptions.config.money !== undefined && within === 'box'
  // `createOrder` checks the box and every earlier order of an equal request, and says whether money moved.
  if (store === undefined && isCharge) return
  if (store === undefined || store === null || !stores.includes(store)) {
    throw new AppError('NOT_FOUND', {
      message: missing[within],
      ...(isCharge && { extra: moneyOutcome('chargeNotMade') }),
    })
  }
}

const missing: Readonly<Record<Named, string>> = {
  order: 'There is no such order',
  order_or_adopted: 'There is no such order',
  closing: 'There is no such closing',
  orphan: 'There is no such charge',
  chargeback: 'There is no such charge-back',
  box: 'There is no such box; check caja_id',
  store: 'There is no such store',
}

/** The id of the store of what the request names; null where it has none, undefined where it is not there. */
async function storeNamed(
  deps: PaymentDeps,
  request: FastifyRequest,
  client: ClientName,
  within: Named,
  context: RequestContext,
): Promise<string | null | undefined> {
  const { db } = deps.database
  const given = { ...(request.body as object | null), ...(request.params as object) } as Record<
    string,
    string | undefined
  >
  const orderId = given.orderId ?? given.order_id ?? ''
  switch (within) {
    case 'order':
      return (await findOrder(db, client, orderId))?.sucursal_id
    case 'order_or_adopted':
      return (await requireOrderAnywhere(deps, client, orderId, context)).order.sucursal_id
    case 'closing':
      return (await findClosing(db, client, given.closingId ?? ''))?.sucursal_id
    case 'orphan':
      return (await findOrphan(db, client, given.orphanId ?? ''))?.sucursal_id
    case 'chargeback':
      return (await findChargebackAnyhow(db, client, given.chargebackId ?? ''))?.sucursal_id
    case 'box':
      return given.caja_id === undefined
        ? given.sucursal_id
        : (await findPos(db, client, given.caja_id))?.store_external_id
    case 'store':
      return given.storeExternalId
  }
}
