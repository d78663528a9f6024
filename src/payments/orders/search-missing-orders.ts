import { constraintOf } from '../../db/database-failures.ts'
import { createBackgroundJob } from '../../jobs/background-job.ts'
import { withLease } from '../../jobs/with-lease.ts'
import { type FoundOrder, ProviderError } from '../../provider/provider.ts'
import { findOrdersOfProvider } from '../../repositories/orders/adopted-orders.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import {
  advanceSearch,
  findOpenSearch,
  listOpenSearches,
  planOrderSearches,
} from '../../repositories/orders/order-searches.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceContext } from '../operations/request-context.ts'
import {
  type Account,
  type Adoption,
  adoptById,
  adoptFound,
  type BoxOfTerminal,
  connectedAccount,
  terminalsOf,
  withAccount,
} from './adopt-orders.ts'
import { refreshOrder } from './read.ts'

/**
 * After a start, searches the provider for orders that this database lacks.
 *
 * A restored backup lacks every order that was made after it. Their webhooks match no order here, and a till that repeats such a
 * sale could charge it again. A restore cannot be detected from inside, so the search runs at every start.
 *
 * Each connected account is searched from a while before its last known order. Missing orders are adopted (adopt-orders.ts), and
 * changed ones are read again. The search runs beside the tills, one page at a time. It skips an account that answers "too many
 * requests" or fails, continues after a crash where it was, and ends.
 */
export type OrderSearch = {
  /** Writes how far back each account is to be searched. Must run before the first sale, which would hide the gap. */
  plan(): Promise<void>
  start(): void
  /** Aborts the page that is being read; the next process reads it again. */
  stop(): Promise<void>
  /** Searches the accounts that are due, as far as possible now. Returns how many are not finished. */
  searchOnce(): Promise<number>
}

const hourMs = 3_600_000
/** Clocks differ between here and the provider. */
const marginMs = hourMs
/** Orders can be read for three months. */
const reachMs = 90 * 24 * hourMs
/** The provider accepts a span of up to 30 days. */
const partMs = 28 * 24 * hourMs
/** A span with more pages than this is cut in two: the provider may not page further. */
const pagesAtMost = 20
const shortestPartMs = 5 * 60_000
/** An order is in the provider's index up to a minute after it was made. */
const indexLagMs = 120_000
const betweenPagesMs = 500
const callWithinMs = 15_000
const accountsAtOnce = 2
const firstRetryMs = 60_000
const longestRetryMs = hourMs
const intervalMs = 10_000

type Figures = { pages: number; orders: number; adopted: number; opened: number; refreshed: number }

export function createOrderSearch(deps: PaymentDeps): OrderSearch {
  /** Accounts that failed, or wait for the provider's index. */
  const waits = new Map<number, { untilMs: number; failures: number }>()
  const sums = new Map<number, Figures>()

  const searchOne = async (mpUserId: number, stopped: AbortSignal) => {
    const failures = waits.get(mpUserId)?.failures ?? 0
    const figures = sums.get(mpUserId) ?? {
      pages: 0,
      orders: 0,
      adopted: 0,
      opened: 0,
      refreshed: 0,
    }
    sums.set(mpUserId, figures)
    try {
      const untilMs = await searchAccount(deps, mpUserId, figures, stopped)
      waits.set(mpUserId, { untilMs, failures: 0 })
    } catch (error) {
      if (stopped.aborted) return
      const untilMs = deps.now().getTime() + retryAfterMs(error, failures)
      waits.set(mpUserId, { untilMs, failures: failures + 1 })
      deps.log.warn({ mpUserId, ...figures, err: error }, 'provider account not searched yet')
    }
  }

  const search = async (stopped: AbortSignal) => {
    const { db } = deps.database
    const nowMs = deps.now().getTime()
    const due = (await listOpenSearches(db))
      .map((search) => search.mp_user_id)
      .filter((mpUserId) => (waits.get(mpUserId)?.untilMs ?? 0) <= nowMs)
    const worker = async () => {
      for (let next = due.shift(); next !== undefined; next = due.shift()) {
        if (stopped.aborted) return
        await searchOne(next, stopped)
      }
    }
    await Promise.all(Array.from({ length: accountsAtOnce }, worker))
    return (await listOpenSearches(db)).length
  }

  const job = createBackgroundJob(deps, {
    name: 'order-search',
    intervalMs,
    run: search,
    isDone: (open) => open === 0,
  })

  return {
    searchOnce: job.once,
    plan: () => planOrderSearches(deps.database.db, deps.now(), { marginMs, reachMs }),
    start: job.start,
    stop: job.stop,
  }
}

function retryAfterMs(error: unknown, failures: number): number {
  const { retryAfterSeconds = null } = error as Partial<ProviderError>
  const askedMs = (retryAfterSeconds ?? 0) * 1000
  return Math.max(askedMs, Math.min(longestRetryMs, firstRetryMs * 2 ** failures))
}

/** Searches as far as possible now; returns when (ms) to continue. */
async function searchAccount(
  deps: PaymentDeps,
  mpUserId: number,
  figures: Figures,
  stopped: AbortSignal,
): Promise<number> {
  const { db } = deps.database
  const account = await connectedAccount(deps, mpUserId)
  const nowMs = deps.now().getTime()
  // Continues when the account is connected.
  if (!account) return nowMs + firstRetryMs
  const searched = await withLease(deps, `order-search:${mpUserId}`, async ({ signal: lost }) => {
    const boxOf = terminalsOf(deps, account)
    let lengthMs = partMs
    for (;;) {
      const search = await findOpenSearch(db, mpUserId)
      if (!search || stopped.aborted || lost.aborted) return nowMs
      const from = search.searched_until
      const endsMs = search.ends_at.getTime()
      const beganMs = deps.now().getTime()
      // An order that was made just before the start may not be in the index yet: it is searched again when it must be.
      const surelyMs = endsMs + indexLagMs
      const isSearched = from.getTime() >= endsMs - indexLagMs
      if (isSearched && beganMs < surelyMs) return surelyMs
      const endMs = Math.min(from.getTime() + lengthMs, endsMs)
      const to = new Date(endMs === endsMs ? endMs + marginMs : endMs)
      const found = await findMissing(deps, account, { from, to }, figures, lengthMs, stopped)
      if (found === 'too many') {
        lengthMs /= 2
        continue
      }
      if (found === 'stopped') return nowMs
      lengthMs = Math.min(partMs, lengthMs * 2)
      for (const order of found) {
        if (stopped.aborted || lost.aborted) return nowMs
        await adoptOrSkip(deps, account, order, boxOf, figures)
      }
      const sureMs = Math.max(from.getTime(), Math.min(endMs, beganMs - indexLagMs))
      await advanceSearch(db, mpUserId, new Date(sureMs), deps.now())
      if (sureMs >= endsMs) {
        deps.log.info({ mpUserId, ...figures }, 'provider account searched for unknown orders')
        return nowMs
      }
      await deps.sleep(betweenPagesMs, stopped).catch(() => undefined)
    }
  })
  // Another process is searching.
  return searched ? searched.result : nowMs + intervalMs
}

/**
 * Reads a span page by page and returns the orders without a row, oldest first: an earlier attempt shows whether a later order is
 * another attempt or another reference. Rows whose state differs at the provider are read again.
 */
async function findMissing(
  deps: PaymentDeps,
  account: Account,
  part: { from: Date; to: Date },
  figures: Figures,
  lengthMs: number,
  stopped: AbortSignal,
): Promise<FoundOrder[] | 'too many' | 'stopped'> {
  const missing: FoundOrder[] = []
  let before: string | undefined
  for (let page = 1; ; page += 1) {
    if (stopped.aborted) return 'stopped'
    const found = await withAccount(deps, account, (token) =>
      deps.provider.orders.list(
        token,
        { ...part, page },
        { untilMs: deps.stopwatch() + callWithinMs, maxAttempts: 1, signal: stopped },
      ),
    ).catch((error: unknown) => {
      if (error instanceof ProviderError && error.failure === 'oversize') return undefined
      throw error
    })
    // A shorter span has fewer and shorter pages.
    if (!found) {
      if (lengthMs > shortestPartMs) return 'too many'
      throw new UnreadableSpanError('an answer is too large')
    }
    const { orders, unreadable, rows: length, pages } = found
    figures.pages += 1
    const isTooMuch = (pages ?? page) > pagesAtMost && lengthMs > shortestPartMs
    if (isTooMuch) return 'too many'
    if (unreadable.length > 0) {
      const about = { mpUserId: account.mpUserId, mpOrderIds: unreadable }
      deps.log.warn(about, 'provider orders not readable; the other orders of the page are read')
    }
    const [first] = orders
    if (length === 0) break
    // A provider that does not support the parameter returns the first page every time. The rest is in shorter spans.
    if (first !== undefined && first.evidence.mpOrderId === before) {
      if (lengthMs > shortestPartMs) return 'too many'
      deps.log.warn({ mpUserId: account.mpUserId, ...part }, 'provider repeats a page of orders')
      break
    }
    before = first?.evidence.mpOrderId ?? before
    figures.orders += orders.length
    const rows = await findOrdersOfProvider(
      deps.database.db,
      orders.map(({ evidence }) => evidence.mpOrderId),
    )
    const known = new Map(rows.map((row) => [row.mp_order_id, row]))
    for (const order of orders) {
      const row = known.get(order.evidence.mpOrderId)
      if (!row) missing.push(order)
      else if (hasMoved(row, order)) await refresh(deps, row, figures)
    }
    if (pages !== null && page >= pages) break
    await deps.sleep(betweenPagesMs, stopped).catch(() => undefined)
  }
  const madeMs = ({ createdAt }: FoundOrder) => createdAt?.getTime() ?? 0
  return missing.toSorted((a, b) => madeMs(a) - madeMs(b))
}

/** The search of a span as short as this one does not show all of its orders. It is tried again later. */
class UnreadableSpanError extends Error {
  override name = 'UnreadableSpanError'
}

function hasMoved(row: OrderRow, { evidence }: FoundOrder): boolean {
  return (
    (evidence.status !== null && evidence.status !== row.status) ||
    evidence.paidCents !== row.paid_cents ||
    evidence.refundedCents !== row.refunded_cents
  )
}

async function refresh(deps: PaymentDeps, row: OrderRow, figures: Figures): Promise<void> {
  const { order } = await refreshOrder(deps, row, serviceContext(deps, 'search'))
  if (order.version !== row.version) figures.refreshed += 1
}

async function adoptOrSkip(
  deps: PaymentDeps,
  account: Account,
  found: FoundOrder,
  boxOf: BoxOfTerminal,
  figures: Figures,
): Promise<void> {
  const { mpOrderId } = found.evidence
  // The short form in the list does not name the application.
  const adoption = await (found.isOurs === null
    ? adoptById(deps, account, mpOrderId, 'search')
    : adoptFound(deps, account, found, 'search', boxOf)
  ).catch((error: unknown): Adoption => {
    // One order that cannot be stored must not block the others.
    if (constraintOf(error) === undefined) throw error
    deps.log.error({ mpUserId: account.mpUserId, mpOrderId, err: error }, 'order not stored')
    return { kind: 'foreign' }
  })
  if (adoption.kind === 'adopted') figures.adopted += 1
  if (adoption.kind === 'confirmed') figures.opened += 1
}
