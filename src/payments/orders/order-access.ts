import { AppError } from '../../errors/app-error.ts'
import type { CallOptions } from '../../provider/provider.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { type KnownConnection, withAccess } from '../connection/token-keeper.ts'
import type { PaymentDeps } from '../deps.ts'
import type { RequestContext } from '../operations/request-context.ts'

/** What every call about an order carries: its token, what the records say of it, and when it must be over. */
type OrderCall<T> = (token: string, options: CallOptions) => Promise<T>

/**
 * Calls the provider about an order with the account that the order was made on. After a client was connected to
 * another account that one's answers say nothing: its "not found" is no proof, and a key sent there would charge again.
 *
 * Throws ACCOUNT_MISMATCH, OAUTH_NOT_CONNECTED, CONNECTION_LOST, or whatever the call throws.
 */
export function withOrderAccess<T>(
  deps: PaymentDeps,
  { client, id, mp_user_id }: Pick<OrderRow, 'client' | 'id' | 'mp_user_id'>,
  { source, untilMs }: RequestContext,
  call: OrderCall<T>,
  known?: KnownConnection,
): Promise<T> {
  const options = { about: { client, orderId: id, source }, untilMs }
  return withAccess(
    deps,
    client,
    async ({ token, mpUserId }) => {
      if (mpUserId === mp_user_id) return call(token, options)
      throw new AppError('ACCOUNT_MISMATCH', {
        message: 'The order belongs to the provider account that the client had before',
      })
    },
    { known, untilMs },
  )
}
