import type { ClientName } from '../../domain/client-name.ts'
import { isOwn } from '../../domain/money.ts'
import type { OrderEvidence, OrderStatus } from '../../domain/order.ts'
import { chargedBack, isFinal, isOpen } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { isRefundUnderWay } from '../../errors/money-outcome.ts'
import { type CallOptions, ProviderError } from '../../provider/provider.ts'
import type { UsedConnection } from '../../repositories/connection/connection-queries.ts'
import {
  findOrder,
  findOrderWithConnection,
  type OrderRow,
  planCheck,
} from '../../repositories/orders/order-queries.ts'
import type { Along } from '../../repositories/orders/save-order-move.ts'
import { type Access, aboutOrder, type KnownConnection, withAccess } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import {
  byService,
  type EvidenceSource,
  type RequestContext,
  serviceContext,
} from '../request-context.ts'
import { adoptForClient } from './adopt-orders.ts'
import { earlierForWaiting, hasUnsettledRefund, planCheckAt } from './check-and-retry-times.ts'
import { noteUnproven, searchOrder } from './find-at-provider.ts'
import { resolveCreation } from './send-charge.ts'
import { confirmCreation, moveOrder, takeEvidence } from './state.ts'

export type ReadOrder = {
  order: OrderRow
  /** The provider could not be asked: this is the state known before. */
  stale: boolean
  /** Why the provider could not be asked. */
  failure?: unknown
  /** The provider no longer keeps the order: this is the state known before, and it is final. */
  isGone?: boolean
  /** The state that the provider has shown in this read; absent when it showed none, or none that is known here. */
  shown?: OrderStatus | null
  /** This read has moved the order. */
  moved?: boolean
  /** The provider has shown a charge-back in this read, with the cases that it names. */
  disputed?: { caseIds: readonly string[] }
}

/**
 * An order of this client by our id or the provider's.
 *
 * @throws NOT_FOUND, also for another client's order
 */
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
 * The same for a request, which may name by its provider id an order that only the provider has: it is adopted first.
 *
 * @throws NOT_FOUND, and SERVICE_UNAVAILABLE when the provider cannot be asked
 */
export async function requireOrderAnywhere(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  context?: RequestContext,
): Promise<LoadedOrder> {
  const seenMs = performance.now()
  const found = await findOrderWithConnection(deps.database.db, client, id)
  if (found) return loadedAt(found, seenMs)
  await adoptForClient(deps, client, id, context?.untilMs)
  return { order: await requireOrder(deps, client, id), known: undefined }
}

/** An order, and the client's connection as it was at that moment. */
export type LoadedOrder = { order: OrderRow; known: KnownConnection | undefined }

/** `seenMs`: performance.now() before the order and connection were read. */
export function loadedAt(
  { order, connection }: { order: OrderRow; connection: UsedConnection | undefined },
  seenMs: number,
): LoadedOrder {
  return { order, known: connection && { row: connection, seenMs } }
}

type RefreshOptions = {
  /** Does not share a call that is already under way. */
  isOwn?: boolean
  /** The client's connection, as it was read with the order. */
  known?: KnownConnection | undefined
  /** Writes a status check without news a moment later: for a caller that does not act on it. */
  notesLater?: boolean
  /** Sends nothing under the order's key: a creation of unknown outcome is left to the sweeper. For a GET. */
  onlyReads?: boolean
  /** What is written in the statement of the move, if the order moves. */
  along?: ((after: OrderRow) => Along | undefined) | undefined
}

/**
 * The order after a status check. Equal reads share one call. Without an answer from the provider the local row is returned as
 * stale. For an order that the provider no longer keeps (three months) the local row is returned, not stale.
 *
 * A webhook's read is its own (`isOwn`), as is one after a change of ours: a read that began before may have missed the event.
 */
export async function refreshOrder(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  {
    isOwn = context.source === 'webhook',
    known,
    notesLater = false,
    onlyReads = false,
    along,
  }: RefreshOptions = {},
): Promise<ReadOrder> {
  if (isAtRest(order, context.source)) {
    // A status check that was planned while the order was open.
    if (order.next_check_at !== null) {
      await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt: null })
    }
    return { order, stale: false }
  }
  const read = () => {
    if (order.creation === 'refused') return searchAgain(deps, order, context)
    if (order.creation !== 'confirmed' || order.mp_order_id === null) {
      return onlyReads ? leaveToSweeper(deps, order) : readUnconfirmed(deps, order, context)
    }
    return readConfirmed(deps, order, order.mp_order_id, context, { known, notesLater, along })
  }
  if (isOwn) return read()
  if (!notesLater) return deps.once(`read:${order.id}`, read)
  const shared = await deps.once(`check:${order.id}`, read)
  // A call that began earlier may have an older version than this request has read since.
  return shared.order.version < order.version ? { ...shared, order } : shared
}

/** The sweeper processes the order at once, except while the request that charges has the lease. */
async function leaveToSweeper(deps: PaymentDeps, order: OrderRow): Promise<ReadOrder> {
  const now = deps.now()
  const isBeingSent = order.sender_until !== null && order.sender_until > now
  if (!isBeingSent) {
    await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt: now })
    deps.wakeSweeper()
  }
  return { order, stale: true }
}

async function readUnconfirmed(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
): Promise<ReadOrder> {
  const outcome = await resolveCreation(deps, order, byService(deps, context))
  if (outcome.kind === 'unknown') {
    return { order: outcome.order, stale: true, failure: outcome.error }
  }
  const shown = outcome.kind === 'confirmed' ? outcome.order.status : null
  return { order: outcome.order, stale: false, shown }
}

/** An order that a search did not find may appear later: then its row is reopened. */
async function searchAgain(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
): Promise<ReadOrder> {
  try {
    const { evidence, unproven } = await searchOrder(deps, order, context)
    if (evidence) {
      const reopened = await confirmCreation(deps, order, evidence, byService(deps, context))
      return { order: reopened, stale: false, shown: evidence.status }
    }
    if (unproven.length > 0) await noteUnproven(deps, order, unproven, context.source)
    return { order: await planNext(deps, order, deps.now()), stale: false }
  } catch (error) {
    if (!isProviderFailure(error)) throw error
    return { order: await planNext(deps, order, null, false), stale: false }
  }
}

async function readConfirmed(
  deps: PaymentDeps,
  order: OrderRow,
  mpOrderId: string,
  context: RequestContext,
  { known, notesLater, along }: Pick<RefreshOptions, 'known' | 'notesLater' | 'along'>,
): Promise<ReadOrder> {
  const get = ({ token }: Access, options: CallOptions) =>
    deps.provider.orders.get(token, mpOrderId, {
      ...options,
      // The sweeper tries again later by itself.
      ...(context.source === 'sweeper' && { maxAttempts: 1 }),
    })
  try {
    const evidence = await withAccess(deps, order.client, get, aboutOrder(order, context, known))
    const checkedAt = deps.now()
    const check = notesLater ? { checkedAt, notedLater: true as const } : { checkedAt }
    const applied = await takeEvidence(deps, order, () => evidence, context.source, {
      check,
      along,
    })
    if (evidence.status === null) {
      const { providerStatus } = evidence
      deps.log.warn({ orderId: order.id, providerStatus }, 'unknown provider status')
    }
    const disputed = disputeIn(evidence)
    const { order: after, shown, changed: moved } = applied
    const read = { order: after, stale: false, shown, moved }
    return disputed ? { ...read, disputed } : read
  } catch (error) {
    if (!isProviderFailure(error)) throw error
    const gone =
      error instanceof ProviderError && error.status === 404 && error.providerCode !== null
    const local = await planNext(deps, order, null, gone)
    if (!gone) deps.log.warn({ orderId: order.id, err: error }, 'provider order not read')
    return gone
      ? { order: local, stale: false, isGone: true }
      : { order: local, stale: true, failure: error }
  }
}

/** By the evidence: an answer that contradicts the order does not change its row. */
function disputeIn({
  providerStatus,
  payments,
  caseIds = [],
}: OrderEvidence): ReadOrder['disputed'] {
  const isShown =
    providerStatus === chargedBack ||
    payments.some((payment) => isOwn(payment) && payment.status === chargedBack)
  return isShown || caseIds.length > 0 ? { caseIds } : undefined
}

function isProviderFailure(error: unknown): error is ProviderError | AppError {
  return error instanceof ProviderError || error instanceof AppError
}

/** Whether the provider can show nothing new: it never had the order and no search is planned, or the order has ended. */
function isAtRest(order: OrderRow, source: EvidenceSource): boolean {
  const showsMoney = source === 'webhook' || source === 'search'
  if (order.creation === 'refused') return !showsMoney && order.next_check_at === null
  if (!isFinal(order.status) || hasUnsettledRefund(order)) return false
  // A webhook about an ended order may mean money, and a late payment may still be refunded.
  const hasLateMoney = order.paid_after_close && order.refunded_cents < order.paid_cents
  return !showsMoney && !hasLateMoney
}

/**
 * The order as it is now, with the time of its next status check. `checkedAt` is null when the provider did not answer: the state
 * is then no fresher than before.
 */
async function planNext(
  deps: PaymentDeps,
  order: OrderRow,
  checkedAt: Date | null,
  answered = true,
): Promise<OrderRow> {
  const nothing = () => undefined
  const moved = await moveOrder(deps, deps.database.db, order, 'api', nothing, {
    check: { checkedAt },
    plan: (now) => planCheckAt(now, deps.now(), answered),
  })
  return moved.order
}

/** The order as it is now: only the provider gives it another status, so that one is not stale. */
function readMeanwhile(earlier: ReadOrder, order: OrderRow): ReadOrder {
  return order.status === earlier.order.status ? { ...earlier, order } : { order, stale: false }
}

type WaitOptions = {
  /** Longest wait in seconds, 1 to 30. */
  waitSeconds: number
  /**
   * Answers at once when the order is past this version. Default: the version before the provider was read; an order that is no
   * longer open is answered at once, since the caller may not know how it ended.
   */
  knownVersion?: number | undefined
  signal: AbortSignal
  /**
   * Called before the row is read again.
   *
   * @throws when the caller may no longer see the order
   */
  checkAccess: () => Promise<void>
}

/** The row is read at this interval even without a notification. */
const readAgainMs = 1_000

/** Makes the sweeper check an order as often as a waiting client needs. */
async function watch(deps: PaymentDeps, order: OrderRow): Promise<void> {
  const nextCheckAt = earlierForWaiting(order, deps.now())
  if (nextCheckAt) await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt })
}

/**
 * Reads an order. With `wait` the answer waits until the order's version changes, the time is up, or the client disconnects;
 * meanwhile the sweeper reads the provider. `found` is the order as this request has already read it.
 */
export async function readOrder(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  { found, wait }: { found?: LoadedOrder | undefined; wait?: WaitOptions | undefined } = {},
): Promise<ReadOrder> {
  const { order: before, known } = found ?? (await requireOrderAnywhere(deps, client, id))
  const context = serviceContext(deps, 'api')
  let read = await refreshOrder(deps, before, context, {
    known,
    notesLater: wait === undefined,
    onlyReads: true,
  })
  if (!wait) return read
  const isUnderWay = ({ order }: ReadOrder) => isOpen(order.status) || isRefundUnderWay(order)
  if (wait.knownVersion === undefined && !isUnderWay(read)) return read
  const knownVersion = wait.knownVersion ?? before.version
  const until = performance.now() + wait.waitSeconds * 1000
  const mayChange = (one: ReadOrder) => !isFinal(one.order.status) || isUnderWay(one)
  while (mayChange(read) && read.order.version === knownVersion) {
    const leftMs = until - performance.now()
    if (leftMs <= 0 || wait.signal.aborted) break
    await watch(deps, read.order)
    await deps.changes.wait(before.id, Math.min(leftMs, readAgainMs), wait.signal)
    await wait.checkAccess()
    read = readMeanwhile(read, await requireOrder(deps, client, before.id))
  }
  return read
}
