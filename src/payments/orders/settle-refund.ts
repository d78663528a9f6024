import type { Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { pointFromCents } from '../../domain/money.ts'
import type { ProviderRefund } from '../../domain/order.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  keepRefundDecision,
  listOperations,
  lockOperations,
  type OrderOperationRow,
} from '../../repositories/orders/order-operations.ts'
import { lockOrder, type OrderRow } from '../../repositories/orders/order-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { PaymentDeps } from '../deps.ts'
import type { RequestContext } from '../request-context.ts'
import { matchRefund, possibleRefunds } from './match-refund.ts'
import { refreshOrder, requireOrder } from './read.ts'
import { settleRefundByReading } from './record-refund.ts'
import { type Replacing, requireNamed } from './settle-charge.ts'
import { moveOrder } from './state.ts'

/** A person's decision on a refund of unknown outcome. */
type RefundDecision = {
  as: 'refunded' | 'not_refunded'
  reason: string
  /** The provider's number of the refund that was made. */
  refundId: string | undefined
} & Replacing

/**
 * Ends a refund of unknown outcome with what a person found in the provider's panel, or replaces a decision that the provider
 * contradicts and that the request names. The order is read first: what the provider proves ends the refund and has priority. The refunded amount stays what
 * the provider lists; a refund that it does not list is added with the requested amount.
 *
 * @throws NOT_FOUND, CONFLICT when there is nothing to decide or the number is not a possible one, REFUND_IN_PROGRESS while the
 * refund is being sent
 */
export async function settleRefund(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  said: RefundDecision,
  context: RequestContext,
): Promise<OrderRow> {
  const { as, reason, refundId, replaces } = said
  const metadata = { as, reason, ...(refundId !== undefined && { refund_id: refundId }) }
  const entry = {
    client,
    actor: context.actor,
    action: 'order.refund_settled',
    resourceId: id,
    metadata,
  }
  return auditFailure(deps, entry, async () => {
    const known = await requireOrder(deps, client, id)
    const before = await listOperations(deps.database.db, [known.id])
    const asked = openOf(known, before)
    if (!asked) throw nothingToDecide()
    requireNamed(decisionOn(asked), replaces)
    const read = await refreshOrder(deps, known, context, { isOwn: true })
    const open = openOf(read.order, await listOperations(deps.database.db, [known.id]))
    if (!open) throw nothingToDecide()
    if (!read.stale && open.state === 'unknown' && isProven(read.order, open, before)) {
      await settleRefundByReading(deps, read.order, open, context.actor)
      throw nothingToDecide()
    }
    return deps.database.transaction(async (trx) => {
      const order = await lockOrder(trx, known.id)
      const operations = await lockOperations(trx, order.id)
      const operation = openOf(order, operations)
      if (operation?.id !== open.id) throw nothingToDecide()
      requireNamed(decisionOn(operation), replaces)
      if (operation.sender_until !== null && operation.sender_until > deps.now()) {
        throw new AppError('REFUND_IN_PROGRESS')
      }
      const decided = await decide(deps, trx, order, operation, operations, said)
      const amount = pointFromCents(decided.amountCents)
      await recordSuccess(deps, trx, {
        ...entry,
        resourceId: order.id,
        metadata: { ...metadata, amount, refund_id: decided.mpRefundId },
      })
      return decided.order
    })
  })
}

/** The refund that a person may decide on: the open one, else the one whose decision the provider contradicts. */
function openOf(
  order: OrderRow,
  operations: readonly OrderOperationRow[],
): OrderOperationRow | undefined {
  const refunds = operations.filter(({ kind }) => kind === 'refund')
  const open = refunds.find(({ state }) => state === 'unknown')
  if (open || order.refund_contradicted === null) return open
  return refunds.findLast(({ settled_as }) => settled_as !== null)
}

function decisionOn({ settled_as: as, settled_at: at }: OrderOperationRow) {
  return as !== null && at !== null ? { as, at } : undefined
}

function isProven(
  order: OrderRow,
  operation: OrderOperationRow,
  operations: readonly OrderOperationRow[],
): boolean {
  return matchRefund(operation, order.refunds, operations).kind === 'ours'
}

async function decide(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  operation: OrderOperationRow,
  operations: readonly OrderOperationRow[],
  { as, reason, refundId }: RefundDecision,
): Promise<{ order: OrderRow; mpRefundId: string | null; amountCents: number }> {
  const others = operations.filter(({ id }) => id !== operation.id)
  const possible = choicesOf(order, operation, operations)
  const isMade = as === 'refunded'
  const mpRefundId = isMade ? chosenOf(order, possible, others, refundId) : operation.mp_refund_id
  const asked = operation.amount_cents as number
  const listed = order.refunds.find(({ id }) => id === mpRefundId)
  const amountCents = (isMade && listed?.amountCents) || asked
  const at = deps.now()
  const decision = { as, at, reason, possible, mpRefundId, amountCents }
  await keepRefundDecision(trx, operation, decision)
  const event = (current: OrderRow) => ({
    kind: 'refund_settled' as const,
    isMade,
    ...changeOfList(current, operation, isMade, mpRefundId, amountCents),
  })
  const moved = await moveOrder(deps, trx, order, 'api', event, {
    // An unanswered call may still arrive until then.
    plan: () => ({
      at: new Date(at.getTime() + deps.settings.lateArrivalMs),
      whileWebhooksArrive: null,
    }),
  })
  return { order: moved.order, mpRefundId, amountCents }
}

/** The refunds that the provider shows and that may be this one, as they are known now. */
function choicesOf(
  order: OrderRow,
  operation: OrderOperationRow,
  operations: readonly OrderOperationRow[],
): ProviderRefund[] {
  const match = matchRefund(operation, order.refunds, operations)
  const now = possibleRefunds(match, order.refunds)
  const ids = new Set(now.map(({ id }) => id))
  const taken = new Set(
    operations.map(({ id, mp_refund_id }) => id !== operation.id && mp_refund_id),
  )
  const before = operation.possible_refunds ?? []
  return [...now, ...before.filter(({ id }) => !ids.has(id) && !taken.has(id))]
}

/** The number of the refund that was made; null when any of several may be it: all of them are counted. */
function chosenOf(
  order: OrderRow,
  possible: readonly ProviderRefund[],
  others: readonly OrderOperationRow[],
  refundId: string | undefined,
): string | null {
  const ids = possible.map(({ id }) => id)
  if (refundId !== undefined) {
    const isOther = others.some(({ mp_refund_id }) => mp_refund_id === refundId)
    if (!isOther && (ids.length === 0 || ids.includes(refundId))) return refundId
    throw new AppError('CONFLICT', {
      message: `refund_id must be one of ${ids.join(', ') || 'those of no other refund'} (got "${refundId}")`,
    })
  }
  const [only] = ids
  if (ids.length === 1 && only !== undefined) return only
  const listed = new Set(order.refunds.map(({ id }) => id))
  if (ids.length > 1 && ids.every((id) => listed.has(id))) return null
  throw new AppError('CONFLICT', {
    message: `Name the refund of the provider in refund_id${ids.length > 0 ? `: ${ids.join(', ')}` : ''}`,
  })
}

/** The refund that was made and that the provider does not list, or one that was added so earlier. */
function changeOfList(
  order: OrderRow,
  operation: OrderOperationRow,
  isMade: boolean,
  mpRefundId: string | null,
  amountCents: number,
): { added?: ProviderRefund; removed?: ProviderRefund } {
  const listed = order.refunds.find(({ id }) => id === mpRefundId)
  if (isMade && mpRefundId !== null && !listed) {
    const none = { transactionId: null, referenceId: null }
    return { added: { id: mpRefundId, ...none, amountCents, status: 'processed' } }
  }
  const isAdded = operation.settled_as === 'refunded' && listed !== undefined
  if (isMade || !isAdded || order.refund_contradicted === null) return {}
  return { removed: { ...listed, amountCents } }
}

function nothingToDecide(): AppError {
  return new AppError('CONFLICT', {
    message: 'No refund of this order has an unknown outcome: there is nothing to settle',
  })
}
