import type { ClientName } from '../domain/client-name.ts'
import { isUntouchable } from '../domain/order-state.ts'
import { AppError } from '../errors.ts'
import { ProviderError } from '../provider/provider.ts'
import {
  findOrder,
  findOrderOfAnyClient,
  lockOrder,
  type OrderRow,
  planCheck,
} from '../repositories/orders.ts'
import { meetOrderOfClient } from './adopt-orders.ts'
import { applyEvidence, type EvidenceSource, nextCheck } from './apply-evidence.ts'
import { type PaymentDeps, serviceActor } from './deps.ts'
import { aboutOrder, withOrderAccess } from './order-access.ts'
import { resolveCreation } from './resolve-creation.ts'

export type ReadOrder = {
  order: OrderRow
  /** The provider could not be asked: this is what we knew before. */
  stale: boolean
  /** Why it could not. */
  failure?: unknown
  /** The provider does not keep it any more: this is what we knew before, and all there will ever be. */
  isGone?: boolean
}

/** An order of this client by our id or the provider's. Throws NOT_FOUND, for another client's order too. */
export async function requireOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
): Promise<OrderRow> {
  const order = await findOrder(deps.database.db, client, id)
  if (!order) throw new AppError('NOT_FOUND', { message: 'There is no such order' })
  return order
}

/**
 * The same for a request, which may name an order that only the provider knows any more, by its id there: it is taken in
 * first. Throws SERVICE_UNAVAILABLE too, when the provider cannot be asked.
 */
export async function requireOrderAnywhere(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
): Promise<OrderRow> {
  const known = await findOrder(deps.database.db, client, id)
  if (known) return known
  await meetOrderOfClient(deps, client, id)
  return requireOrder(deps, client, id)
}

const readDeadlineMs = 15_000

/**
 * The order as the provider sees it now. Equal reads share one call. Without an answer from the provider the local row
 * comes back as stale; an order the provider no longer keeps (three months) is the local row, not stale.
 *
 * A webhook's read is its own: one that was under way before the webhook came may have missed what it tells.
 */
export async function refreshOrder(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  deadlineMs = readDeadlineMs,
): Promise<ReadOrder> {
  if (isAtRest(order, source)) {
    // A look that was planned while the order was still open.
    if (order.next_check_at !== null) {
      await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt: null })
    }
    return { order, stale: false }
  }
  const read = async () => {
    if (order.creation !== 'confirmed' || order.mp_order_id === null) {
      const actor = serviceActor(deps.now())
      const outcome = await resolveCreation(deps, order, source, actor, deadlineMs)
      return outcome.kind === 'unknown'
        ? { order: outcome.order, stale: true, failure: outcome.error }
        : { order: outcome.order, stale: false }
    }
    const mpOrderId = order.mp_order_id
    try {
      const evidence = await withOrderAccess(deps, order, (access) =>
        deps.provider.orders.get(access.token, mpOrderId, {
          about: aboutOrder(order, source),
          deadlineMs,
          // Nobody waits for the sweeper: it comes again by itself.
          ...(source === 'sweeper' && { maxAttempts: 1 }),
        }),
      )
      const applied = await deps.database.transaction(async (trx) =>
        applyEvidence(trx, await lockOrder(trx, order.id), evidence, source, deps.now()),
      )
      if (evidence.status === null) {
        const { providerStatus } = evidence
        deps.log.warn({ orderId: order.id, providerStatus }, 'the provider uses an unknown status')
      }
      if (!applied.changed) await planNext(deps, applied.order, deps.now())
      return { order: applied.order, stale: false }
    } catch (error) {
      if (!(error instanceof ProviderError) && !(error instanceof AppError)) throw error
      const gone = error instanceof ProviderError && error.status === 404
      await planNext(deps, order, null, gone)
      if (!gone) deps.log.warn({ orderId: order.id, err: error }, 'the provider could not be read')
      const local = (await findOrderOfAnyClient(deps.database.db, order.id)) ?? order
      return gone
        ? { order: local, stale: false, isGone: true }
        : { order: local, stale: true, failure: error }
    }
  }
  return source === 'webhook' ? read() : deps.once(`read:${order.id}`, read)
}

/** Nothing to learn from the provider: it never had the order, or the order has ended for good. */
function isAtRest(order: OrderRow, source: EvidenceSource): boolean {
  if (order.creation === 'refused') return true
  if (!isUntouchable(order.status)) return false
  // A webhook about an ended order, or the search, may tell of money, and late money may still be given back.
  const hasLateMoney = order.paid_after_close && order.refunded_cents < order.paid_cents
  const tellsOfMoney = source === 'webhook' || source === 'search'
  return !tellsOfMoney && !hasLateMoney
}

/** `checkedAt` is null when the provider did not answer: what we know is then no fresher than before. */
async function planNext(
  deps: PaymentDeps,
  order: OrderRow,
  checkedAt: Date | null,
  answered = true,
): Promise<void> {
  const nextCheckAt = nextCheck(order, deps.now(), answered)
  await planCheck(deps.database.db, order.id, { checkedAt, nextCheckAt })
}

export type WaitOptions = {
  /** Longest wait in seconds, 1 to 30. */
  waitSeconds: number
  /** Answer at once when the order is past this version; default: the version before the provider was read. */
  knownVersion?: number | undefined
  signal: AbortSignal
  /** Asked before every look: throws when the caller may no longer see the order. */
  checkAccess: () => Promise<void>
}

/** The row is looked at this often even when no notification comes. */
const lookAgainMs = 1_000

/** While somebody waits, the sweeper looks at least this often, however old the order is. */
const watchedEveryMs = 5_000

/** Has the sweeper look at an order as often as somebody who waits for it may expect. */
export async function watch(deps: PaymentDeps, order: OrderRow): Promise<void> {
  const soon = new Date(deps.now().getTime() + watchedEveryMs)
  // One that is still being made has its own times, at which nobody works beside its request.
  if (order.creation !== 'confirmed' || order.next_check_at === null) return
  if (order.next_check_at <= soon) return
  await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt: soon })
}

/**
 * Reads an order, and with `wait` holds the answer until its version changes, the time is up, or the caller goes. While
 * somebody waits, the sweeper reads the provider for him.
 */
export async function readOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  wait?: WaitOptions,
): Promise<ReadOrder> {
  const before = await requireOrderAnywhere(deps, client, id)
  let read = await refreshOrder(deps, before, 'api')
  if (!wait) return read
  const knownVersion = wait.knownVersion ?? before.version
  const until = performance.now() + wait.waitSeconds * 1000
  while (!isUntouchable(read.order.status) && read.order.version === knownVersion) {
    const leftMs = until - performance.now()
    if (leftMs <= 0 || wait.signal.aborted) break
    await watch(deps, read.order)
    await deps.changes.wait(before.id, Math.min(leftMs, lookAgainMs), wait.signal)
    await wait.checkAccess()
    read = { ...read, order: await requireOrder(deps, client, before.id) }
  }
  return read
}
