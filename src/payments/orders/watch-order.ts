import type { ClientName } from '../../domain/client-name.ts'
import { isUntouchable } from '../../domain/order-state.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceContext } from '../operations/request-context.ts'
import { isReadForWatcher } from './check-and-retry-times.ts'
import { type ReadOrder, readMeanwhile, refreshOrder, requireOrder, watch } from './read.ts'

type OrderWatch = {
  orderId: string
  /** Whether nothing more can follow: the order has ended for good. */
  isOver(): boolean
  /** Calls `wake` when the order may have changed, until the returned function is called. */
  watch(wake: () => void): () => void
  /** The order as it is now, when its version differs from the last one returned; otherwise undefined. */
  next(): Promise<ReadOrder | undefined>
}

/** A slow provider must not delay the first answer: after this time the local row is shown as stale. */
const readWithinMs = 3_000

/**
 * An order for a client that follows it. The client gets the newest state, not each step since the version it knows: a till acts
 * on the state, and the steps are in the order's timeline.
 *
 * The first read asks the provider, as GET does. Then webhooks bring changes, and without any the sweeper, which checks a watched
 * order every few seconds. A paid order is read here at intervals.
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
  let read: ReadOrder = { order: found, stale: false }
  let askedAt: number | undefined

  const isDue = (order: OrderRow) =>
    askedAt === undefined || isReadForWatcher(order, askedAt, deps.now())

  return {
    orderId: found.id,
    isOver: () => isEnded,
    watch: (wake) => deps.changes.watch(found.id, wake),
    async next() {
      read = readMeanwhile(read, await requireOrder(deps, client, found.id))
      const hasChanged = askedAt !== undefined && read.order.version !== seen
      if (!hasChanged && isDue(read.order)) {
        askedAt = deps.now().getTime()
        const context = serviceContext(deps, 'api', readWithinMs)
        read = await refreshOrder(deps, read.order, context, { onlyReads: true })
      }
      const { order } = read
      isEnded = isUntouchable(order.status)
      await watch(deps, order)
      if (order.version === seen) return undefined
      seen = order.version
      return read
    },
  }
}
