import { AppError } from '../../errors/app-error.ts'
import type { CallOptions } from '../../provider/provider.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { type KnownConnection, withAccess } from '../connection/token-keeper.ts'
import type { PaymentDeps } from '../deps.ts'
import type { RequestContext } from '../operations/request-context.ts'

/** Options of a call about an order: for the log, and the deadline. */
type OrderCall<T> = (token: string, options: CallOptions) => Promise<T>

/**
 * Calls the provider about an order with the account that the order was made on. Another account's "not found" proves nothing, and a key
 * sent there would charge again.
 * @throws ACCOUNT_MISMATCH, OAUTH_NOT_CONNECTED, CONNECTION_LOST, or the error of the call.
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
