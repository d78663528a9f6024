import type { FastifyRequest } from 'fastify'
import type { Db } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { Confinement, StoresSeen } from '../../domain/permissions.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { findChargebackAnyhow } from '../../repositories/chargebacks/chargeback-queries.ts'
import { findClosing } from '../../repositories/closings/closing-queries.ts'
import { findOrder } from '../../repositories/orders/order-queries.ts'
import { findPos } from '../../repositories/stores/store-queries.ts'
import { findOrphan } from '../../repositories/unclaimed-payments/unclaimed-queries.ts'

/** The stores of the person who asks; undefined for keys, the administrator, and people without such a limit. */
export function storesOfRequest({ principal }: FastifyRequest): StoresSeen {
  return principal?.person?.stores ?? undefined
}

/**
 * Refuses what names a thing of another store, as the product answers for what is not there.
 *
 * @throws NOT_FOUND
 */
export async function requireStoreAccess(
  db: Db,
  request: FastifyRequest,
  client: ClientName,
  within: Confinement,
): Promise<void> {
  const stores = storesOfRequest(request)
  if (!stores || within === 'list' || within === 'anything') return
  const store = await storeNamed(db, request, client, within)
  // What is not there at all gets the answer of its route.
  if (store === undefined) return
  if (store === null || !stores.includes(store)) {
    // Only a charge names a box on a route that moves money.
    const extra = request.routeOptions.config.money && within === 'box'
    throw new AppError('NOT_FOUND', {
      message: missing[within],
      ...(extra && { extra: moneyOutcome('chargeNotMade') }),
    })
  }
}

const missing: Readonly<Record<Exclude<Confinement, 'list' | 'anything'>, string>> = {
  order: 'There is no such order',
  closing: 'There is no such closing',
  orphan: 'There is no such charge',
  chargeback: 'There is no such charge-back',
  box: 'There is no such box; check caja_id',
  store: 'There is no such store',
}

/** The id of the store of what the request names; null where it has none, undefined where it is not there. */
async function storeNamed(
  db: Db,
  request: FastifyRequest,
  client: ClientName,
  within: Exclude<Confinement, 'list' | 'anything'>,
): Promise<string | null | undefined> {
  const given = { ...(request.body as object | null), ...(request.params as object) } as Record<
    string,
    string | undefined
  >
  switch (within) {
    case 'order':
      return (await findOrder(db, client, given.orderId ?? given.order_id ?? ''))?.sucursal_id
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
