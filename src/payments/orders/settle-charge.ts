import type { ClientName } from '../../domain/client-name.ts'
import { type Decision, decisionOf, isOpen } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { lockOrder, type OrderRow } from '../../repositories/orders/order-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { PaymentDeps } from '../deps.ts'
import type { RequestContext } from '../request-context.ts'
import { type ReadOrder, refreshOrder, requireOrder } from './read.ts'
import { keepNextCheck, moveOrder } from './state.ts'

/** A person's decision on an order in doubt. */
type SettledOutcome = { as: 'paid' | 'not_paid'; reason: string }

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
 * Of people who decide at once one counts: an earlier decision is replaced only by a request that names it (`replaces`).
 *
 * @throws NOT_FOUND, and CONFLICT for an order that is not in doubt and has nothing to decide, or that has a decision which the
 * request does not name
 */
export async function settleCharge(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  { replaces, ...said }: SettledOutcome & Replacing,
  context: RequestContext,
): Promise<OrderRow> {
  const entry = { ...entryOf(client, id, context, 'order.settled'), metadata: said }
  return auditFailure(deps, entry, async () => {
    const order = await requireOrder(deps, client, id)
    const at = deps.now()
    const decision = decisionOf(order)
    if (!decides(decision, said.as) && !isInDoubt(order, at)) throw noDoubt()
    const earlier = decisionIn(order)
    if (isRepeated(earlier, said.as, replaces)) return order
    requireNamed(earlier, replaces)
    const isMade = order.creation === 'confirmed'
    const givesUp = !isMade || (order.status === 'action_required' && said.as === 'not_paid')
    const settled = await deps.database.transaction(async (trx) => {
      const locked = await lockOrder(trx, order.id)
      if (locked.version !== order.version) return undefined
      const event = { kind: 'charge_settled' as const, ...said, givesUp }
      const moved = await moveOrder(deps, trx, locked, 'api', event, { plan: keepNextCheck })
      const metadata = {
        as: said.as,
        reason: said.reason,
        status: order.status,
        ...(earlier && { replaces: { as: earlier.as, at: earlier.at.toISOString() } }),
      }
      await recordSuccess(deps, trx, { ...entry, resourceId: order.id, metadata })
      return moved.order
    })
    if (settled) return settled
    // Another person has decided since, or the order has moved, so the decision may be about another state.
    const now = await requireOrder(deps, client, id)
    const other = decisionIn(now)
    if (isRepeated(other, said.as, replaces)) return now
    requireNamed(other, replaces)
    throw noDoubt()
  })
}

/** The decision that a request replaces, by its time; undefined for none. */
export type Replacing = { replaces: Date | undefined }

type EarlierDecision = { as: string; at: Date } | undefined

function decisionIn({ settled_as: as, settled_at: at }: OrderRow): EarlierDecision {
  return as !== null && at !== null ? { as, at } : undefined
}

/** Whether the same was decided already, such as by this request when its answer was lost. */
function isRepeated(earlier: EarlierDecision, as: string, replaces: Date | undefined): boolean {
  return earlier?.as === as && replaces === undefined
}

/** @throws CONFLICT when the request does not name the decision that is there */
export function requireNamed(earlier: EarlierDecision, replaces: Date | undefined): void {
  if (earlier?.at.getTime() === replaces?.getTime()) return
  throw new AppError('CONFLICT', {
    message: earlier
      ? `A person decided ${earlier.as} at ${earlier.at.toISOString()}: send this time in replaces to replace the decision`
      : 'There is no decision to replace: leave out replaces',
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
  if (!isOpen(order.status)) return false
  const isOver = order.status === 'action_required' || order.expires_at < now
  return isOver || order.unknown_status !== null
}

function noDoubt(): AppError {
  return new AppError('CONFLICT', {
    message: 'The outcome of this order is known, or still to come: there is nothing to settle',
  })
}

function entryOf(client: ClientName, id: string, { actor }: RequestContext, action: string) {
  return { client, actor, action, resourceId: id }
}
