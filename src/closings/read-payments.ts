import type { ClientName } from '../domain/client-name.ts'
import { AppError } from '../errors.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { withAccess } from '../payments/token-keeper.ts'
import { ProviderError } from '../provider/provider.ts'
import { advanceRead, findRead, type PaymentReadRow } from '../repositories/payment-reads.ts'
import { keepPayments, unreadableAsPayment } from './keep-payments.ts'

/** 100 are in common use; half of that, since a real payment is long and an answer is read up to 1 MiB. */
const pageSize = 50
/** With one reader at an account at a time: no more than four searches a second of all that the account may be asked. */
const betweenPagesMs = 250
const callWithinMs = 15_000

export type ReadOutcome =
  /** Every page was read, and the list was the same from the first to the last. */
  | 'finished'
  /** Cut short, it goes on where it was; or the list changed, and it is read anew. */
  | 'open'

/**
 * Reads what a `payment_reads` row wants of the provider's payments, page by page. A page and how far it brings the reading
 * are committed together, so a crash repeats at most one page, and rows are kept once. A list that changes while it is read
 * is read from its beginning again. Only for whoever holds the account's lease. Throws what a page throws.
 */
export async function readPayments(
  deps: PaymentDeps,
  name: { client: ClientName; name: string },
  signal: AbortSignal,
): Promise<ReadOutcome> {
  let before: string | undefined
  for (;;) {
    const read = await findRead(deps.database.db, name)
    if (!read || read.finished_at) return 'finished'
    if (signal.aborted) return 'open'
    const beganAt = read.began_at ?? deps.now()
    const page = await askPage(deps, read, signal)
    const [first] = page.payments
    // A provider that does not know the parameter answers with the first page for ever.
    if (first && first.paymentId === before) throw new RepeatedPageError(read.name)
    before = first?.paymentId
    const next = nextOf(read, page.rows, page.total, beganAt, deps.now())
    await deps.database.transaction(async (trx) => {
      if (!(await advanceRead(trx, read, next))) return
      const owner = { client: read.client, mpUserId: read.mp_user_id }
      const unreadable = page.unreadable.map((row) => unreadableAsPayment(row, read))
      await keepPayments(trx, owner, [...page.payments, ...unreadable], deps.now())
    })
    for (const { paymentId, status, why } of page.unreadable) {
      const about = { client: read.client, read: read.name, paymentId, status, why }
      deps.log.warn(about, 'a payment of the provider cannot be read; the rest of its page is')
    }
    if (next.finished_at) return 'finished'
    if (next.restarts > read.restarts) return 'open'
    await deps.sleep(betweenPagesMs, signal).catch(() => undefined)
  }
}

/** The search does not page. */
export class RepeatedPageError extends Error {
  override name = 'RepeatedPageError'
}

function askPage(deps: PaymentDeps, read: PaymentReadRow, signal: AbortSignal) {
  return withAccess(deps, read.client, ({ token, mpUserId }) => {
    // Another account's payments say nothing about this one's.
    if (mpUserId !== read.mp_user_id) throw new AppError('ACCOUNT_MISMATCH')
    return deps.provider.payments.search(
      token,
      {
        range: read.range,
        from: read.begins_at,
        to: read.ends_at,
        mpPosId: read.mp_pos_id ?? undefined,
        mpStoreId: read.mp_store_id ?? undefined,
        limit: pageSize,
        offset: read.next_offset,
      },
      { untilMs: deps.stopwatch() + callWithinMs, signal },
    )
  })
}

/**
 * Where a reading stands after a page. The list must have as many entries at its end as at its beginning: an entry that comes
 * into it, or leaves it, moves the others to other pages.
 */
function nextOf(
  read: PaymentReadRow,
  length: number,
  total: number | null,
  beganAt: Date,
  now: Date,
): Pick<PaymentReadRow, 'next_offset' | 'total' | 'began_at' | 'finished_at' | 'restarts'> {
  const isOther = read.next_offset > 0 && read.total !== null && total !== read.total
  const offset = read.next_offset + length
  const isShort = total !== null && length === 0 && offset < total
  if (isOther || isShort) {
    return {
      next_offset: 0,
      total: null,
      began_at: null,
      finished_at: null,
      restarts: read.restarts + 1,
    }
  }
  // A provider may give fewer than asked for: only an empty page ends a list of unknown length.
  const isEnd = total === null ? length === 0 : offset >= total
  return {
    next_offset: offset,
    total,
    began_at: beganAt,
    finished_at: isEnd ? now : null,
    restarts: read.restarts,
  }
}

/** One payment as it is now, by its number, kept like those of a search. `absent` when the account has none of it, or it cannot be read. */
export async function readPayment(
  deps: PaymentDeps,
  owner: { client: ClientName; mpUserId: number },
  paymentId: string,
  signal?: AbortSignal,
): Promise<'read' | 'absent'> {
  const payment = await withAccess(deps, owner.client, ({ token, mpUserId }) => {
    if (mpUserId !== owner.mpUserId) throw new AppError('ACCOUNT_MISMATCH')
    const untilMs = deps.stopwatch() + callWithinMs
    return deps.provider.payments.get(token, paymentId, { untilMs, ...(signal && { signal }) })
  }).catch((error: unknown) => {
    if (!(error instanceof ProviderError)) throw error
    if (error.status === 404) return undefined
    // What the search showed of it stays, and the others are read.
    if (error.kind === 'invalid_answer') {
      deps.log.warn({ client: owner.client, paymentId }, 'a payment of the provider cannot be read')
      return undefined
    }
    throw error
  })
  if (!payment) return 'absent'
  await deps.database.transaction((trx) => keepPayments(trx, owner, [payment], deps.now()))
  return 'read'
}
