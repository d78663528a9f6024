import type { ClientName } from '../../domain/client-name.ts'
import { listUnpaidWithPayment } from '../../repositories/unclaimed-payments/surplus-payments.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceContext } from '../operations/request-context.ts'
import { refreshOrder } from '../orders/read.ts'

/** A shop whose payments cannot be read is skipped for an hour at most. */
const changedWithinMs = 6 * 3_600_000

/**
 * Reads orders again that ended without a payment and now have an approved one at the provider: their webhook may be lost, and no
 * other job reads them. Each is read once for each change of the payment.
 */
export async function readLatePayments(
  deps: PaymentDeps,
  client: ClientName,
  signal: AbortSignal,
): Promise<void> {
  const since = new Date(deps.now().getTime() - changedWithinMs)
  for (const order of await listUnpaidWithPayment(deps.database.db, client, since)) {
    if (signal.aborted) return
    await refreshOrder(deps, order, serviceContext(deps, 'search'))
  }
}
