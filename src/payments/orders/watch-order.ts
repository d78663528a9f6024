import type { ClientName } from '../../domain/client-name.ts'
import { isUntouchable } from '../../domain/order-state.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceContext } from '../operations/request-context.ts'
import { type ReadOrder, refreshOrder, requireOrder, watch } from './read.ts'
import { isReadForWatcher } from './status-checks.ts'

export type OrderWatch = {
  orderId: string
  /** Whether nothing follows what the watcher has seen: the order has ended for good. */
  isOver(): boolean
  /** Calls `wake` when the order may have changed, until the returned function is called. */
  watch(wake: () => void): () => void
  /** The order as it is now when its version is not the one the watcher saw last, else undefined. */
  next(): Promise<ReadOrder | undefined>
}

/** Nobody should see nothing for long because the provider is slow: after this the local record is shown as stale. */
const readWithinMs = 3_000

/**
 * An order for somebody who stays and watches. What he is told is the newest state, not each step since the version he
 * knows: a till must act on what is, and the steps stand in the order's timeline.
 *
 * The first look asks the provider, as GET does. After it webhooks bring changes, and without any the sweeper, who looks
 * at a watched order every few seconds; a paid one is read here now and then.
 */
export async function watchOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  knownVersion: number | undefined,
): Promise<OrderWatch> {
  const found = await requireOrder(deps, client, id)
  let seen = knownVersion
  let isEnded = isUntouchable(found.status) && found.version === knownVersion
  let isStale = false
  let askedAt: number | undefined

  const isDue = (order: OrderRow) =>
    askedAt === undefined || isReadForWatcher(order, askedAt, deps.now())

  return {
    orderId: found.id,
    isOver: () => isEnded,
    watch: (wake) => deps.changes.watch(found.id, wake),
    async next() {
      let order = await requireOrder(deps, client, found.id)
      const isNews = askedAt !== undefined && order.version !== seen
      if (!isNews && isDue(order)) {
        askedAt = deps.now().getTime()
        const context = serviceContext(deps, 'api', readWithinMs)
        const read = await refreshOrder(deps, order, context, { onlyReads: true })
        order = read.order
        isStale = read.stale
      }
      isEnded = isUntouchable(order.status)
      await watch(deps, order)
      if (order.version === seen) return undefined
      seen = order.version
      return { order, stale: isStale }
    },
  }
}
