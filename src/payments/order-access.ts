import { AppError } from '../errors.ts'
import type { CallAbout } from '../provider/provider.ts'
import type { OrderRow } from '../repositories/orders.ts'
import type { EvidenceSource } from './apply-evidence.ts'
import type { PaymentDeps } from './deps.ts'
import { type Access, withAccess } from './token-keeper.ts'

/**
 * Calls the provider about an order with the account that the order was made on. After a client was connected to
 * another account that one's answers say nothing: its "not found" is no proof, and a key sent there would charge again.
 *
 * Throws ACCOUNT_MISMATCH, OAUTH_NOT_CONNECTED, CONNECTION_LOST, or whatever the call throws.
 */
export function withOrderAccess<T>(
  deps: PaymentDeps,
  order: Pick<OrderRow, 'client' | 'mp_user_id'>,
  call: (access: Access) => Promise<T>,
): Promise<T> {
  return withAccess(deps, order.client, async (access) => {
    if (access.mpUserId !== order.mp_user_id) {
      throw new AppError('ACCOUNT_MISMATCH', {
        message: 'The order belongs to the provider account that the client had before',
      })
    }
    return call(access)
  })
}

/** What the records say of a call to the provider about an order. */
export function aboutOrder(
  { client, id }: Pick<OrderRow, 'client' | 'id'>,
  source: EvidenceSource,
): CallAbout {
  return { client, orderId: id, source }
}
