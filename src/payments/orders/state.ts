import type { Db, Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import { pointFromCents } from '../../domain/money.ts'
import type { OrderEvidence, OrderStatus, ProviderRefund } from '../../domain/order.ts'
import { isFailedRefund, isOpen, isPendingRefund } from '../../domain/order-state.ts'
import { relinkIdempotencyKeys } from '../../repositories/orders/idempotency-keys.ts'
import {
  finishRefund,
  listOperations,
  type OrderOperationRow,
} from '../../repositories/orders/order-operations.ts'
import {
  findOrderOfAnyClient,
  lockOrder,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import {
  type Along,
  type NextCheck,
  type ReportedBy,
  recordStatusCheck,
  writeOrderMove,
} from '../../repositories/orders/save-order-move.ts'
import {
  type ActivityEntry,
  notifyActivity,
  recordFailure,
  recordSuccess,
  signSuccess,
} from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { notifyOrderChanged } from '../process/order-changes.ts'
import {
  actorOfEnd,
  type EvidenceSource,
  type RequestContext,
  serviceActor,
} from '../request-context.ts'
import { planCheckAt } from './check-and-retry-times.ts'
import { decide, type OrderEvent } from './decide.ts'
import { eventsOfMove } from './events-of-move.ts'
import { contradictionOf } from './match-refund.ts'
import { isAbout } from './state-from-provider.ts'

type Taking = {
  /** What is written along with the move that the evidence causes. */
  along?: MoveOptions['along']
  /** The provider's id of the refund whose operation ends with it. */
  endsRefund?: string | null
  /** The evidence comes from a status check. */
  check?: MoveOptions['check']
}

/**
 * Moves an order by evidence, and ends a pending refund of ours that is now done or has failed.
 */
export async function takeEvidence(
  deps: PaymentDeps,
  known: OrderRow,
  evidenceFor: (order: OrderRow) => OrderEvidence,
  source: EvidenceSource,
  { along, endsRefund, check }: Taking = {},
): Promise<Moved> {
  const eventIn = (db: Db | Trx) => async (order: OrderRow) => {
    const evidence = evidenceFor(order)
    // A person may have decided on a refund since `known` was read.
    const decided = order.refund_settled ? await listOperations(db, [order.id]) : []
    const contradiction = order.refund_settled
      ? (contradictionOf(order, evidence, decided, endsRefund)?.why ?? null)
      : order.refund_contradicted
    return { kind: 'provider_answered' as const, evidence, contradiction }
  }
  const { refunds } = evidenceFor(known)
  const ended = endedRefunds(known, refunds).filter(({ id }) => id !== endsRefund)
  const { db } = deps.database
  const options = { along, check }
  if (ended.length === 0) return moveOrder(deps, db, known, source, eventIn(db), options)
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, known.id)
    const moved = await moveOrder(deps, trx, locked, source, eventIn(trx), options)
    if (!moved.changed) return moved
    await endRefunds(deps, trx, moved.order, endedRefunds(locked, moved.order.refunds))
    return moved
  })
}

/** Refunds that have ended now, and were pending or unknown before. */
function endedRefunds(known: OrderRow, refunds: readonly ProviderRefund[]): ProviderRefund[] {
  if (refunds.length === 0) return []
  const before = new Map(known.refunds.map((refund) => [refund.id, refund.status]))
  return refunds.filter(({ id, status }) => before.get(id) !== status && !isPendingRefund(status))
}

async function endRefunds(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  ended: readonly ProviderRefund[],
): Promise<void> {
  const operations = await listOperations(trx, [order.id])
  for (const refund of ended) {
    const operation = operations.find(({ mp_refund_id }) => mp_refund_id === refund.id)
    if (operation?.state !== 'done') continue
    const hasFailed = isFailedRefund(refund.status)
    if (!hasFailed && operation.finished_at !== null) continue
    await finishRefund(trx, operation.id, { hasFailed, at: deps.now() })
    const actor = serviceActor(deps.now())
    const entry = refundEntry(order, operation, actor)
    if (hasFailed) await recordFailure(deps, trx, entry, failedText)
    else await recordSuccess(deps, trx, entry)
  }
}

const failedText =
  'REFUND_FAILED: The provider had accepted the refund, and it failed; its amount is not refunded'

/** The audit entry of a refund. */
export function refundEntry(
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): ActivityEntry {
  return {
    client: order.client,
    actor: actorOfEnd(operation, actor),
    action: 'order.refunded',
    resourceId: order.id,
    metadata: {
      mp_order_id: order.mp_order_id,
      type: operation.refund_type,
      amount: pointFromCents(operation.amount_cents as number),
      caja_id: order.caja_id,
    },
  }
}

type MoveOptions = {
  /** What is written in the statement of the move. */
  along?: ((after: OrderRow, before: OrderRow) => Along | undefined) | undefined
  /**
   * When the provider answered a status check; null when it did not. With `notedLater` a check that found nothing new is written
   * later, so the caller does not learn that the order has moved meanwhile.
   */
  check?: { checkedAt: Date | null } | { checkedAt: Date; notedLater: true } | undefined
  /** When the next status check is due; absent: by the order's state. */
  plan?: ((order: OrderRow) => NextCheck) | undefined
}

type Moved = {
  order: OrderRow
  changed: boolean
  /** The state that the provider has just shown. */
  shown: OrderStatus | null
  /** The cancel or refund that ends with the move was open before. */
  hasEnded: boolean
}

/** The next status check keeps its time. */
export function keepNextCheck({ next_check_at }: OrderRow): NextCheck {
  return { at: next_check_at, whileWebhooksArrive: null }
}

/** An event, or what it is for the order as it is then: undefined for none. */
type EventFor =
  | OrderEvent
  | ((order: OrderRow) => OrderEvent | undefined | Promise<OrderEvent | undefined>)

/**
 * The only function that moves an order. `decide` says how the order is after the event. One statement writes the state, the history,
 * the next status check and what is written along. Nothing is locked before: when the row has changed meanwhile, it is decided again
 * with the new row. Requests that wait for the order are woken after the commit.
 */
export async function moveOrder(
  deps: Pick<PaymentDeps, 'database' | 'now' | 'recordMove' | 'startedAt' | 'statusChecks'>,
  db: Db | Trx,
  known: OrderRow,
  source: EvidenceSource,
  eventFor: EventFor,
  { along: alongWith, check, plan }: MoveOptions = {},
): Promise<Moved> {
  for (let order = known; ; ) {
    const event = typeof eventFor === 'function' ? await eventFor(order) : eventFor
    const decided = event ? decide(order, event, deps.now()) : undefined
    const { move, shown = null } = decided ?? {}
    const along = move && alongWith?.(move.after, order)
    const after = move?.after ?? order
    const next = plan?.(after) ?? planCheckAt(after, deps.now())
    if (!move && check && 'notedLater' in check) {
      const { checkedAt } = check
      deps.statusChecks.note(order, { checkedAt, next })
      const seen = { ...order, checked_at: checkedAt, checks: order.checks + 1 }
      return { order: seen, changed: false, shown, hasEnded: false }
    }
    const report = {
      reportedBy: check?.checkedAt ? reportedBy(order, after, source) : null,
      now: deps.now(),
      startedAt: deps.startedAt,
    }
    if (move) {
      const before = order
      const events = await eventsOfMove(db, before, move.after, along?.ends)
      const written = await writeOrderMove(db, {
        before,
        ...move,
        source,
        next,
        report,
        events,
        ...along,
      })
      if (written) {
        notifyOrderChanged(deps.database, written.order)
        deps.recordMove(before, written.order)
        if (along?.entries && (!along.ends || written.hasEnded)) notifyActivity(deps, along.entries)
        return { ...written, changed: true, shown }
      }
    } else {
      const seen = check ? await recordStatusCheck(db, order, { ...check, next, report }) : order
      if (seen) return { order: seen, changed: false, shown, hasEnded: false }
    }
    const now = await findOrderOfAnyClient(db, known.id)
    if (!now) throw new Error(`order ${known.id} is gone`)
    order = now
  }
}

/**
 * Whether a webhook or a status check brought a change that the provider sends a webhook for. A webhook counts also without a change: a
 * status check may have been a little faster.
 */
function reportedBy(before: OrderRow, after: OrderRow, source: EvidenceSource): ReportedBy | null {
  if (source === 'webhook') return 'webhook'
  const hasWebhook = isOpen(before.status) && after.status !== 'at_terminal'
  return before.status !== after.status && hasWebhook ? 'status_check' : null
}

/**
 * Records that the provider has the order, with the audit entry of its creation. One that had counted as refused opens
 * again. An order that stands in another row already, as after a restored backup, is that row's: this one was never made,
 * and the other is returned. `frees` is the lease on its key that is released with it.
 */
export async function confirmCreation(
  deps: PaymentDeps,
  order: OrderRow,
  evidence: OrderEvidence,
  { source, actor }: RequestContext,
  frees?: string,
): Promise<OrderRow> {
  if (!isAbout(order, evidence)) {
    const otherRow = await findOtherRow(deps, order, evidence)
    if (otherRow) return leaveToOtherRow(deps, order, otherRow, source)
  }
  try {
    const { order: after } = await takeEvidence(deps, order, () => evidence, source, {
      along: (after, before) => ({
        frees,
        ...(before.creation !== 'confirmed' &&
          after.creation === 'confirmed' && {
            entries: [signSuccess(deps, creationEntry(after, actor))],
          }),
      }),
    })
    return after
  } catch (error) {
    const isTaken = constraintOf(error) === 'orders_mp_order_id_key'
    const otherRow = isTaken ? await findOtherRow(deps, order, evidence) : undefined
    if (otherRow) return leaveToOtherRow(deps, order, otherRow, source)
    throw error
  }
}

function creationEntry(order: OrderRow, actor: Actor): ActivityEntry {
  return {
    client: order.client,
    actor,
    action: 'order.created',
    resourceId: order.id,
    metadata: {
      mp_order_id: order.mp_order_id,
      amount: pointFromCents(order.amount_cents),
      caja_id: order.caja_id,
    },
  }
}

/** Another row that the provider's order stands in. */
async function findOtherRow(
  deps: PaymentDeps,
  order: OrderRow,
  evidence: OrderEvidence,
): Promise<OrderRow | undefined> {
  const otherRow = await findOrderOfAnyClient(deps.database.db, evidence.mpOrderId)
  return otherRow?.id === order.id ? undefined : otherRow
}

async function leaveToOtherRow(
  deps: PaymentDeps,
  order: OrderRow,
  otherRow: OrderRow,
  source: EvidenceSource,
): Promise<OrderRow> {
  const code = 'stands in another order'
  const notCreated = { kind: 'not_created' as const, code, unansweredAt: null }
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    if (otherRow.client !== order.client) return locked
    await moveOrder(deps, trx, locked, source, notCreated)
    await relinkIdempotencyKeys(trx, { from: order.id, to: otherRow.id })
    return otherRow
  })
}
