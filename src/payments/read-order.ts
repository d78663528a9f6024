import type { ClientName } from '../domain/client-name.ts'
import type { OrderStatus } from '../domain/order.ts'
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
import { shortestCallMs } from './answer-time.ts'
import { type EvidenceSource, hasUnsettledRefund, nextCheck } from './apply-evidence.ts'
import { type PaymentDeps, serviceActor } from './deps.ts'
import { aboutOrder, withOrderAccess } from './order-access.ts'
import { confirmCreation, resolveCreation, searchOrder } from './resolve-creation.ts'
import { takeEvidence } from './take-evidence.ts'

export type ReadOrder = {
  order: OrderRow
  /** The provider could not be asked: this is what we knew before. */
  stale: boolean
  /** Why it could not. */
  failure?: unknown
  /** The provider does not keep it any more: this is what we knew before, and all there will ever be. */
  isGone?: boolean
  /** The state that the provider has shown in this very read; absent when it did not, or none that is known here. */
  shown?: OrderStatus | null
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
 * A webhook's read is its own (`isOwn`), as is one after a change of ours: a read that was under way before may have missed
 * what happened.
 */
export async function refreshOrder(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  deadlineMs = readDeadlineMs,
  isOwn = source === 'webhook',
): Promise<ReadOrder> {
  if (isAtRest(order, source)) {
    // A look that was planned while the order was still open.
    if (order.next_check_at !== null) {
      await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt: null })
    }
    return { order, stale: false }
  }
  const read = () => {
    if (order.creation === 'refused') return searchAgain(deps, order, source, deadlineMs)
    if (order.creation !== 'confirmed' || order.mp_order_id === null) {
      return readUnconfirmed(deps, order, source, deadlineMs)
    }
    return readConfirmed(deps, order, order.mp_order_id, source, deadlineMs)
  }
  return isOwn ? read() : deps.once(`read:${order.id}`, read)
}

async function readUnconfirmed(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  withinMs: number,
): Promise<ReadOrder> {
  const actor = serviceActor(deps.now())
  const outcome = await resolveCreation(deps, order, { source, actor, withinMs })
  if (outcome.kind === 'unknown') {
    return { order: outcome.order, stale: true, failure: outcome.error }
  }
  const shown = outcome.kind === 'confirmed' ? outcome.order.status : null
  return { order: outcome.order, stale: false, shown }
}

/** An order that a search did not find may still turn up: then its row opens again. */
async function searchAgain(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  deadlineMs: number,
): Promise<ReadOrder> {
  try {
    const { evidence } = await searchOrder(deps, order, source, { deadlineMs })
    if (evidence) {
      const actor = serviceActor(deps.now())
      const reopened = await confirmCreation(deps, order, evidence, source, actor)
      return { order: reopened, stale: false, shown: evidence.status }
    }
    await planNext(deps, order, deps.now())
  } catch (error) {
    if (!isProviderFailure(error)) throw error
    await planNext(deps, order, null, false)
  }
  return { order, stale: false }
}

async function readConfirmed(
  deps: PaymentDeps,
  order: OrderRow,
  mpOrderId: string,
  source: EvidenceSource,
  deadlineMs: number,
): Promise<ReadOrder> {
  const until = performance.now() + deadlineMs
  try {
    const evidence = await withOrderAccess(deps, order, (access) =>
      deps.provider.orders.get(access.token, mpOrderId, {
        about: aboutOrder(order, source),
        deadlineMs: Math.max(shortestCallMs, until - performance.now()),
        // Nobody waits for the sweeper: it comes again by itself.
        ...(source === 'sweeper' && { maxAttempts: 1 }),
      }),
    )
    const applied = await deps.database.transaction(async (trx) =>
      takeEvidence(deps, trx, await lockOrder(trx, order.id), evidence, source),
    )
    if (evidence.status === null) {
      const { providerStatus } = evidence
      deps.log.warn({ orderId: order.id, providerStatus }, 'the provider uses an unknown status')
    }
    if (!applied.changed) await planNext(deps, applied.order, deps.now())
    return { order: applied.order, stale: false, shown: applied.shown }
  } catch (error) {
    if (!isProviderFailure(error)) throw error
    const gone =
      error instanceof ProviderError && error.status === 404 && error.providerCode !== null
    await planNext(deps, order, null, gone)
    if (!gone) deps.log.warn({ orderId: order.id, err: error }, 'the provider could not be read')
    const local = (await findOrderOfAnyClient(deps.database.db, order.id)) ?? order
    return gone
      ? { order: local, stale: false, isGone: true }
      : { order: local, stale: true, failure: error }
  }
}

function isProviderFailure(error: unknown): error is ProviderError | AppError {
  return error instanceof ProviderError || error instanceof AppError
}

/** Nothing to learn from the provider: it never had the order (and no search for it is planned), or the order has ended. */
function isAtRest(order: OrderRow, source: EvidenceSource): boolean {
  const tellsOfMoney = source === 'webhook' || source === 'search'
  if (order.creation === 'refused') return !tellsOfMoney && order.next_check_at === null
  if (!isUntouchable(order.status) || hasUnsettledRefund(order)) return false
  // A webhook about an ended order may tell of money, and late money may still be given back.
  const hasLateMoney = order.paid_after_close && order.refunded_cents < order.paid_cents
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
