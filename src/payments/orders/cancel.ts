import type { ClientName } from '../../domain/client-name.ts'
import {
  holdsTerminal,
  isCancelRequested,
  isOpen,
  isResultUnknown,
} from '../../domain/order-state.ts'
import { AppError, addOutcome } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { auditFailure } from '../audit/activity.ts'
import type { KnownConnection } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import { byDeadline, type RequestContext, readFirstMs, within } from '../request-context.ts'
import { type LoadedOrder, refreshOrder, requireOrderAnywhere } from './read.ts'
import { cancelAtProvider, canceledOrNot, notCancelable, noteCancelRequest } from './send-cancel.ts'
import { unknownCreation } from './send-charge.ts'

/**
 * Cancels an order that waits for its terminal, or asks the terminal that shows it to cancel it: such an order is returned unchanged,
 * since the terminal may still take the payment. A repeated cancel is answered like the first one.
 *
 * @throws NOT_FOUND, ORDER_AT_TERMINAL, ORDER_NOT_CANCELABLE, PROVIDER_TIMEOUT (the request is stored: the order is canceled
 * as soon as it is found), OAUTH_NOT_CONNECTED, CONNECTION_LOST, PROVIDER_REJECTED, PROVIDER_ERROR.
 */
export async function cancelOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  context: RequestContext,
): Promise<OrderRow> {
  const entry = { client, actor: context.actor, action: 'order.canceled', resourceId: id }
  return auditFailure(deps, entry, () => findAndCancel(deps, client, id, context))
}

async function findAndCancel(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  context: RequestContext,
): Promise<OrderRow> {
  const loaded = await requireOrderAnywhere(deps, client, id, context)
  const orderId = loaded.order.id
  const work = cancel(deps, loaded, context).catch((error: unknown) => {
    throw addOutcome(error, { ...moneyOutcome('cancelUndecided'), orderId })
  })
  const order = await byDeadline(deps, context, work)
  if (order) return order
  throw new AppError('PROVIDER_TIMEOUT', { extra: { ...moneyOutcome('cancelLate'), orderId } })
}

async function cancel(
  deps: PaymentDeps,
  { order: found, known }: LoadedOrder,
  context: RequestContext,
): Promise<OrderRow> {
  const order = isOpen(found.status) ? await readForCancel(deps, found, context, known) : found
  // The provider cannot cancel it any more. The cashier has checked the terminal, so an equal sale may begin.
  if (order.status === 'action_required') {
    throw notCancelable(await noteCancelRequest(deps, order))
  }
  if (isCancelRequested(order)) return order
  if (!holdsTerminal(order.status)) return canceledOrNot(order)
  return cancelAtProvider(deps, order, context, known)
}

/** Reads the order's state at the provider. When its creation is unknown, the request to cancel is stored first. */
async function readForCancel(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  known: KnownConnection | undefined,
): Promise<OrderRow> {
  const noted = order.creation === 'confirmed' ? order : await noteCancelRequest(deps, order)
  const read = await refreshOrder(deps, noted, within(deps, context, readFirstMs), { known })
  if (isResultUnknown(read.order.creation)) {
    throw unknownCreation(read.order, undefined)
  }
  return read.order
}
