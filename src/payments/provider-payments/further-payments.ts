import type { Db, Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { findOrderOfAnyClient, type OrderRow } from '../../repositories/orders/order-queries.ts'
import {
  hasOpenSurplus,
  listOrdersToSeparate,
  listUnpaidWithPayment,
  separateSurplus,
} from '../../repositories/unclaimed-payments/further-payment-queries.ts'
import type { OrphanRow } from '../../repositories/unclaimed-payments/unclaimed-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { refreshOrder } from '../orders/read.ts'
import { moveOrder } from '../orders/state.ts'
import { furtherPaymentNote } from '../orders/state-from-provider.ts'
import { serviceContext } from '../request-context.ts'
import { updateNetAmounts } from '../settlements/update-net-amounts.ts'

/**
 * A shop whose payments cannot be read is skipped for an hour at most; older ones are handled when their payments are read again.
 */
const reachMs = 6 * 3_600_000

/** Separates further payments from orders that were read again after their payments. */
export async function separateLateSurplus(deps: PaymentDeps, client: ClientName): Promise<void> {
  const { db } = deps.database
  const since = new Date(deps.now().getTime() - reachMs)
  const ids = await listOrdersToSeparate(db, client, since)
  if (ids.length === 0) return
  await deps.database.transaction(async (trx) => {
    await separateFurtherPayments(deps, trx, client, ids)
    await updateNetAmounts(trx, ids)
  })
}

/** Separates further payments from their orders. An order that names all of its payments by now needs no decision any more. */
export async function separateFurtherPayments(
  deps: PaymentDeps,
  trx: Trx,
  client: ClientName,
  orderIds: readonly string[],
): Promise<void> {
  const { linkedAgain, openAgain } = await separateSurplus(trx, client, orderIds, deps.now())
  for (const id of openAgain) await openSurplus(deps, trx, { surplus_of: id })
  for (const id of linkedAgain) {
    await endSurplus(deps, trx, { surplus_of: id }, 'the order names this payment as its own')
  }
}

/** Makes the order of a further payment wait for a decision. Returns the order when it has changed. */
export function openSurplus(
  deps: PaymentDeps,
  trx: Trx,
  orphan: Pick<OrphanRow, 'surplus_of'>,
): Promise<OrderRow | undefined> {
  return setSurplus(deps, trx, orphan, 'open', furtherPaymentNote)
}

/** Ends that wait, once no further payment of the order is without a decision. */
export async function endSurplus(
  deps: PaymentDeps,
  trx: Trx,
  orphan: Pick<OrphanRow, 'surplus_of'>,
  note = 'a person decided about the further payment',
): Promise<OrderRow | undefined> {
  if (orphan.surplus_of === null || (await hasOpenSurplus(trx, orphan.surplus_of))) return undefined
  return setSurplus(deps, trx, orphan, 'decided', note)
}

async function setSurplus(
  deps: PaymentDeps,
  db: Db | Trx,
  { surplus_of: id }: Pick<OrphanRow, 'surplus_of'>,
  surplus: 'open' | 'decided',
  note: string,
): Promise<OrderRow | undefined> {
  const known = id === null ? undefined : await findOrderOfAnyClient(db, id)
  if (!known) return undefined
  const event = { kind: 'further_payment' as const, surplus, note }
  const { order, changed } = await moveOrder(deps, db, known, 'search', event)
  return changed ? order : undefined
}

/**
 * Reads orders again that ended without a payment and now have an approved one at the provider: their webhook may be lost, and no
 * other job reads them. Each is read once for each change of the payment.
 */
export async function readLatePayments(
  deps: PaymentDeps,
  client: ClientName,
  signal: AbortSignal,
): Promise<void> {
  const since = new Date(deps.now().getTime() - reachMs)
  for (const order of await listUnpaidWithPayment(deps.database.db, client, since)) {
    if (signal.aborted) return
    await refreshOrder(deps, order, serviceContext(deps, 'search'))
  }
}
