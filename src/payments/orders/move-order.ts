import type { Db, Trx } from '../../db/database.ts'
import type { OrderStatus } from '../../domain/order.ts'
import { isOpen } from '../../domain/order-state.ts'
import {
  type Along,
  type NextCheck,
  noteStatusCheck,
  writeOrderMove,
} from '../../repositories/orders/move-queries.ts'
import { findOrderOfAnyClient, type OrderRow } from '../../repositories/orders/order-queries.ts'
import type { ToldBy } from '../../repositories/webhooks/account-webhooks.ts'
import { tellActivity } from '../audit/activity.ts'
import type { PaymentDeps } from '../deps.ts'
import type { EvidenceSource, Move } from './apply-evidence.ts'
import { tellOrderChanged } from './order-changes.ts'
import { planCheckAt } from './plan-status-checks.ts'

/** Decides the next state of an order from its row alone. */
export type Decision = {
  move: Move | undefined
  shown?: OrderStatus | null
  along?: Along | undefined
  /**
   * When the provider answered a status check; null when it did not. With `notedLater` a check that found nothing new is written
   * later, so the caller does not learn that the order has moved meanwhile.
   */
  look?: { checkedAt: Date | null } | { checkedAt: Date; notedLater: true } | undefined
  /** When the next status check is due; absent: by the order's state. */
  plan?: ((order: OrderRow) => NextCheck) | undefined
}

export type Moved = {
  order: OrderRow
  changed: boolean
  /** As the decision returned it. */
  shown: OrderStatus | null
  /** The cancel or refund that ends with the move was open before. */
  hasEnded: boolean
}

/**
 * The only function that moves an order. One statement writes the state, the history, the next status check and what is written along.
 * Nothing is locked before: when the row has changed meanwhile, `decide` is called again with the new row, so it must have no effects.
 * Requests that wait for the order are woken after the commit.
 */
export async function moveOrder(
  deps: Pick<PaymentDeps, 'database' | 'now' | 'noteMove' | 'startedAt' | 'statusChecks'>,
  db: Db | Trx,
  known: OrderRow,
  source: EvidenceSource,
  decide: (order: OrderRow) => Decision,
): Promise<Moved> {
  const planned = (order: OrderRow) => planCheckAt(order, deps.now())
  for (let order = known; ; ) {
    const { move, shown = null, along, look, plan = planned } = decide(order)
    const newsOf = (before: OrderRow, after: OrderRow) => ({
      toldBy: look?.checkedAt ? toldBy(before, after, source) : null,
      now: deps.now(),
      startedAt: deps.startedAt,
    })
    if (!move && look && 'notedLater' in look) {
      const { checkedAt } = look
      deps.statusChecks.note(order, { checkedAt, next: plan(order) })
      const seen = { ...order, checked_at: checkedAt, checks: order.checks + 1 }
      return { order: seen, changed: false, shown, hasEnded: false }
    }
    if (!move) {
      const news = newsOf(order, order)
      const seen = look
        ? await noteStatusCheck(db, order, { ...look, next: plan(order), news })
        : order
      if (seen) return { order: seen, changed: false, shown, hasEnded: false }
    }
    const written =
      move &&
      (await writeOrderMove(db, {
        before: order,
        ...move,
        source,
        next: plan(move.after),
        news: newsOf(order, move.after),
        ...along,
      }))
    if (written) {
      tellOrderChanged(deps.database, written.order)
      deps.noteMove(order, written.order)
      if (along?.entries && (!along.ends || written.hasEnded)) tellActivity(deps, along.entries)
      return { ...written, changed: true, shown }
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
function toldBy(before: OrderRow, after: OrderRow, source: EvidenceSource): ToldBy | null {
  if (source === 'webhook') return 'webhook'
  const isTold = isOpen(before.status) && after.status !== 'at_terminal'
  return before.status !== after.status && isTold ? 'look' : null
}
