import type { Db, Trx } from '../../db/database.ts'
import type { OrderStatus } from '../../domain/order.ts'
import { isOpen } from '../../domain/order-state.ts'
import {
  type Along,
  type NextLook,
  noteLook,
  writeOrderMove,
} from '../../repositories/orders/move-queries.ts'
import { findOrderOfAnyClient, type OrderRow } from '../../repositories/orders/order-queries.ts'
import type { ToldBy } from '../../repositories/webhooks/account-webhooks.ts'
import { tellActivity } from '../audit/activity.ts'
import type { PaymentDeps } from '../deps.ts'
import type { EvidenceSource, Move } from './apply-evidence.ts'
import { tellOrderChanged } from './order-changes.ts'
import { planLook } from './plan-status-checks.ts'

/** What becomes of an order as it is known, by a rule that looks at nothing else. */
export type Decision = {
  move: Move | undefined
  shown?: OrderStatus | null
  along?: Along | undefined
  /**
   * It was looked at, and the provider answered at that moment; null when it did not. With `notedLater` nobody waits for the
   * note of one that found nothing new, so that nobody learns from it either that the order has moved meanwhile.
   */
  look?: { checkedAt: Date | null } | { checkedAt: Date; notedLater: true } | undefined
  /** When it is looked at next, with or without a move; absent: as an order of its state is. */
  plan?: ((order: OrderRow) => NextLook) | undefined
}

export type Moved = {
  order: OrderRow
  changed: boolean
  /** As the decision says. */
  shown: OrderStatus | null
  /** The cancel or refund that was to end with the move was open until then. */
  hasEnded: boolean
}

/**
 * Moves an order as `decide` says of it, in one statement: the state, its history, its next look, and what is written along. Nothing is
 * locked before. When the row is no longer as it was known, `decide` is asked about what it is now; so it may be asked
 * more than once, and must change nothing. Tells whoever waits for the order, after the commit.
 */
export async function moveOrder(
  deps: Pick<PaymentDeps, 'database' | 'now' | 'noteMove' | 'startedAt' | 'looks'>,
  db: Db | Trx,
  known: OrderRow,
  source: EvidenceSource,
  decide: (order: OrderRow) => Decision,
): Promise<Moved> {
  const planned = (order: OrderRow) => planLook(order, deps.now())
  for (let order = known; ; ) {
    const { move, shown = null, along, look, plan = planned } = decide(order)
    const newsOf = (before: OrderRow, after: OrderRow) => ({
      toldBy: look?.checkedAt ? toldBy(before, after, source) : null,
      now: deps.now(),
      startedAt: deps.startedAt,
    })
    if (!move && look && 'notedLater' in look) {
      const { checkedAt } = look
      deps.looks.note(order, { checkedAt, next: plan(order) })
      const seen = { ...order, checked_at: checkedAt, checks: order.checks + 1 }
      return { order: seen, changed: false, shown, hasEnded: false }
    }
    if (!move) {
      const news = newsOf(order, order)
      const seen = look ? await noteLook(db, order, { ...look, next: plan(order), news }) : order
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
 * Who brought the news that a look at the provider shows, of those that the provider sends a webhook for. A webhook tells also
 * when there is none: perhaps a look was quicker by a little.
 */
function toldBy(before: OrderRow, after: OrderRow, source: EvidenceSource): ToldBy | null {
  if (source === 'webhook') return 'webhook'
  const isTold = isOpen(before.status) && after.status !== 'at_terminal'
  return before.status !== after.status && isTold ? 'look' : null
}
