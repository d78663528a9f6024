import type { ClientName } from '../../domain/client-name.ts'
import { ProviderError } from '../../provider/provider.ts'
import {
  advanceRead,
  findRead,
  type PaymentReadRow,
  type ReadProgress,
} from '../../repositories/provider-payments/payment-reads.ts'
import { callForShop, type Shop } from '../connection/account-calls.ts'
import type { PaymentDeps } from '../deps.ts'
import { saveOwnPayments, unreadableAsPayment } from './save-payments.ts'

/** 100 is a usual page size. Half of it is used, since a real payment is long and an answer is read up to 1 MiB. */
const pageSize = 50
/** With one reader per account at a time: at most four searches a second of the account's rate limit. */
const betweenPagesMs = 250
/**
 * With more results than this the span is split instead of paged. If the provider refuses a smaller offset, the span is split
 * there.
 */
const resultsAtMost = 10_000
/** After so many restarts the list is read to its end, although it changes. */
const restartsAtMost = 3
/** The span is not split below this. */
const shortestPartMs = 1_000

type ReadOutcome =
  /** Every page was read. */
  | 'finished'
  /** Interrupted; the next call continues where it was. */
  | 'open'

/**
 * Reads the provider's payments that a `payment_reads` row asks for, page by page. A page and the progress are committed
 * together, so a crash repeats at most one page, and each row is stored once.
 *
 * A list that changes while it is read is read again from its beginning, `restartsAtMost` times. Then its pages overlap, so that
 * no row falls between two pages, and the rows seen count. A list that is too long for the search is read in parts of the span.
 * The caller must have the account's lease.
 *
 * @throws the error of a page, `RepeatedPageError` and `ListTooLongError`
 */
export async function readPayments(
  deps: PaymentDeps,
  name: { client: ClientName; name: string },
  signal: AbortSignal,
): Promise<ReadOutcome> {
  let before: string | undefined
  let limit = pageSize
  for (;;) {
    const read = await findRead(deps.database.db, name)
    if (!read || read.finished_at) return 'finished'
    if (signal.aborted) return 'open'
    const beganAt = read.began_at ?? deps.now()
    const page = await askPage(deps, read, limit, signal)
    if (page === 'oversize') {
      // Long payments: fewer of them fit in an answer.
      limit = Math.max(1, Math.floor(limit / 4))
      continue
    }
    if (page === 'too_long') {
      await advanceRead(deps.database.db, read, halved(read))
      before = undefined
      continue
    }
    const [first] = page.payments
    // A provider that does not support the parameter returns the first page every time.
    if (first && first.paymentId === before) throw new RepeatedPageError(read.name)
    const next = nextOf(read, page.rows, page.total, beganAt, deps.now())
    before = next.next_offset === 0 ? undefined : first?.paymentId
    await deps.database.transaction(async (trx) => {
      if (!(await advanceRead(trx, read, next))) return
      const owner = { client: read.client, mpUserId: read.mp_user_id }
      const unreadable = page.unreadable.map((row) => unreadableAsPayment(row, read))
      await saveOwnPayments(deps, trx, owner, [...page.payments, ...unreadable])
    })
    for (const { paymentId, status, why } of page.unreadable) {
      const about = { client: read.client, read: read.name, paymentId, status, why }
      deps.log.warn(about, 'provider payment not readable; the other payments of the page are read')
    }
    if (next.finished_at) return 'finished'
    await deps.sleep(betweenPagesMs, signal).catch(() => undefined)
  }
}

/** The search does not page. */
class RepeatedPageError extends Error {
  override name = 'RepeatedPageError'
}

/** So many payments in so short a span that the search does not show all of them. */
class ListTooLongError extends Error {
  override name = 'ListTooLongError'
}

async function askPage(
  deps: PaymentDeps,
  read: PaymentReadRow,
  limit: number,
  signal: AbortSignal,
) {
  const wanted = {
    range: read.range,
    ...partOf(read),
    mpPosId: read.mp_pos_id ?? undefined,
    mpStoreId: read.mp_store_id ?? undefined,
    limit,
    offset: read.next_offset,
  }
  const page = await callForShop(
    deps,
    { client: read.client, mpUserId: read.mp_user_id },
    (token, options) => deps.provider.payments.search(token, wanted, options),
    signal,
  ).catch((error: unknown) => {
    if (error instanceof ProviderError && error.failure === 'oversize' && limit > 1) {
      return 'oversize' as const
    }
    // The same search with a smaller offset was answered.
    const isRefused = error instanceof ProviderError && error.status === 400
    if (isRefused && read.next_offset > 0) return 'too_long' as const
    throw error
  })
  if (page === 'too_long' || page === 'oversize') return page
  return read.next_offset === 0 && (page.total ?? 0) > resultsAtMost ? 'too_long' : page
}

function partOf(read: PaymentReadRow): { from: Date; to: Date } {
  return { from: read.part_begins_at ?? read.begins_at, to: read.part_ends_at ?? read.ends_at }
}

/** The first half of the part that is being read. */
function halved(read: PaymentReadRow): ReadProgress {
  const { from, to } = partOf(read)
  const halfMs = Math.floor((to.getTime() - from.getTime()) / 2)
  if (halfMs < shortestPartMs) throw new ListTooLongError(read.name)
  return {
    next_offset: 0,
    total: null,
    began_at: read.began_at,
    finished_at: null,
    restarts: read.restarts,
    part_begins_at: from,
    part_ends_at: new Date(from.getTime() + halfMs),
  }
}

/**
 * The progress after a page. The list must have as many entries at its end as at its beginning: an added or removed entry moves
 * the others to other pages. After enough restarts only the pages count.
 */
function nextOf(
  read: PaymentReadRow,
  length: number,
  total: number | null,
  beganAt: Date,
  now: Date,
): ReadProgress {
  const { part_begins_at, part_ends_at, restarts } = read
  const sameList = { began_at: beganAt, finished_at: null, restarts, part_begins_at, part_ends_at }
  const isLast = restarts >= restartsAtMost
  const isOther = read.next_offset > 0 && read.total !== null && total !== read.total
  const offset = read.next_offset + length
  const isShort = total !== null && length === 0 && offset < total
  if (!isLast && (isOther || isShort)) {
    const began_at = part_begins_at === null ? null : beganAt
    return { ...sameList, next_offset: 0, total: null, began_at, restarts: restarts + 1 }
  }
  // A provider may return fewer than requested: only an empty page ends a list of unknown or changing length.
  const isEnd = isLast || total === null ? length === 0 : offset >= total
  if (!isEnd) return { ...sameList, next_offset: isLast ? overlapped(read, length) : offset, total }
  const { from, to } = partOf(read)
  if (to >= read.ends_at) return { ...sameList, next_offset: offset, total, finished_at: now }
  const endsMs = Math.min(
    to.getTime() + 2 * (to.getTime() - from.getTime()),
    read.ends_at.getTime(),
  )
  return {
    ...sameList,
    next_offset: 0,
    total: null,
    part_begins_at: to,
    part_ends_at: new Date(endsMs),
  }
}

/** After a full page the next one begins in its middle. */
function overlapped(read: PaymentReadRow, length: number): number {
  return read.next_offset + (length === pageSize ? pageSize / 2 : length)
}

/**
 * One payment as it is now, read by its number and stored like those of a search. `absent` when the account does not have it, or
 * it cannot be read.
 */
export async function readPayment(
  deps: PaymentDeps,
  owner: Shop,
  paymentId: string,
  signal?: AbortSignal,
): Promise<'read' | 'absent'> {
  const payment = await callForShop(
    deps,
    owner,
    (token, options) => deps.provider.payments.get(token, paymentId, options),
    signal,
  ).catch((error: unknown) => {
    if (!(error instanceof ProviderError)) throw error
    if (error.status === 404) return undefined
    // What the search showed of it stays, and the others are read.
    if (error.kind === 'invalid_answer') {
      deps.log.warn({ client: owner.client, paymentId }, 'provider payment not readable')
      return undefined
    }
    throw error
  })
  if (!payment) return 'absent'
  await deps.database.transaction((trx) => saveOwnPayments(deps, trx, owner, [payment]))
  return 'read'
}
