import type { Db, Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { isClosedUnpaid } from '../../domain/order-state.ts'
import { attemptOfReference } from '../../provider/provider.ts'
import { findAdoptedOrders } from '../../repositories/orders/adopted-orders.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

/**
 * Adopted orders that this sale may have made, oldest first: equal in box and amount, with a reference that can have come
 * from its text ("A-2" from "A" too), and not ended without money. With `untied` only those adopted lately that no
 * Idempotency-Key of that route stands for.
 */
export async function findAdoptedSales(
  db: Db | Trx,
  client: ClientName,
  sale: { cajaId: string; externalReference: string; amountCents: number },
  untied?: { route: string; adoptedSince: Date },
): Promise<OrderRow[]> {
  // Which spelling the lost order was sent with nobody knows; what is not plain ASCII was encoded from that one.
  const { externalReference } = sale
  const spellings = [
    externalReference,
    externalReference.normalize('NFC'),
    externalReference.normalize('NFD'),
  ]
  const adopted = await findAdoptedOrders(db, client, sale, untied)
  return adopted.filter(
    (order) =>
      spellings.some(
        (text) => attemptOfReference(order.mp_external_reference, text) !== undefined,
      ) &&
      (order.paid_after_close || !isClosedUnpaid(order.status)),
  )
}
