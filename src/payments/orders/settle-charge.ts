import type { ClientName } from '../../domain/client-name.ts'
import { type Decision, decisionOf, isOpen } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  type OrderRow,
  type SettledOutcome,
  saveSettledOutcome,
} from '../../repositories/orders/order-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { PaymentDeps } from '../deps.ts'
import type { RequestContext } from '../operations/request-context.ts'
import { type ReadOrder, refreshOrder, requireOrder } from './read.ts'

/**
 * Makes a status check of an order now, for a person who does not want to wait for the next one.
 *
 * @throws NOT_FOUND
 */
export async function askAboutOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  context: RequestContext,
): Promise<ReadOrder> {
  const entry = entryOf(client, id, context, 'order.asked')
  return auditFailure(deps, entry, async () => {
    const order = await requireOrder(deps, client, id)
    const read = await refreshOrder(deps, order, context, { isOwn: true })
    const metadata = { status: read.order.status, answered: !read.stale }
    await deps.database.transaction((trx) =>
      recordSuccess(deps, trx, { ...entry, resourceId: order.id, metadata }),
    )
    return read
  })
}

/**
 * Stores a person's decision on an order in doubt. It moves no state: `outcome` stays what is proven, and later evidence still
 * counts. From then on nothing is sent that could make the charge, and the order blocks neither box nor terminal. One that was
 * not paid does not block an equal sale.
 *
 * A late payment, and one of less than was requested, may be settled as paid: the money then counts for the sale. An order that
 * was settled as paid, and that ended without a payment, may be settled as not paid.
 *
 * @throws NOT_FOUND, and CONFLICT for an order that is not in doubt and has nothing to decide
 */
export async function settleCharge(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  said: Pick<SettledOutcome, 'as' | 'reason'>,
  context: RequestContext,
): Promise<OrderRow> {
  const entry = { ...entryOf(client, id, context, 'order.settled'), metadata: said }
  return auditFailure(deps, entry, async () => {
    const order = await requireOrder(deps, client, id)
    const at = deps.now()
    const decision = decisionOf(order)
    if (!decides(decision, said.as) && !isInDoubt(order, at)) throw noDoubt()
    const isMade = order.creation === 'confirmed'
    const givesUp = !isMade || (order.status === 'action_required' && said.as === 'not_paid')
    return deps.database.transaction(async (trx) => {
      const settled = await saveSettledOutcome(trx, order, { ...said, at }, givesUp)
      // The order has moved since, so the decision may be about another state.
      if (!settled) throw noDoubt()
      const metadata = { as: said.as, reason: said.reason, status: order.status }
      await recordSuccess(deps, trx, { ...entry, resourceId: order.id, metadata })
      return settled
    })
  })
}

/** Whether this decision ends the wait for a person. */
function decides(decision: Decision | null, as: SettledOutcome['as']): boolean {
  if (as === 'not_paid') return decision === 'settled_unpaid'
  return decision === 'paid_late' || decision === 'paid_less'
}

/** Whether the customer has paid is unknown, and time alone will not show it. */
function isInDoubt(order: OrderRow, now: Date): boolean {
  if (order.creation === 'refused') return order.conflict !== null
  if (order.creation !== 'confirmed' || order.conflict !== null) return true
  return order.status === 'action_required' || (isOpen(order.status) && order.expires_at < now)
}

function noDoubt(): AppError {
  return new AppError('CONFLICT', {
    message: 'The outcome of this order is known, or still to come: there is nothing to settle',
  })
}

function entryOf(client: ClientName, id: string, { actor }: RequestContext, action: string) {
  return { client, actor, action, resourceId: id }
}
