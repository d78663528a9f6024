import type { ClientName } from '../../domain/client-name.ts'
import { AppError } from '../../errors/app-error.ts'
import { asAppError, type ProviderOperation } from '../../provider/provider.ts'
import type { PaymentDeps } from '../deps.ts'
import { type Access, withAccess } from './access.ts'

/** A client and the account at the provider that its shop sells with. */
export type Shop = { client: ClientName; mpUserId: number }

/** The longest wait for one answer in the background. */
const callWithinMs = 15_000

/** Calls the provider for a client. A failure of the provider is thrown as the error of this operation. */
export function callForClient<T>(
  deps: PaymentDeps,
  client: ClientName,
  operation: ProviderOperation,
  call: (access: Access) => Promise<T>,
): Promise<T> {
  return withAccess(deps, client, call).catch((error: unknown) => {
    throw asAppError(error, operation)
  })
}

/**
 * Calls the provider about things of one account. Another account of the client says nothing about them.
 *
 * @throws ACCOUNT_MISMATCH
 */
export function callForShop<T>(
  deps: PaymentDeps,
  { client, mpUserId }: Shop,
  call: (token: string, options: { untilMs: number; signal?: AbortSignal }) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  return withAccess(deps, client, async (access) => {
    if (access.mpUserId !== mpUserId) throw new AppError('ACCOUNT_MISMATCH')
    return call(access.token, {
      untilMs: deps.stopwatch() + callWithinMs,
      ...(signal && { signal }),
    })
  })
}
